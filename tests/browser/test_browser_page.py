"""The page in a real browser: it loads from disk, asks for nothing, draws, sorts, explains, and anyone can read it."""

import gzip
import json
from base64 import b64decode
from pathlib import Path

import pytest

pytestmark = pytest.mark.browser

# For each piece of text that can be seen, its contrast to what it stands on, by the formula of WCAG 2.
CONTRASTS = """
const parse = (text) => (text.match(/[\\d.]+/g) ?? []).map(Number);
const light = ([r, g, b]) => [r, g, b].map((v) => (v /= 255) <= 0.03928 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4)
  .reduce((sum, v, i) => sum + v * [0.2126, 0.7152, 0.0722][i], 0);
const ground = (element) => {
  for (let at = element; at; at = at.parentElement) {
    const colour = parse(getComputedStyle(at).backgroundColor);
    if (colour.length === 3) return colour;
  }
  return [255, 255, 255];
};
const found = [];
const walk = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
while (walk.nextNode()) {
  const element = walk.currentNode.parentElement;
  if (!walk.currentNode.data.trim() || !element.checkVisibility() || element.closest("script, style, title")) continue;
  const style = getComputedStyle(element), drawn = element.namespaceURI.endsWith("svg");
  const ink = parse(drawn ? style.fill : style.color), [a, b] = [light(ink), light(ground(element))].sort();
  found.push([(b + 0.05) / (a + 0.05), walk.currentNode.data.trim().slice(0, 40)]);
}
return found;
"""


def test_a_real_run_loads_from_disk_with_no_error_and_no_request(browser, real_page: Path) -> None:
    browser.open(real_page)
    assert browser.console() == []
    assert browser.requests() == []
    assert browser.run("return performance.getEntriesByType('resource').map((one) => one.name)") == []


def test_every_chart_has_drawn_marks(browser, real_page: Path) -> None:
    browser.open(real_page)
    counts = browser.run(
        "return [...document.querySelectorAll('.plot:not(details *)')].map((plot) => ["
        "plot.ariaLabel, plot.querySelectorAll('svg .mark-area path, svg .mark-rect path, svg .mark-line path, "
        "svg .mark-symbol path').length])"
    )
    assert len(counts) >= 8
    assert all(count > 0 for _, count in counts), counts
    assert len(browser.run("return document.querySelectorAll('.stage svg .wave')")) == 1


def test_every_chart_is_told_in_words(browser, real_page: Path) -> None:
    browser.open(real_page)
    told = browser.run(
        "return [...document.querySelectorAll('.plot')].map((plot) => "
        "document.getElementById(plot.getAttribute('aria-describedby')).textContent)"
    )
    assert all(len(text) > 40 for text in told)
    assert any("P95" in text for text in told)


def test_a_table_sorts_by_click_and_by_key(browser, made_page: Path) -> None:
    from selenium.webdriver.common.keys import Keys

    browser.open(made_page)
    values = (
        "return [...document.querySelectorAll('table.sortable')][1].tBodies[0].querySelectorAll('tr td:nth-child(2)')"
        ".values().map((cell) => cell.dataset.sort === '' ? null : Number(cell.dataset.sort)).toArray()"
    )
    original = browser.run(values)
    # Numbers that could not be had come last, whichever way the others are sorted.
    known, missing = [one for one in original if one is not None], [one for one in original if one is None]
    assert known
    assert missing
    button = browser.run("return document.querySelectorAll('table.sortable')[1].querySelectorAll('thead button')[1]")
    button.click()
    assert browser.run(values) == sorted(known) + missing
    assert browser.run("return arguments[0].closest('th').ariaSort", button) == "ascending"
    button.send_keys(Keys.ENTER)
    assert browser.run(values) == sorted(known, reverse=True) + missing
    assert browser.run("return arguments[0].closest('th').ariaSort", button) == "descending"
    button.send_keys(Keys.SPACE)
    assert browser.run(values) == original


def test_pointing_at_a_number_shows_its_interval_count_definition_and_caution(browser, made_page: Path) -> None:
    from selenium.webdriver import ActionChains, Keys

    browser.open(made_page)
    number = browser.run("return document.querySelector('.num[data-metric=word_latency_p50]')")
    ActionChains(browser.driver).move_to_element(number).perform()
    shown = browser.wait("const tip = document.getElementById('tip'); return !tip.hidden && tip.textContent")
    for part in ("95 % interval", "n = ", "From the end of a spoken word", "load average 9"):
        assert part in shown
    ActionChains(browser.driver).send_keys(Keys.ESCAPE).perform()
    browser.wait("return document.getElementById('tip').hidden")
    browser.run("arguments[0].focus()", browser.run("return document.querySelector('.num[data-metric=rtf]')"))
    browser.wait("return document.getElementById('tip').textContent.includes('each sample counted once')")
    assert browser.run("return document.activeElement.getAttribute('aria-describedby')") == "tip"


def test_a_caution_about_most_numbers_is_in_their_tooltips_and_marks_none(browser, made_page: Path) -> None:
    browser.open(made_page)
    said = "return document.querySelector('.num[data-metric={}]').dataset.cautions"
    assert "load average 9" in browser.run(said.format("rtf"))
    assert browser.run(said.format("wer")) == ""
    assert browser.run("return document.querySelectorAll('.mark').length") == 0
    assert "load average 9" in browser.run("return document.querySelector('.cautions').textContent")


def test_the_timeline_changes_with_the_utterance_and_with_time(browser, real_page: Path) -> None:
    browser.open(real_page)
    spoken = "return [...document.querySelectorAll('.stage .spoken')].map((word) => word.textContent).join(' ')"
    before, first = browser.run(spoken), browser.run("return document.querySelector('.stage').dataset.shown")
    browser.run("document.querySelector('[data-step=\"1\"]').click()")
    browser.wait(f"return document.querySelector('.stage').dataset.shown !== '{first}'")
    assert browser.run(spoken) != before
    chosen = browser.run("return document.querySelector('.pick select').selectedOptions[0].textContent.split(': ')[0]")
    assert chosen in browser.run("return document.querySelector('.stage svg').ariaLabel")
    assert browser.run("return document.querySelectorAll('.stage .chunk').length") > 10
    slide = "const s = document.querySelector('.stage input'); s.value = {}; s.oninput(); "
    screen = "return document.querySelector('.stage .now').textContent"
    end = browser.run(slide.format("s.max") + screen)
    assert browser.run(slide.format(0) + screen) != end


@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
def test_text_has_contrast(browser, real_page: Path, dark: bool) -> None:
    browser.open(real_page, dark=dark)
    browser.run("document.querySelectorAll('details').forEach((one) => { one.open = true; })")
    assert browser.run("return getComputedStyle(document.body).backgroundColor") == (
        "rgb(18, 21, 24)" if dark else "rgb(247, 247, 245)"
    )
    contrasts = browser.run(CONTRASTS)
    assert len(contrasts) > 200
    assert [pair for pair in contrasts if pair[0] < 4.5] == []


def test_the_toggle_overrides_the_system(browser, made_page: Path) -> None:
    browser.open(made_page, dark=True)
    browser.run("document.getElementById('theme').click()")
    assert browser.run("return getComputedStyle(document.body).backgroundColor") == "rgb(247, 247, 245)"
    browser.run("document.getElementById('theme').click()")
    browser.run("try { localStorage.clear(); } catch {}")


def test_the_timeline_opens_on_the_final_text_of_every_utterance(browser, real_page: Path) -> None:
    browser.open(real_page)
    for _ in range(browser.run("return document.querySelector('.pick select').options.length")):
        final, shown = browser.run(
            "const rows = [...document.querySelectorAll('.stage details tbody tr')], last = {};"
            "for (const row of rows) last[row.cells[1].textContent] = row.cells[2].textContent.trim();"
            "return [last, Object.fromEntries([...document.querySelectorAll('.stage .now > div')].map((one) => "
            "[one.querySelector('dt').textContent, one.querySelector('dd').textContent.trim()]))]"
        )
        assert final
        assert {engine: shown[engine] for engine in final} == final
        place = browser.run("return document.querySelector('.stage').dataset.shown")
        browser.run("document.querySelector('[data-step=\"1\"]').click()")
        browser.wait(f"return document.querySelector('.stage').dataset.shown !== '{place}'")


def test_the_raw_run_can_be_had_back(browser, made_page: Path) -> None:
    browser.open(made_page)
    packed = browser.run("return document.getElementById('s0-raw').textContent")
    lines = gzip.decompress(b64decode(packed)).decode().splitlines()
    assert json.loads(lines[0])["kind"] == "header"
    unpacked = browser.driver.execute_async_script("stopwav.inflate('s0-raw').then(arguments[0])")
    assert unpacked.splitlines() == lines
    browser.run(
        "window.made = 0; const make = URL.createObjectURL; URL.createObjectURL = (b) => (made = b.size, make(b))"
    )
    browser.run("document.querySelector('[data-download]').click()")
    assert browser.wait("return window.made") == len(unpacked.encode())


@pytest.mark.parametrize("width", [320, 1280, 3840])
def test_the_page_fits_its_window(browser, real_page: Path, tmp_path: Path, width: int) -> None:
    browser.open(real_page, width=width)
    assert browser.run("return document.documentElement.scrollWidth") <= width
    shot = tmp_path / f"page-{width}.png"
    browser.screenshot(shot)
    assert shot.stat().st_size > 20_000


def test_it_prints_in_light_colours_with_every_chart(browser, made_page: Path) -> None:
    browser.open(made_page, dark=True)
    browser.driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"media": "print"})
    assert (
        browser.run("return getComputedStyle(document.querySelector('.card')).backgroundColor") == "rgb(255, 255, 255)"
    )
    pdf = browser.driver.execute_cdp_cmd("Page.printToPDF", {})["data"]
    browser.driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"media": ""})
    assert len(b64decode(pdf)) > 50_000
