"""A clock that moves only when told to."""

import pytest

from fake_clock import FakeClock


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock()
