"""Settings for all tests of the losses: one thread, settings of the libraries, and interpreted kernels."""

import os
from collections.abc import Iterator

import pytest

torch = pytest.importorskip("torch")

from stopwav.models.checkpoint import disable_amx_in_vm  # noqa: E402

# oneDNN reads its settings on first use, which may be in any test.
disable_amx_in_vm()
# Triton decides whether to compile or to interpret kernels when they are first imported.
if not torch.cuda.is_available():
    os.environ["TRITON_INTERPRET"] = "1"


@pytest.fixture(autouse=True)
def one_thread() -> Iterator[None]:
    """Use one thread: with products this small, waiting for a second one takes longer than computing."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)
