"""The page of a comparison of three runs, and that of a grid of two engines, in a browser."""

from pathlib import Path
from typing import Any

import pytest
from command_line import command
from grid_runs import made_up
from synthetic_runs import saved, synthetic_run

pytestmark = pytest.mark.browser

HOSTILE = "</script><script>window.pwned=1</script><img/src=x/onerror='window.pwned=2'>"


@pytest.fixture(scope="module")
def diff_page(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("diff")
    runs = [
        saved(synthetic_run(seed, slowdown=slowdown, names=["one", HOSTILE]), folder / f"run-{seed}.jsonl")
        for seed, slowdown in ((1, 0.0), (2, 0.3), (3, -0.1))
    ]
    done = command("diff", *runs, "--html", folder / "page.html")
    assert done.code == 0, done.stderr
    return folder / "page.html"


@pytest.fixture(scope="module")
def grid_page(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("grid")
    record = made_up(
        folder,
        lambda cell, index: cell.audio_s * (0.1 if cell.lane == "quick" else 0.2) * (1 + 0.01 * index),
        engines=["quick=made-up,beam=1", "made-up,beam=8"],
        durations=[1, 2, 4],
        batch_sizes=[1, 4],
    )
    done = command("report", record.path, "--html", folder / "page.html")
    assert done.code == 0, done.stderr
    return folder / "page.html"


@pytest.mark.parametrize("which", ["diff_page", "grid_page"])
@pytest.mark.parametrize(("width", "dark"), [(1280, False), (390, True)])
def test_it_draws_its_charts_and_asks_for_nothing(
    browser: Any, which: str, width: int, dark: bool, axe: str, request: pytest.FixtureRequest
) -> None:
    page = request.getfixturevalue(which)
    browser.open(page, width=width, dark=dark)
    assert browser.console() == []
    assert browser.requests() == []
    assert browser.run("return window.pwned") is None
    assert browser.run("return document.querySelectorAll('.plot svg, .plot canvas').length") >= 2
    # Nothing is wider than the page; tables scroll by themselves.
    assert browser.run("return document.documentElement.scrollWidth") <= width
    browser.run(f"{axe}; window.axe = axe;")
    found = browser.driver.execute_async_script(
        "axe.run(document).then((r) => arguments[0](r.violations.map((v) => [v.id, v.impact])))"
    )
    assert [violation for violation in found if violation[1] in ("serious", "critical")] == []
