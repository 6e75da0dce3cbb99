"""Servers that tests share: starting one takes a second."""

from collections.abc import Iterator

import pytest
from serve_client import engine

from stopwav.servers.serve.background import BackgroundServer


@pytest.fixture(scope="module")
def counting() -> Iterator[BackgroundServer]:
    """A server of a streaming engine."""
    with BackgroundServer(engine("Counting"), "--max-streams", "64") as server:
        yield server


@pytest.fixture(scope="module")
def whole() -> Iterator[BackgroundServer]:
    """A server of an offline engine."""
    with BackgroundServer(engine("Whole")) as server:
        yield server
