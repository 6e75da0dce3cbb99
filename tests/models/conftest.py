"""What the tests of the networks share: settings of the libraries beneath them."""

from collections.abc import Iterator

import pytest
import torch

from stopwav.models.checkpoint import disable_amx_in_vm

# oneDNN reads its settings when it is first used, which may be in any test.
disable_amx_in_vm()


@pytest.fixture(autouse=True)
def one_thread() -> Iterator[None]:
    """One thread: products as small as most of these wait for the second longer than they compute."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)
