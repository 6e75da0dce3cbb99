"""What the tests of the losses share: one thread, settings of the libraries, and interpreted kernels."""

import os
from collections.abc import Iterator

import pytest

torch = pytest.importorskip("torch")

from stopwav.models.weights import disable_amx_in_vm  # noqa: E402

# oneDNN reads its settings when it is first used, which may be in any test.
disable_amx_in_vm()
# Triton decides when kernels are first imported whether it compiles or interprets them.
if not torch.cuda.is_available():
    os.environ["TRITON_INTERPRET"] = "1"


@pytest.fixture(autouse=True)
def one_thread() -> Iterator[None]:
    """One thread: products as small as these wait for the second longer than they compute."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)
