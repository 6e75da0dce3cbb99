"""Parameters and multiply-adds of torch networks whose numbers are worked out by hand."""

from collections.abc import Callable
from contextlib import suppress
from typing import Any

import pytest

torch = pytest.importorskip("torch")
from stopwav.studies.compare.network_size import OUTSIDE, count_multiply_adds, count_parameters  # noqa: E402


class Tied(torch.nn.Module):  # type: ignore[misc, name-defined]
    def __init__(self) -> None:
        super().__init__()
        self.embedding = torch.nn.Embedding(5, 8)
        self.body = torch.nn.Sequential(torch.nn.Linear(8, 8), torch.nn.Linear(8, 8, dtype=torch.float16))
        self.output = torch.nn.Linear(8, 5)
        self.output.weight = self.embedding.weight
        self.scale = torch.nn.Parameter(torch.ones(3), requires_grad=False)


def test_a_tied_embedding_counts_once_and_is_named() -> None:
    counted = count_parameters(Tied(), depth=1)
    # 40 for the embedding, 72 and 72 for the body, 5 for the bias of the output, 3 for the scale.
    assert counted["parameters"] == 40 + 144 + 5 + 3
    assert counted["trainable"] == 40 + 144 + 5
    assert counted["bytes"] == 4 * (40 + 72 + 5 + 3) + 2 * 72
    assert counted["shared"] == [{"names": ["embedding.weight", "output.weight"], "parameters": 40}]
    by_name = {module["name"]: module["parameters"] for module in counted["modules"]}
    assert by_name == {"(itself)": 3, "embedding": 40, "body": 144, "output": 5}
    assert sum(by_name.values()) == counted["parameters"]


def test_a_tensor_shared_by_its_memory_alone_is_found_too() -> None:
    network = Tied()
    network.output.weight = torch.nn.Parameter(network.embedding.weight.data)
    assert count_parameters(network, depth=0)["parameters"] == 192
    assert count_parameters(network, depth=0)["modules"] == []


def test_depth_goes_down_the_modules() -> None:
    names = [module["name"] for module in count_parameters(Tied(), depth=2)["modules"]]
    assert names == ["(itself)", "embedding", "body", "body.0", "body.1", "output"]


def test_parts_of_one_block_of_memory_are_not_shared() -> None:
    flat = torch.zeros(12)
    network = torch.nn.ParameterList([torch.nn.Parameter(flat[:6]), torch.nn.Parameter(flat[6:])])
    assert count_parameters(network, depth=1)["parameters"] == 12
    assert count_parameters(network, depth=1)["shared"] == []


def test_a_network_without_memory_is_counted_too() -> None:
    with torch.device("meta"):
        network = torch.nn.Sequential(torch.nn.Linear(4, 4), torch.nn.Linear(4, 4))
    assert count_parameters(network, depth=1)["parameters"] == 40


def counted(network: Any, call: Callable[[], object], depth: int = 1) -> tuple[int, dict[str, int]]:
    with torch.inference_mode():
        found = count_multiply_adds(network, call, depth)
    return found["multiply_adds"], found["modules"]


def test_linear_and_convolution_by_hand() -> None:
    network = torch.nn.ModuleDict({"front": torch.nn.Conv1d(3, 4, 5), "back": torch.nn.Linear(4, 6)})

    def call() -> None:
        network["back"](network["front"](torch.ones(2, 3, 20)).transpose(1, 2))

    # 16 places of 2 inputs: 4 channels of 3 · 5 products each; then 6 outputs of 4.
    front, back = 2 * 16 * 4 * 3 * 5, 2 * 16 * 6 * 4
    assert counted(network, call) == (front + back, {"front": front, "back": back})


@pytest.mark.parametrize("mode", [torch.inference_mode, torch.no_grad, torch.enable_grad])
@pytest.mark.parametrize("packed", [False, True])
@pytest.mark.parametrize("two_ways", [False, True])
def test_recurrent_layers_are_counted_whichever_kernel_runs_them(
    mode: Callable[[], Any], packed: bool, two_ways: bool
) -> None:
    network = torch.nn.ModuleDict({"rnn": torch.nn.LSTM(3, 5, num_layers=2, bidirectional=two_ways)}).eval()
    inputs: Any = torch.ones(7, 2, 3)
    steps = 14
    if packed:
        inputs, steps = torch.nn.utils.rnn.pack_padded_sequence(inputs, torch.tensor([7, 4])), 11
    ways = 2 if two_ways else 1
    per_step = ways * 4 * 5 * (3 + 5) + ways * 4 * 5 * (ways * 5 + 5)
    with mode():
        found = count_multiply_adds(network, lambda: network["rnn"](inputs), 1)
    if not packed:
        assert found == {"multiply_adds": steps * per_step, "modules": {"rnn": steps * per_step}}
    else:
        # Packed, some kernels work on the padded batch.
        assert steps * per_step <= found["multiply_adds"] <= 14 * per_step


def test_attention_on_the_cpu_by_hand() -> None:
    query, key = torch.ones(2, 4, 7, 8), torch.ones(2, 4, 9, 8)
    total, _ = counted(torch.nn.Identity(), lambda: torch.nn.functional.scaled_dot_product_attention(query, key, key))
    assert total == 2 * 4 * 7 * 9 * (8 + 8)


def test_methods_other_than_forward_count_for_the_parts_they_call_and_the_rest_is_outside() -> None:
    class Decoder(torch.nn.Module):  # type: ignore[misc, name-defined]
        def __init__(self) -> None:
            super().__init__()
            self.inner = torch.nn.Linear(4, 4)

        def step(self) -> None:
            self.inner(torch.ones(1, 4))

    network = torch.nn.ModuleDict({"decoder": Decoder()})

    def call() -> None:
        network["decoder"].step()
        torch.ones(2, 3) @ torch.ones(3, 5)

    assert counted(network, call) == (16 + 30, {"decoder": 16, OUTSIDE: 30})
    assert counted(network, call, depth=2)[1] == {"decoder": 16, "decoder.inner": 16, OUTSIDE: 30}


def test_operations_that_the_counter_cannot_see_are_not_counted() -> None:
    network = torch.nn.ModuleDict({"one": torch.nn.Linear(2, 2)})

    def replays() -> None:
        network["one"](torch.ones(1, 2))
        with suppress(Exception):  # there is no device to replay on here
            torch.cuda.CUDAGraph.replay(object())

    before = torch.cuda.CUDAGraph.replay
    found = count_multiply_adds(network, replays, 1)
    assert found["multiply_adds"] is None
    assert "captured CUDA graph" in found["reason"]
    assert torch.cuda.CUDAGraph.replay is before
    assert "saw none" in count_multiply_adds(network, lambda: None, 1)["reason"]


def test_nothing_is_left_on_the_network() -> None:
    network = torch.nn.ModuleDict({"one": torch.nn.Linear(2, 2)})

    def call() -> None:
        raise RuntimeError("no")

    with pytest.raises(RuntimeError):
        count_multiply_adds(network, call, 1)
    assert not network["one"]._forward_hooks
    assert not network["one"]._forward_pre_hooks
