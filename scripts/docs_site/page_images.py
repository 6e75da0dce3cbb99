"""Screenshots of pages, as WebP, by Chromium and its driver."""

import base64
import shutil
import time
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any

# Sharp enough to read, small enough to keep with the sources.
QUALITY = 60
# The part of a page from the heading of a section on.
SECTION = "return [...document.querySelectorAll('section.block')].find((one) => one.textContent.includes(arguments[0]))"
UNDRAWN = "return document.querySelector('.plot:not([data-drawn]):not(details *), .stage:not([data-shown])')"


@dataclass(frozen=True)
class View:
    """How a page is looked at: the window, the ground, from which section on, and by how much the image is smaller."""

    width: int
    height: int
    dark: bool = False
    paper: bool = False
    section: str = ""
    scale: float = 1.0


class Browser:
    """A headless Chromium."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def __enter__(self) -> "Browser":
        """Start it."""
        from selenium import webdriver

        options = webdriver.ChromeOptions()
        options.binary_location = shutil.which("chromium") or ""
        profile = f"--user-data-dir={self.folder}/user"
        for flag in ("--headless=new", "--no-sandbox", "--disable-gpu", "--hide-scrollbars", profile):
            options.add_argument(flag)
        service = webdriver.ChromeService(shutil.which("chromedriver") or "")
        self.driver: Any = webdriver.Chrome(options=options, service=service)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """End it."""
        self.driver.quit()

    def shoot(self, html: str, view: View, target: Path) -> None:
        """Write the screenshot of a page, once its charts are drawn."""
        page = self.folder / "page.html"
        page.write_text(html, encoding="utf-8")
        self._look(view)
        self.driver.get(page.as_uri())
        for _ in range(600):
            if not self.driver.execute_script(UNDRAWN):
                break
            time.sleep(0.1)
        if view.paper:
            self.driver.execute_async_script("dispatchEvent(new Event('beforeprint')); setTimeout(arguments[0], 500)")
        top = 0.0
        if view.section:
            place = f"{SECTION}.getBoundingClientRect().top + scrollY"
            top = max(0.0, self.driver.execute_script(place, view.section) - 20)
        left = self.driver.execute_script("return document.documentElement.scrollHeight") - top
        clip = {"x": 0, "y": top, "width": view.width, "height": min(view.height, left), "scale": view.scale}
        asked = {"format": "webp", "quality": QUALITY, "clip": clip, "captureBeyondViewport": True}
        target.write_bytes(base64.b64decode(self.driver.execute_cdp_cmd("Page.captureScreenshot", asked)["data"]))
        print(target)

    def _look(self, view: View) -> None:
        size = {"width": view.width, "height": 900, "deviceScaleFactor": 1, "mobile": False}
        ground = {"name": "prefers-color-scheme", "value": "dark" if view.dark else "light"}
        media = {"media": "print" if view.paper else "", "features": [ground]}
        self.driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)
        self.driver.execute_cdp_cmd("Emulation.setEmulatedMedia", media)
