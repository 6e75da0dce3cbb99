"""A clock that only moves when it is told to."""

import pytest
from known_cost import HandClock


@pytest.fixture
def clock() -> HandClock:
    return HandClock()
