"""Shapes of a few short utterances, and workers that start quickly."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from forked_interpreters import PLAIN, WITH_TORCH, forked_interpreters


@pytest.fixture(scope="module", autouse=True)
def quick_workers(request: pytest.FixtureRequest) -> Iterator[None]:
    """Fork the workers of a file's tests: most of what a new interpreter does is to import the same again."""
    with forked_interpreters(WITH_TORCH if request.path.parent.name in ("loss", "step") else PLAIN):
        yield


@pytest.fixture
def few_shapes(tmp_path: Path) -> Path:
    path = tmp_path / "shapes.csv"
    path.write_text("T,U\n" + "".join(f"{t},{t // 4}\n" for t in range(8, 20)))
    return path
