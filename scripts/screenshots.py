"""Takes the pictures of docs/explorer.md: `python scripts/screenshots.py`. Needs Java, Chromium and its driver."""

from __future__ import annotations

import shutil
import tempfile
from pathlib import Path
from typing import Any

from selenium import webdriver
from selenium.webdriver.support.wait import WebDriverWait

import ducklake_spark
from ducklake_spark import Lake

IMAGES = Path(__file__).parents[1] / "docs" / "images"
QUERY = """SELECT customer, count(*) AS orders, round(sum(amount), 2) AS revenue
FROM sales.orders WHERE ordered >= DATE'2026-01-01'
GROUP BY customer ORDER BY revenue DESC"""


def fill(lake: Lake) -> None:
    """A small shop with a past."""
    with lake.transaction(author="Ada", message="Set up the shop"):
        lake.create_schema("sales")
        orders = lake.create_table(
            "sales.orders",
            "id BIGINT NOT NULL, customer VARCHAR, amount DECIMAL(12,2), ordered DATE",
            partitioned_by=["year(ordered)"],
        )
        lake.create_table("sales.customers", {"name": "varchar", "city": "varchar"})
    orders.set_comment("All orders, one row each, as the shop reports them")
    orders.set_comment("with tax, in euro", column="amount")
    for year, rows in ((2024, 40_000), (2025, 90_000), (2026, 15_000)):
        with lake.transaction(author="import", message=f"Orders of {year}"):
            orders.insert(
                lake.spark.range(rows).selectExpr(
                    "id",
                    "element_at(array('Ada', 'Grace', 'Edsger', 'Barbara'), cast(id % 4 + 1 AS int)) AS customer",
                    "cast(id * 37 % 10000 / 100 AS decimal(12,2)) AS amount",
                    f"date_add(DATE'{year}-01-01', cast(id % 360 AS int)) AS ordered",
                )
            )
    lake["sales.customers"].insert([("Ada", "London"), ("Grace", "New York"), ("Edsger", "Austin")])
    with lake.transaction(author="Grace", message="Test orders do not count"):
        orders.delete("ordered < DATE'2025-01-01' AND id % 3 = 0")
    orders.add_column("channel", "varchar", default="web")
    lake.create_view("sales.large", "SELECT * FROM sales.orders WHERE amount > 90")


class Camera:
    """Chromium, with a window of one size."""

    def __init__(self, url: str, width: int, scheme: str) -> None:
        options = webdriver.ChromeOptions()
        options.binary_location = shutil.which("chromium") or "chromium"
        self._profile = tempfile.mkdtemp(prefix="chromium-")
        for flag in (
            *("headless", "no-sandbox", "disable-gpu", "disable-quic", "no-first-run", "hide-scrollbars"),
            *("disable-background-networking", "disable-component-update", "disable-sync"),
            f"user-data-dir={self._profile}",
        ):
            options.add_argument(f"--{flag}")
        self._driver: Any = webdriver.Chrome(
            options=options, service=webdriver.ChromeService(shutil.which("chromedriver"))
        )
        self._address, self._width = url.partition("/?")[0], width
        media = {"features": [{"name": "prefers-color-scheme", "value": scheme}]}
        self._driver.execute_cdp_cmd("Emulation.setEmulatedMedia", media)
        self._driver.get(url)
        self._until("h1")

    def take(self, path: str, name: str, height: int, sign: str = "main:not(:has(.spin))") -> None:
        """A picture of a page, when the sign is there."""
        metrics = {
            "width": self._width,
            "height": height,
            "deviceScaleFactor": 1,
            "mobile": self._width < 600,
        }
        self._driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", metrics)
        self._driver.get(self._address + path)
        self._until(sign)
        IMAGES.mkdir(exist_ok=True)
        self._driver.save_screenshot(str(IMAGES / f"{name}.png"))

    def ask(self, query: str) -> str:
        """Runs a query, and gives the path of its result."""
        self._driver.get(f"{self._address}/sql")
        self._driver.execute_script(
            "document.querySelector('#text').value = arguments[0]; document.querySelector('#editor').requestSubmit()",
            query,
        )
        self._until(".run[data-state=done]")
        return str(self._driver.current_url).removeprefix(self._address)

    def close(self) -> None:
        """Ends the browser."""
        self._driver.quit()
        shutil.rmtree(self._profile, ignore_errors=True)

    def _until(self, selector: str) -> None:
        WebDriverWait(self._driver, 120).until(lambda driver: driver.find_elements("css selector", selector))


def main() -> None:
    """Makes a lake, and looks at it."""
    with tempfile.TemporaryDirectory() as folder:
        lake = ducklake_spark.attach(f"ducklake:{folder}/shop.ducklake", data_inlining_row_limit=10)
        fill(lake)
        url = lake.explore().url
        camera = Camera(url, 1100, "light")
        camera.take("/", "explorer-overview", 640)
        camera.take("/timeline", "explorer-timeline", 640)
        camera.take(camera.ask(QUERY), "explorer-sql", 680, ".run[data-state=done]")
        camera.close()
        camera = Camera(url, 1100, "dark")
        camera.take("/table?schema=sales&name=orders&tab=files", "explorer-files", 580)
        camera.close()
        lake.close()


if __name__ == "__main__":
    main()
