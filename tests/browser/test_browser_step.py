"""The page of a step in a real browser: it draws, asks for nothing, and shows memory when asked to."""

from pathlib import Path

import pytest
import torch
from torch import nn

import stopwav
from stopwav.cli.output import write_page
from stopwav.report.chart import COLOURS
from stopwav.studies.study import StudyRun

pytestmark = pytest.mark.browser

WIDTHS = """
const icicle = [...document.querySelectorAll('.plot')].find((plot) => plot.ariaLabel === 'Where the step goes');
return [...icicle.querySelectorAll('svg .mark-rect path')].map((path) => path.getAttribute('d')).join(' ');
"""


@pytest.fixture(scope="module")
def step_page(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("step")
    layers = [nn.Sequential(nn.Linear(16, 16), nn.ReLU()) for _ in range(3)]
    model = nn.Sequential(*layers)
    data = torch.randn(32, 16)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    record = stopwav.step(model, lambda _: (data, None), lambda y, _: y.sum(), optimizer, steps=3, save=folder)
    page = folder / "step.html"
    write_page([StudyRun(record)], page)
    return page


def test_a_step_is_drawn_without_an_error_or_a_request(browser, step_page: Path) -> None:
    browser.open(step_page)
    assert browser.console() == []
    assert browser.requests() == []
    drawn = browser.run(
        "return [...document.querySelectorAll('.plot')].map((plot) => "
        "plot.querySelectorAll('svg .mark-rect path, svg .mark-bar path').length)"
    )
    assert len(drawn) == 4
    assert all(drawn)


def test_the_icicle_shows_memory_when_asked_to(browser, step_page: Path) -> None:
    browser.open(step_page)
    before = browser.run(WIDTHS)
    assert browser.run("return !document.querySelector('.vega-bindings').closest('[aria-hidden], [role=img]')")
    browser.run(
        "const pick = document.querySelector('.vega-bindings select'); pick.selectedIndex = 1; "
        "for (const kind of ['input', 'change']) pick.dispatchEvent(new Event(kind, {bubbles: true}));"
    )
    browser.wait(f"return (() => {{ {WIDTHS} }})() !== {before!r}")


# Of each cell of the heat strip: its colour as it is drawn, and how opaque it is.
FILLS = """
const strip = [...document.querySelectorAll('.plot')].find((plot) => plot.ariaLabel === 'Layers side by side');
return [...strip.querySelectorAll('svg .mark-rect path')].map((path) => {
  const style = getComputedStyle(path);
  return [style.fill, style.fillOpacity];
});
"""


@pytest.mark.parametrize("dark", [False, True])
@pytest.mark.parametrize("width", [1280, 390])
def test_layers_side_by_side_are_blue_and_orange_and_of_several_strengths(
    browser, step_page: Path, dark: bool, width: int
) -> None:
    browser.open(step_page, width=width, dark=dark)
    fills = browser.run(FILLS)
    # Three rows of three layers; at least one is faster and one slower than the mean of its row, by different amounts.
    assert len(fills) == 9
    place = int(dark)
    colours = {rgb(COLOURS[name][place]) for name in ("engine-0", "engine-1")}
    assert {colour for colour, _ in fills} == colours
    assert len({opacity for _, opacity in fills}) >= 3


def rgb(code: str) -> str:
    """A colour as a browser reports it."""
    return f"rgb({', '.join(str(int(code[start : start + 2], 16)) for start in (1, 3, 5))})"
