"""Text from outside is shown as text everywhere and executed nowhere."""

from collections.abc import Callable
from pathlib import Path

import pytest
from synthetic import write_run

pytestmark = pytest.mark.browser

SCRIPT = "</script><script>window.pwned=1</script>"
IMAGE = "\"><img/src=x/onerror='window.pwned=2'>"
EXPRESSION = "datum['constructor'].constructor('window.pwned=3')()"
RIGHT_TO_LEFT = "evil\u202egnp.exe\u200f"
LONG = "w" * 100_000
PIPES = "a|b|`c`{{7*7}}{%raw%}<!--"


@pytest.fixture(scope="module")
def hostile_page(tmp_path_factory: pytest.TempPathFactory, make_page: Callable[..., Path]) -> Path:
    run = write_run(
        tmp_path_factory.mktemp("hostile") / "latency-<img src=x onerror=window.pwned=4>.jsonl",
        engines=[f"one{SCRIPT}", f"two{IMAGE}{EXPRESSION}{RIGHT_TO_LEFT}", f"{LONG}1", f"{LONG}2"],
        texts=[f"hello {SCRIPT} world", f"{IMAGE} {RIGHT_TO_LEFT}", f"{LONG} end", f"{PIPES} {EXPRESSION}"],
        ids=[f"id{SCRIPT}", f"id{IMAGE}", LONG, f"../../{PIPES}{RIGHT_TO_LEFT}"],
        stage=f"stage{SCRIPT}",
        message=f"caution {SCRIPT} {IMAGE} {RIGHT_TO_LEFT}",
        corpus=f"corpus{IMAGE}",
    )
    return make_page(run)


def test_nothing_of_it_runs_or_becomes_an_element(browser, hostile_page: Path) -> None:
    browser.open(hostile_page)
    count = browser.run("return document.querySelector('.pick select').options.length")
    for index in range(count):
        browser.run(f"const s = document.querySelector('.pick select'); s.value = {index}; s.onchange()")
        browser.wait(f"return document.querySelector('.stage').dataset.shown === '{index}'")
        browser.run("document.querySelectorAll('details').forEach((details) => { details.open = true; })")
    for number in browser.run("return document.querySelectorAll('.num')")[:12]:
        browser.run("arguments[0].focus()", number)
    assert browser.run("return window.pwned") is None
    assert browser.run("return document.images.length") == 0
    # A policy violation would be on the console: nothing was even tried.
    assert browser.console() == []
    assert browser.requests() == []


def test_all_of_it_is_shown_as_text(browser, hostile_page: Path) -> None:
    browser.open(hostile_page)
    browser.run("const s = document.querySelector('.pick select'); s.value = 0; s.onchange()")
    text = browser.run("return document.body.innerText")
    assert f"one{SCRIPT}"[:30] in text
    assert "caution </script><script>window.pwned=1</script>" in text
    labels = browser.run("return [...document.querySelectorAll('.plot svg text')].map((e) => e.textContent).join()")
    assert "one</script><script>" in labels
    options = browser.run("return [...document.querySelectorAll('option')].map((e) => e.textContent)")
    assert any(SCRIPT[:20] in option for option in options)
    assert "\u202e" not in browser.run("return document.body.textContent")


def test_a_word_of_100_kb_does_not_burst_the_page(browser, hostile_page: Path) -> None:
    for width in (320, 1280):
        browser.open(hostile_page, width=width)
        assert browser.run("return document.documentElement.scrollWidth") <= width


def test_two_engines_that_begin_alike_keep_their_own_colours(browser, hostile_page: Path) -> None:
    browser.open(hostile_page)
    bars = browser.run(
        "return [...document.querySelectorAll('#s0-chart-0 svg .role-axis-label text')].map((e) => e.textContent)"
    )
    assert len([bar for bar in bars if bar.startswith("www")]) == 2
