"""The explorer in a real browser: what scripts do, keys, a phone's width, dark mode; and that hostile texts are not run."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from typing import Any
from urllib.parse import quote

import pytest
from pyspark.sql import SparkSession

from ducklake_spark import Lake
from ducklake_spark.explorer.server import Explorer, make
from tests.explorer.conftest import HOSTILE

webdriver = pytest.importorskip(
    "selenium.webdriver", reason="selenium is not installed: pip install selenium"
)
CHROMIUM, DRIVER = shutil.which("chromium"), shutil.which("chromedriver")
if CHROMIUM is None or DRIVER is None:
    pytest.skip(
        "Chromium is not installed: apt-get install chromium chromium-driver", allow_module_level=True
    )

FLAGS = (
    *("--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run"),
    *("--disable-background-networking", "--disable-component-update", "--disable-sync"),
)
PAGES = (
    *("/", "/timeline", "/compare?pick=7&pick=12", "/sql", "/table?schema=main&name=wide"),
    *(f"/table?schema=sales&name=orders&tab={tab}" for tab in ("columns", "files", "history")),
    *(f"/table?schema=main&name={quote(HOSTILE)}&tab={tab}" for tab in ("columns", "files", "history")),
)


class Browser:
    """Chromium at the explorer."""

    def __init__(self, driver: Any, explorer: Explorer) -> None:
        self.driver, self.address = driver, explorer.url.partition("/?")[0]
        driver.get(explorer.url)
        self.until(lambda: "token" not in driver.current_url and self.all("h1"))

    def go(self, path: str) -> None:
        self.driver.get(self.address + path)

    def all(self, selector: str) -> list[Any]:
        return self.driver.find_elements("css selector", selector)  # type: ignore[no-any-return]

    def one(self, selector: str) -> Any:
        return self.driver.find_element("css selector", selector)

    def text(self, selector: str) -> str:
        return str(self.driver.execute_script(f"return document.querySelector({selector!r}).innerText"))

    def js(self, script: str) -> Any:
        return self.driver.execute_script(f"return {script}")

    def press(self, *keys: str) -> None:
        webdriver.ActionChains(self.driver).send_keys(*keys).perform()

    def until(self, condition: Callable[[], Any], seconds: float = 60) -> None:
        """Waits for a sign."""
        from selenium.webdriver.support.wait import WebDriverWait

        WebDriverWait(self.driver, seconds, poll_frequency=0.05).until(lambda _: condition())

    def emulate(self, *, width: int = 1280, scheme: str = "light") -> None:
        metrics = {"width": width, "height": 800, "deviceScaleFactor": 1, "mobile": width < 600}
        self.driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", metrics)
        media = {"features": [{"name": "prefers-color-scheme", "value": scheme}]}
        self.driver.execute_cdp_cmd("Emulation.setEmulatedMedia", media)


@pytest.fixture(scope="module")
def browser(shop: Lake, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    explorer = make(shop)
    explorer.start()
    options = webdriver.ChromeOptions()
    options.binary_location = CHROMIUM
    for flag in (*FLAGS, f"--user-data-dir={tmp_path_factory.mktemp('chromium')}"):
        options.add_argument(flag)
    driver = webdriver.Chrome(options=options, service=webdriver.ChromeService(DRIVER))
    try:
        yield Browser(driver, explorer)
    finally:
        driver.quit()
        explorer.close()


@pytest.fixture(autouse=True)
def _plain(browser: Browser) -> Iterator[None]:
    yield
    browser.emulate()
    browser.driver.delete_cookie("theme")


@pytest.mark.parametrize("path", PAGES)
def test_no_text_is_run_and_nothing_is_missing(browser: Browser, path: str) -> None:
    browser.driver.get_log("browser")
    browser.go(path)
    browser.until(lambda: not browser.all(".spin"))
    assert browser.driver.title.endswith("Lake explorer")
    assert browser.js("document.scripts.length") == 1
    assert browser.driver.get_log("browser") == []


@pytest.mark.parametrize("path", PAGES)
def test_a_phone_needs_no_sideways_scrolling(browser: Browser, path: str) -> None:
    browser.emulate(width=390)
    browser.go(path)
    browser.until(lambda: not browser.all(".spin"))
    assert browser.js("document.documentElement.scrollWidth") <= 390


def test_the_list_follows_what_is_typed(browser: Browser) -> None:
    browser.go("/")
    browser.press("/")
    browser.until(lambda: browser.js("document.activeElement.name") == "q")
    browser.press("order")
    browser.until(lambda: "small" not in browser.text("#relations"))
    assert "sales.orders" in browser.text("#relations")
    assert browser.driver.current_url.endswith("/?q=order&sort=name")


def test_keys_lead_to_the_pages(browser: Browser) -> None:
    browser.go("/")
    browser.press("g", "t")
    browser.until(lambda: browser.driver.current_url.endswith("/timeline"))
    browser.press("?")
    browser.until(lambda: browser.js("document.querySelector('#shortcuts').open"))


def test_two_snapshots_are_picked_and_compared(browser: Browser) -> None:
    browser.go("/timeline")
    assert not browser.one("#compare").is_enabled()
    boxes = browser.all("input[name=pick]")
    for box in (boxes[0], boxes[3], boxes[1]):
        box.click()
    assert not boxes[0].is_selected()
    browser.one("#compare").click()
    browser.until(lambda: "/compare" in browser.driver.current_url)
    assert browser.text("h1") == "Snapshot 15 → 17"


def test_dark_mode_follows_the_computer_and_the_switch(browser: Browser) -> None:
    def background() -> str:
        return str(browser.js("getComputedStyle(document.body).backgroundColor"))

    browser.go("/sql")
    light = background()
    browser.emulate(scheme="dark")
    dark = background()
    assert dark != light
    browser.one("#theme").click()
    assert background() == light
    browser.go("/timeline")
    assert background() == light


@pytest.mark.spark
def test_sql_is_completed_run_and_paged_by_keys(browser: Browser, spark: SparkSession) -> None:
    browser.go("/sql")
    browser.press("SELECT id, buyer FROM sales.ord")
    browser.until(lambda: browser.all("#suggestions:not([hidden]) li"))
    browser.press("\ue004")  # Tab
    assert browser.js("document.querySelector('#text').value") == "SELECT id, buyer FROM sales.orders"
    browser.press(" ORDER BY id")
    browser.driver.execute_script("document.querySelector('#editor').requestSubmit()")
    browser.until(lambda: browser.all(".run[data-state=done]"))
    assert browser.text(".grid tbody td") == "1"
    browser.one(".run a[rel=next]").click()
    browser.until(lambda: "101–200 of 450" in browser.text(".run .paging"))


@pytest.mark.spark
def test_hostile_rows_are_not_run(browser: Browser, spark: SparkSession) -> None:
    browser.go(f"/table?schema=main&name={quote(HOSTILE)}&tab=rows")
    browser.until(lambda: browser.all(".run[data-state=done]"))
    assert browser.text(".grid tbody td") == HOSTILE
    assert browser.driver.title.endswith("Lake explorer")
    assert browser.js("document.querySelectorAll('main img, main script').length") == 0
