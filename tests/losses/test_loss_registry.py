"""Every installed loss, with the inputs it needs, agrees with the oracle; a missing one says how to install it."""

import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from peer_process import ask, peer

from stopwav import StopwavError
from stopwav.losses import adapters
from stopwav.losses.implementation import Implementation, Needs
from stopwav.losses.registry import (
    BUILT_IN,
    ListedLoss,
    MissingLoss,
    check_name,
    find_loss,
    installed_losses,
    split_name,
)
from stopwav.measure.process import FreshProcess

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


@pytest.fixture(scope="module", params=["torch", *(name for name in installed_losses("cpu") if name != "torch")])
def loss(request: pytest.FixtureRequest) -> Iterator[FreshProcess]:
    """Each installed loss, in a process of its own."""
    with peer(request.param) as process:
        yield process


@pytest.mark.parametrize("blank", [0, 4, 10])
@pytest.mark.parametrize(("frames", "tokens"), SHAPES)
def test_value_and_gradients_are_the_oracles(
    loss: FreshProcess, blank: int, frames: tuple[int, ...], tokens: tuple[int, ...]
) -> None:
    total, gradients = ask(loss, "total_and_gradients", frames, tokens, {"blank": blank})
    expected, true_gradients = oracle(frames, tokens, blank)
    assert total == pytest.approx(expected, rel=1e-5)
    for gradient, true_gradient in zip(gradients, true_gradients, strict=True):
        torch.testing.assert_close(torch.from_numpy(gradient), true_gradient, rtol=1e-4, atol=1e-5)


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
    with pytest.raises(StopwavError, match=r"own supports at most 59 logits and would die, .* a batch with 60"):
        Implementation("own", "", Needs(max_logits=59), lambda *_: pytest.fail("called")).losses(batch)


# Losses that fail with more logits than 32 bits count, and how each holds those of a batch.
FEW_LOGITS = {
    "torchaudio": "padded",
    "warp-rnnt": "padded",
    "warp-transducer": "padded",
    "optimized-transducer": "packed",
}


def test_the_losses_that_refuse_many_logits() -> None:
    limits = {listed.name: listed.needs.max_logits for listed in BUILT_IN if listed.needs.max_logits is not None}
    assert limits == {**dict.fromkeys(FEW_LOGITS, 2**31), "warp-rnnt-compact": 2**32}
    assert {name: listed_needs(name).logits for name in FEW_LOGITS} == FEW_LOGITS


def listed_needs(name: str) -> Needs:
    [needs] = [listed.needs for listed in BUILT_IN if listed.name == name]
    return needs


@pytest.mark.parametrize("name", FEW_LOGITS)
def test_offsets_of_32_bits_are_respected(name: str) -> None:
    """The logits of such batches would take 9 GB: the stand-in for the package is never called."""
    needs = listed_needs(name)
    implementation = Implementation(name, "", needs, lambda *_: pytest.fail("called"))
    full = make_joiner_batch((400,) * 112, (100,) * 112, vocab=500, dim=1)
    with pytest.raises(StopwavError, match=r"2,147,483,648 logits .* a batch with 2,262,400,000"):
        implementation.losses(full)
    # One long utterance among short ones: many padded logits, and few packed.
    padded = make_joiner_batch((400, *(1,) * 111), (100, *(1,) * 111), vocab=500, dim=1)
    assert needs.logit_count(padded) == (2_262_400_000 if needs.logits == "padded" else (400 * 101 + 111 * 2) * 500)


@pytest.mark.gpu
@pytest.mark.parametrize("name", installed_losses("cuda"))
def test_value_on_cuda(name: str) -> None:
    if not torch.cuda.is_available():
        pytest.skip("no CUDA device")
    expected, _ = oracle((9, 6), (5, 3), 0)
    with peer(name) as process:
        for precision, tolerance in (("float32", 1e-4), ("bfloat16", 0.02)):
            options = {"precision": precision, "device": "cuda"}
            total, _ = ask(process, "total_and_gradients", (9, 6), (5, 3), options)
            assert total == pytest.approx(expected, rel=tolerance), precision


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
    values = []
    for name in ("k2", "k2-pruned,range=3", "k2-pruned,range=10"):
        with peer(name) as process:
            values.append(ask(process, "losses", (40, 30), (20, 12), name != "k2"))
    exact, narrow, wide = values
    # Leaving paths out of the sum makes the loss larger, and less so the wider the range.
    assert narrow > wide > exact


@pytest.mark.parametrize("value", ["1", "--5", "-", "²", "5.5", "nan", "[[", "1" * 5000, ""])
def test_a_range_that_is_none_is_an_error_in_one_line(value: str) -> None:
    name, options = split_name(f"k2-pruned,range={value}")
    assert name == "k2-pruned"
    with pytest.raises(StopwavError, match="give a whole number from 2") as error:
        adapters.k2_pruned(**options)
    assert "\n" not in str(error.value)


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
    for function in (find_loss, check_name):  # in its process, and before one is started
        with pytest.raises(StopwavError, match=message):
            function(name)


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
}


@pytest.mark.parametrize("name", PACKAGES)
def test_an_adapter_calls_its_package(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """With a stand-in for the package, which returns the arguments of the call."""
    module, attribute, options = PACKAGES[name]

    def function(*values: Any, **named: Any) -> Any:
        return values, named

    stand_in: Any = {
        "RNNTLossNumba": lambda **named: lambda *values: (values, named),
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
