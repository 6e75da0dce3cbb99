"""Every installed loss, with the inputs it needs, agrees with the oracle; a missing one says how to install it."""

import sys
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

from stopwav import StopwavError
from stopwav.losses.implementation import Implementation, Needs
from stopwav.losses.registry import BUILT_IN, ListedLoss, MissingLoss, check_name, find_loss, installed_losses

torch = pytest.importorskip("torch")

from stopwav.losses.joiner_batch import make_joiner_batch, packed_logits, padded_logits  # noqa: E402
from stopwav.losses.oracle import oracle_loss  # noqa: E402

SHAPES = [((9, 6, 4), (5, 3, 2)), ((25, 2), (8, 1)), ((1, 7), (1, 3))]


def oracle(frames: tuple[int, ...], tokens: tuple[int, ...], blank: int) -> tuple[float, list[object]]:
    batch = make_joiner_batch(frames, tokens, vocab=11, dim=8, blank=blank, precision="float64")
    lengths = (batch.targets, batch.frame_lengths, batch.target_lengths)
    total = oracle_loss(padded_logits(batch), *lengths, blank).sum()
    total.backward()
    return float(total.detach()), [leaf.grad for leaf in batch.leaves.values()]


@pytest.mark.parametrize("name", ["torch", *(name for name in installed_losses("cpu") if name != "torch")])
@pytest.mark.parametrize("blank", [0, 4, 10])
@pytest.mark.parametrize(("frames", "tokens"), SHAPES)
def test_value_and_gradients_are_the_oracles(
    name: str, blank: int, frames: tuple[int, ...], tokens: tuple[int, ...]
) -> None:
    implementation = find_loss(name)
    batch = make_joiner_batch(frames, tokens, vocab=11, dim=8, blank=blank, integers=implementation.needs.integers)
    total = (implementation.unpruned or implementation.losses)(batch).sum()
    total.backward()
    expected, gradients = oracle(frames, tokens, blank)
    assert float(total.detach()) == pytest.approx(expected, rel=1e-5)
    for leaf, gradient in zip(batch.leaves.values(), gradients, strict=True):
        torch.testing.assert_close(leaf.grad.double(), gradient, rtol=1e-4, atol=1e-5)


def test_logits_of_an_unsupported_type_are_cast() -> None:
    """From float64 here: not every processor that reports bfloat16 has it."""
    seen = []

    def loss(logits: object, *_: object) -> object:
        seen.append(logits.dtype)  # type: ignore[attr-defined]
        return logits

    batch = make_joiner_batch((3,), (1,), vocab=5, dim=3, precision="float64")
    for dtypes in (("float32",), ("float32", "float64")):
        Implementation("own", "", Needs(dtypes=dtypes), loss).losses(batch)
    assert seen == [torch.float32, torch.float64]


def test_a_batch_with_more_logits_than_a_loss_supports_is_refused_before_they_are_computed() -> None:
    batch = make_joiner_batch((3, 2), (1, 1), vocab=5, dim=3)
    Implementation("own", "", Needs(max_logits=60), lambda logits, *_: logits).losses(batch)
    with pytest.raises(
        StopwavError, match=r"own supports at most 59 logits and would be wrong, without an error, on a batch with 60"
    ):
        Implementation("own", "", Needs(max_logits=59), lambda *_: pytest.fail("called")).losses(batch)


def test_torchaudios_offsets_of_32_bits_are_respected() -> None:
    """The logits of such a batch would take 9 GB."""
    [needs] = [listed.needs for listed in BUILT_IN if listed.name == "torchaudio"]
    batch = make_joiner_batch((400,) * 112, (100,) * 112, vocab=500, dim=1)
    with pytest.raises(StopwavError, match=r"2,147,483,648 logits .* a batch with 2,262,400,000"):
        Implementation("torchaudio", "", needs, lambda *_: pytest.fail("called")).losses(batch)


@pytest.mark.gpu
@pytest.mark.parametrize("name", installed_losses("cuda"))
@pytest.mark.parametrize("precision", ["float32", "bfloat16"])
def test_value_on_cuda(name: str, precision: str) -> None:
    if not torch.cuda.is_available():
        pytest.skip("no CUDA device")
    implementation = find_loss(name)
    options = {"precision": precision, "device": "cuda", "integers": implementation.needs.integers}
    batch = make_joiner_batch((9, 6), (5, 3), vocab=11, dim=8, **options)
    total = (implementation.unpruned or implementation.losses)(batch).sum()
    total.backward()
    assert float(total.detach()) == pytest.approx(
        oracle((9, 6), (5, 3), 0)[0], rel=1e-4 if precision == "float32" else 0.02
    )


def test_packed_logits_are_the_real_cells_of_the_padded_ones() -> None:
    batch = make_joiner_batch((4, 2), (1, 3), vocab=5, dim=3)
    padded, packed = padded_logits(batch), packed_logits(batch)
    assert packed.shape == (4 * 2 + 2 * 4, 5)
    torch.testing.assert_close(packed[:8], padded[0, :4, :2].flatten(0, 1))
    torch.testing.assert_close(packed[8:], padded[1, :2, :4].flatten(0, 1))


def test_batches_are_the_same_with_any_integers_and_precision() -> None:
    first = make_joiner_batch((4, 2), (1, 3), vocab=5, dim=3, seed=7)
    second = make_joiner_batch((4, 2), (1, 3), vocab=5, dim=3, seed=7, integers="int32", precision="float64")
    assert torch.equal(first.encoder.double(), second.encoder)
    assert torch.equal(first.targets, second.targets.long())
    assert second.targets.dtype == torch.int32
    for blank in range(5):
        targets = make_joiner_batch((4, 2), (1, 3), vocab=5, dim=3, blank=blank).targets
        assert not (targets == blank).any()


def test_the_range_of_the_pruned_loss_is_an_option() -> None:
    if "k2-pruned" not in installed_losses("cpu"):
        pytest.skip("neither k2 nor fast_rnnt is installed")
    batch = make_joiner_batch((40, 30), (20, 12), vocab=17, dim=16)
    exact, narrow, wide = (
        float(find_loss(name).pruned(batch).detach().sum())
        if name != "k2"
        else float(find_loss(name).losses(batch).detach().sum())
        for name in ("k2", "k2-pruned,range=3", "k2-pruned,range=10")
    )
    # Leaving paths out of the sum makes the loss larger, and less so the wider the range.
    assert narrow > wide > exact
    with pytest.raises(StopwavError, match="whole number from 2"):
        find_loss("k2-pruned,range=1")


MISSING = [listed for listed in BUILT_IN if listed.version is None]


@pytest.mark.parametrize("listed", MISSING, ids=lambda listed: listed.name)
def test_a_missing_loss_says_how_to_install_it(listed: ListedLoss) -> None:
    with pytest.raises(MissingLoss) as error:
        find_loss(listed.name)
    assert listed.install in str(error.value)
    assert listed.install in check_name(listed.name)


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("torcha", "did you mean 'torch"),
        ("gone.py:f", "no file 'gone.py'"),
        ("torch,range=3", "takes no options"),
        ("torch,nonsense", "is not key=value"),
    ],
)
def test_an_unknown_name_is_an_error(name: str, message: str) -> None:
    with pytest.raises(StopwavError, match=message):
        find_loss(name)


# Where each adapter finds its package's function, how it passes the blank, and its options.
PACKAGES = {
    "torchaudio": ("torchaudio.functional", "rnnt_loss", {"reduction": "none"}),
    "warp-transducer": ("warprnnt_pytorch", "rnnt_loss", {"reduction": "none"}),
    "warp-rnnt": ("warp_rnnt", "rnnt_loss", {}),
    "warp-rnnt-gather": ("warp_rnnt", "rnnt_loss", {"gather": True}),
    "warp-rnnt-compact": ("warp_rnnt", "rnnt_loss", {"compact": True}),
    "optimized-transducer": (
        "optimized_transducer",
        "transducer_loss",
        {"reduction": "sum", "from_log_softmax": False},
    ),
    "warprnnt-numba": ("warprnnt_numba", "RNNTLossNumba", {"reduction": "none"}),
    "nemo": ("nemo.collections.asr.parts.numba.rnnt_loss", "RNNTLossNumba", {"reduction": "none"}),
    "speechbrain": ("speechbrain.nnet.loss.transducer_loss", "Transducer", {}),
}


@pytest.mark.parametrize("name", PACKAGES)
def test_an_adapter_calls_its_package(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """With a stand-in for the package, which returns the arguments of the call."""
    module, attribute, options = PACKAGES[name]

    def function(*values: Any, **named: Any) -> Any:
        return values, named

    stand_in: Any = {
        "RNNTLossNumba": lambda **named: lambda *values: (values, named),
        "Transducer": SimpleNamespace(apply=lambda *values: (values[:4], {"blank": values[4]})),
    }.get(attribute, function)
    for end in range(module.count(".") + 1):
        package = ".".join(module.split(".")[: end + 1])
        monkeypatch.setitem(sys.modules, package, ModuleType(package))
    monkeypatch.setattr(sys.modules[module], attribute, stand_in, raising=False)
    [load] = [listed.load for listed in BUILT_IN if listed.name == name]
    targets, target_lengths = torch.tensor([[1, 2], [3, 0]]), torch.tensor([2, 1])
    values, named = load()("logits", targets, "frames", target_lengths, 4)
    if name == "optimized-transducer":
        values = [named.pop(key) for key in ("logits", "targets", "logit_lengths", "target_lengths")]
    expected = torch.tensor([1, 2, 3]) if name == "warp-rnnt-compact" else targets
    assert (values[0], values[2], values[3]) == ("logits", "frames", target_lengths)
    assert torch.equal(values[1], expected)
    assert named == {"blank": 4, **options}


OWN = """
def packed(logits, targets, frame_lengths, target_lengths, blank):
    assert logits.dim() == 2 and targets.dtype.is_signed and str(targets.dtype) == "torch.int32"
    assert abs(logits[0].detach().exp().sum().item() - 1) < 1e-5
    return -logits[:, blank]
"""


def test_a_users_own_loss_gets_the_inputs_it_needs(tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text(OWN)
    implementation = find_loss(f"{tmp_path}/mine.py:packed,logits=packed,log_softmax=outside,integers=int32")
    batch = make_joiner_batch((4, 2), (1, 3), vocab=5, dim=3, integers=implementation.needs.integers)
    assert implementation.losses(batch).shape == (16,)
    with pytest.raises(StopwavError, match="give one of padded, packed"):
        find_loss(f"{tmp_path}/mine.py:packed,logits=round")
    with pytest.raises(StopwavError, match="no function"):
        find_loss(f"{tmp_path}/mine.py:other")
