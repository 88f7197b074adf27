"""A headless Chromium that looks at a page on disk. Nothing is to be reached from it but the file."""

from __future__ import annotations

import base64
import json
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

AXE = Path(__file__).parents[1] / "vendor" / "axe-core-4.14.1" / "axe.min.js"
FLAGS = (
    "--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run",
    "--disable-background-networking", "--disable-component-update", "--disable-sync", "--disable-dev-shm-usage",
    "--hide-scrollbars",
)  # fmt: skip
CHROMIUM, DRIVER = "chromium", "chromedriver"


def missing() -> str | None:
    """What has to be installed before a page can be looked at; None when it can."""
    lacking = [name for name in (CHROMIUM, DRIVER) if shutil.which(name) is None]
    return f"install Debian's chromium and chromium-driver: no {', '.join(lacking)} on the path" if lacking else None


@contextmanager
def chromium(profile: Path) -> Iterator[Any]:
    """A browser with a profile of its own."""
    from selenium import webdriver
    from selenium.webdriver.chrome.service import Service

    options = webdriver.ChromeOptions()
    options.binary_location = str(shutil.which(CHROMIUM))
    for flag in (*FLAGS, f"--user-data-dir={profile}"):
        options.add_argument(flag)
    options.set_capability("goog:loggingPrefs", {"performance": "ALL", "browser": "ALL"})
    driver = webdriver.Chrome(options=options, service=Service(str(shutil.which(DRIVER))))
    try:
        yield driver
    finally:
        driver.quit()


def open_page(driver: Any, page: Path, width: int, scheme: str = "light", medium: str = "screen") -> None:
    """Show the page in a window of that width, in the light or in the dark, or as it would be printed."""
    size = {"width": width, "height": 900, "deviceScaleFactor": 1, "mobile": False}
    driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)
    feature = {"name": "prefers-color-scheme", "value": scheme}
    driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"media": medium, "features": [feature]})
    driver.get_log("performance")
    driver.get(page.as_uri())


def requested(driver: Any) -> list[str]:
    """Every address that was asked for since the page was opened."""
    events = [json.loads(entry["message"])["message"] for entry in driver.get_log("performance")]
    return [e["params"]["request"]["url"] for e in events if e["method"] == "Network.requestWillBeSent"]


def violations(driver: Any) -> list[str]:
    """What axe-core finds wrong, with the elements; its rules of best practice too."""
    driver.execute_cdp_cmd("Page.setBypassCSP", {"enabled": True})
    driver.execute_script(AXE.read_text())
    found = driver.execute_async_script("const done = arguments[0]; axe.run().then(done);")
    assert found["passes"], "axe-core checked nothing"
    return [f"{one['id']}: {one['nodes'][0]['html'][:200]}" for one in found["violations"]]


def cut_off(driver: Any) -> list[str]:
    """The tables, drawings and lines to sign that are wider than the page: what a sheet of paper would lose."""
    script = """
        const edge = document.documentElement.clientWidth + 1;
        return [...document.querySelectorAll("table, svg, .signature, p")]
            .filter(one => one.getBoundingClientRect().right > edge).map(one => one.outerHTML.slice(0, 200));
    """
    found: list[str] = driver.execute_script(script)
    return found


def printed(driver: Any) -> bytes:
    """The page as PDF, as the browser prints it."""
    options = {"preferCSSPageSize": True, "printBackground": False}
    return base64.b64decode(driver.execute_cdp_cmd("Page.printToPDF", options)["data"])
