"""A headless browser, pages to open in it, and what it said and asked for while they were open."""

import json
import os
import shutil
import subprocess
import tarfile
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from synthetic import write_run

from stopwav.record import Record
from stopwav.report.page import render_page
from stopwav.speech.corpus import bundled_corpus
from stopwav.studies.side_by_side import page_section
from stopwav.studies.study import StudyRun

FLAGS = (
    "--headless=new --no-sandbox --disable-gpu --disable-background-networking --disable-component-update "
    "--disable-sync --no-first-run --hide-scrollbars"
)

# The same rules on every machine.
AXE_VERSION = "4.14.1"


class Browser:
    """A tab that is opened on pages of this disk, and remembers what they said and asked for."""

    def __init__(self, driver: Any) -> None:
        self.driver = driver

    def open(self, page: Path, *, width: int = 1280, dark: bool = False) -> None:
        """Load the page and wait until its charts are drawn and its timeline is shown."""
        scheme = [{"name": "prefers-color-scheme", "value": "dark" if dark else "light"}]
        size = {"width": width, "height": 900, "deviceScaleFactor": 1, "mobile": False}
        self.driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)
        self.driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": scheme})
        self.driver.get_log("performance")
        self.driver.get_log("browser")
        self.driver.get(page.resolve().as_uri())
        # A folded chart is drawn when it is opened.
        self.wait("return !document.querySelector('.plot:not([data-drawn]):not(details *)')")
        self.wait("return !document.querySelector('.stage:not([data-shown])')")

    def run(self, script: str, *arguments: Any) -> Any:
        """What a script in the page returns."""
        return self.driver.execute_script(script, *arguments)

    def wait(self, script: str, tries: int = 2400) -> Any:
        """The first true value that a script returns, asked 20 times a second."""
        for _ in range(tries):
            if value := self.run(script):
                return value
            time.sleep(0.05)
        raise AssertionError(f"never true: {script}; console: {self.console()}")

    def console(self) -> list[str]:
        """What was written to the console, policy violations included."""
        return [entry["message"] for entry in self.driver.get_log("browser")]

    def requests(self) -> list[str]:
        """What the page asked for, itself and its own data left out."""
        messages = [json.loads(entry["message"])["message"] for entry in self.driver.get_log("performance")]
        sent = [message for message in messages if message["method"] == "Network.requestWillBeSent"]
        asked = [message["params"]["request"]["url"] for message in sent]
        pages = [url for url in asked if url.startswith("file://") and url.endswith(".html")]
        assert len(pages) == 1, asked
        return [url for url in asked if url not in pages and not url.startswith(("data:", "blob:"))]

    def screenshot(self, path: Path) -> None:
        """The whole page as it looks."""
        path.write_bytes(self.driver.get_screenshot_as_png())


@pytest.fixture(scope="session")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    """A headless Chromium."""
    chromium = shutil.which("chromium") or shutil.which("google-chrome")
    chromedriver = shutil.which("chromedriver")
    if not chromium or not chromedriver:
        pytest.skip("NO BROWSER: the page is not tested. Install chromium and chromedriver (Debian: chromium-driver)")
    from selenium import webdriver
    from selenium.webdriver.chrome.service import Service

    options = webdriver.ChromeOptions()
    options.binary_location = chromium
    for flag in [*FLAGS.split(), f"--user-data-dir={tempfile.mkdtemp(dir=tmp_path_factory.mktemp('profile'))}"]:
        options.add_argument(flag)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL", "performance": "ALL"})
    driver = webdriver.Chrome(options=options, service=Service(chromedriver))
    driver.set_script_timeout(120)
    yield Browser(driver)
    driver.quit()


@pytest.fixture(scope="session")
def make_page(tmp_path_factory: pytest.TempPathFactory) -> Callable[..., Path]:
    """Write the page of a run file."""

    def make(*runs: Path) -> Path:
        page = tmp_path_factory.mktemp("page") / "page.html"
        html = render_page([page_section(StudyRun(Record.read(run))) for run in runs])
        page.write_text(html, encoding="utf-8")
        return page

    return make


@pytest.fixture(scope="session")
def real_page(tmp_path_factory: pytest.TempPathFactory, make_page: Callable[..., Path]) -> Path:
    """The demo's page on fewer utterances: both packaged recognisers, as they were measured for `tests/data`."""
    header, *pieces = (Path(__file__).parent.parent / "data" / "latency-real.jsonl").read_text().splitlines()
    fields = json.loads(header)
    # Its audio is where the corpus is here.
    places = {utterance.id: str(utterance.path) for utterance in bundled_corpus().utterances}
    for utterance in fields["corpus"]["utterances"]:
        utterance["path"] = places[utterance["id"]]
    run = tmp_path_factory.mktemp("runs") / "latency-real.jsonl"
    run.write_text("\n".join([json.dumps(fields), *pieces, ""]))
    return make_page(run)


@pytest.fixture(scope="session")
def made_page(tmp_path_factory: pytest.TempPathFactory, make_page: Callable[..., Path]) -> Path:
    """The page of a made-up run, with a caution."""
    return make_page(write_run(tmp_path_factory.mktemp("run") / "latency-made.jsonl", message="load average 9"))


@pytest.fixture(scope="session")
def axe(npm_cache: Path) -> str:
    """The script of axe-core, as npm has it; fetched once."""
    script = npm_cache / f"axe-core-{AXE_VERSION}.min.js"
    if not script.is_file():
        fetched = _axe_of_npm()
        whole = script.with_suffix(f".{os.getpid()}")
        whole.write_text(fetched, encoding="utf-8")
        whole.replace(script)
    return script.read_text(encoding="utf-8")


def _axe_of_npm() -> str:
    npm = shutil.which("npm")
    if npm is None:
        pytest.skip("NO NPM: accessibility is not tested. Install npm, which fetches axe-core")
    environment = {**os.environ, "npm_config_update_notifier": "false"}
    with tempfile.TemporaryDirectory() as folder:
        command = [npm, "pack", f"axe-core@{AXE_VERSION}", "--silent"]
        try:
            packed = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=120, env=environment)
            failure = packed.stderr[-200:]
        except subprocess.TimeoutExpired as error:
            failure = str(error)
        archives = list(Path(folder).glob("axe-core-*.tgz"))
        if not archives:
            pytest.skip(f"NO AXE: accessibility is not tested. `{' '.join(command[1:])}` failed: {failure}")
        with tarfile.open(archives[0]) as archive:
            script = archive.extractfile("package/axe.min.js")
            assert script is not None
            return script.read().decode()
