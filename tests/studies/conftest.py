"""Shapes of a few short utterances."""

from pathlib import Path

import pytest


@pytest.fixture
def few_shapes(tmp_path: Path) -> Path:
    path = tmp_path / "shapes.csv"
    path.write_text("T,U\n" + "".join(f"{t},{t // 4}\n" for t in range(8, 20)))
    return path
