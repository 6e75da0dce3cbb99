"""The documentation as a site: it builds without a warning, and asks for nothing beyond itself."""

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    pytest.importorskip("material")
    folder = tmp_path_factory.mktemp("site")
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", str(folder)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    return folder


def test_every_page_of_the_documentation_is_in_it(site: Path) -> None:
    for page in (ROOT / "docs").rglob("*.md"):
        place = page.relative_to(ROOT / "docs").with_suffix("")
        built = site / (place.parent if place.name == "index" else place) / "index.html"
        assert built.is_file(), page


def test_the_tabs_are_those_of_the_index(site: Path) -> None:
    html = (site / "index.html").read_text()
    tabs = re.findall(r'<a href="[^"]*" class="md-tabs__link">\s*(.*?)\s*</a>', html, re.DOTALL)
    headings = re.findall(r"^## (.+)$", (ROOT / "docs" / "index.md").read_text(), re.MULTILINE)
    assert {"I deploy", "I train", "I run CI"} <= set(headings)
    assert tabs == ["stopwav", *headings, "More"]


def test_a_reader_asks_no_other_server(site: Path) -> None:
    for page in site.rglob("*.html"):
        html = page.read_text()
        for tag, attribute in (("script", "src"), ("link", "href"), ("img", "src"), ("iframe", "src")):
            for address in re.findall(rf'<{tag}\b[^>]*\b{attribute}="?([^"\s>]+)', html):
                assert not re.match(r"(https?:)?//", address), f"{page}: {address}"
    for style in site.rglob("*.css"):
        assert not re.search(r"url\(\s*[\"']?(https?:)?//|@import", style.read_text()), style


def test_search_finds_what_is_written(site: Path) -> None:
    index = json.loads((site / "search" / "search_index.json").read_text())
    texts = " ".join(entry["text"] for entry in index["docs"])
    assert "word finalization latency" in texts
    assert len(index["docs"]) > 200


def test_charts_live_where_the_guides_have_images(site: Path) -> None:
    sys.path.insert(0, str(ROOT / "scripts" / "docs_site"))
    from hybrid_charts import CURVES
    from site_charts import CHARTS

    shown = set()
    for page in site.rglob("*.html"):
        html = page.read_text()
        specs = re.findall(r'class="stopwav-chart".*?<script type="application/json">(.*?)</script>', html, re.DOTALL)
        assert all(json.loads(spec)["width"] == "container" for spec in specs)
        assert bool(specs) == ("assets/stopwav/charts.js" in html)
        shown |= {name for name in (*CHARTS, *CURVES) if f"images/{name}.svg" in html and specs}
    assert shown == {*CHARTS, *CURVES}
    assert "vegaEmbed" in (site / "assets" / "stopwav" / "vega.js").read_text()


def test_screenshots_are_small() -> None:
    images = [path for path in (ROOT / "docs" / "images").rglob("*") if path.is_file()]
    named = set(re.findall(r"((?:screenshots|before)/[\w-]+)\.webp", (ROOT / "docs" / "screenshots.md").read_text()))
    assert named == {f"{path.parent.name}/{path.stem}" for path in images if path.suffix == ".webp"}
    assert all(path.stat().st_size < 120_000 for path in images if path.suffix == ".webp")
    assert sum(path.stat().st_size for path in images) < 3_500_000


def test_links_lead_somewhere_in_the_site(site: Path) -> None:
    for page in site.rglob("index.html"):
        for target in re.findall(r'<a\b[^>]*\bhref="?([^"#\s>]+)', page.read_text()):
            if not re.match(r"[a-z]+:", target):
                assert (page.parent / target).resolve().exists(), f"{page}: {target}"
