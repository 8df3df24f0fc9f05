"""The pages that need no Spark: what they show of a lake that DuckDB made."""

from __future__ import annotations

import html
import re
import subprocess
import sys
from collections.abc import Callable

import pytest
from starlette.testclient import TestClient

from ducklake_spark import Lake
from tests.explorer.conftest import HOSTILE

New = Callable[..., "tuple[Lake, TestClient]"]


def text_of(page: str) -> str:
    """What a person reads."""
    body = page.partition("<main")[2].partition("</main>")[0] or page
    return " ".join(html.unescape(re.sub(r"<[^>]*>", " ", body.replace("<wbr>", ""))).split())


def seen(client: TestClient, path: str) -> str:
    answer = client.get(path)
    assert answer.status_code == 200, answer.text
    return text_of(answer.text)


def test_the_overview_counts_what_the_lake_holds(client: TestClient) -> None:
    page = seen(client, "/")
    assert "4 tables · 1 view" in page
    assert re.search(r"sales\. orders 450 \d+ [\d.]+ kB", page)
    assert "main. small 3 0 0 bytes" in page
    assert "DuckLake 1.0" in page
    assert seen(client, "/totals") == "455 rows · 5 in the catalog"


@pytest.mark.parametrize(
    ("query", "shown", "hidden"),
    [
        ("q=ORD", "orders", "small"),
        ("schema=main", "small", "orders"),
        ("q=main.sm", "small", "wide"),
        ("q=nothing-like-it", "Nothing matches", "orders"),
    ],
)
def test_the_list_of_tables_is_filtered(client: TestClient, query: str, shown: str, hidden: str) -> None:
    page = seen(client, f"/?part=tables&{query}")
    assert shown in page and hidden not in page


def test_the_list_of_tables_is_sorted_by_size(client: TestClient) -> None:
    page = seen(client, "/?part=tables&sort=rows")
    assert page.index("orders") < page.index("small") < page.index("wide")


def test_health_says_what_would_help(new_client: New) -> None:
    lake, client = new_client()
    assert "Nothing to do" in seen(client, "/health")
    lake.set_option("data_inlining_row_limit", 5000)
    lake.create_table("t", {"a": "int"}).insert([(number,) for number in range(1500)])
    page = seen(client, "/health")
    assert "main.t : 1500 rows are in the catalog lake['main.t'].flush_inlined_data()" in page


def test_many_jobs_leave_room_for_the_tables(new_client: New) -> None:
    lake, client = new_client()
    lake.set_option("data_inlining_row_limit", 5000)
    rows = [(number,) for number in range(1000)]
    with lake.transaction():
        for number in range(8):
            lake.create_table(f"t{number}", {"a": "int"}).insert(rows)
    page = client.get("/health").text
    few, more = page.split("<details", 1)
    assert few.count("flush_inlined_data()</code>") == 5
    assert more.count("flush_inlined_data()</code>") == 3 and "3 more jobs</summary>" in more
    assert "does them all" in page


def test_columns_come_with_types_statistics_keys_and_comments(client: TestClient) -> None:
    page = seen(client, "/table?schema=sales&name=orders")
    for words in (
        "all of them",
        "the key",
        "BIGINT not null",
        "VARCHAR[]",
        "year(ordered)",
        "id DESC",
        "default 'web'",
    ):
        assert words in page
    assert re.search(r"id the key BIGINT not null 0 499 0 ", page)


def test_columns_tell_what_became_of_them(client: TestClient) -> None:
    page = seen(client, "/table?schema=sales&name=orders")
    assert "buyer renamed from customer" in page
    assert "channel added as varchar" in page


def test_a_table_is_shown_as_it_was_at_a_snapshot(client: TestClient) -> None:
    page = seen(client, "/table?schema=sales&name=orders&at=7")
    assert "As it was at snapshot 7" in page
    assert "customer" in page and "channel VARCHAR" not in page
    assert "500 rows" in page


def test_five_hundred_columns_come_in_pages(client: TestClient) -> None:
    page = seen(client, "/table?schema=main&name=wide")
    assert "column_099" in page and "column_100" not in page and "1–100 of 500" in page
    assert "column_499" in seen(client, "/table?schema=main&name=wide&page=5")
    assert "column_499" in seen(client, "/table?schema=main&name=wide&page=99999")
    assert "column_123" in seen(client, "/table?schema=main&name=wide&q=_123")


def test_files_are_shown_by_partition_with_deleted_rows(client: TestClient) -> None:
    page = seen(client, "/table?schema=sales&name=orders&tab=files")
    for year in ("2024", "2025"):
        assert re.search(rf"{year} 1 \d+ [\d.]+ kB", page)
    assert "23.4 % deleted" in page  # 50 of the 214 rows of 2024


def test_files_say_where_the_rows_are_when_there_are_none(client: TestClient) -> None:
    assert "3 rows of this table are in the catalog." in seen(
        client, "/table?schema=main&name=small&tab=files"
    )


def test_history_counts_the_rows_of_each_snapshot(client: TestClient) -> None:
    page = seen(client, "/table?schema=sales&name=orders&tab=history")
    assert "+500" in page and "−50" in page and "altered table" in page


def test_a_view_shows_its_sql(client: TestClient) -> None:
    assert "WHERE (id > 490)" in seen(client, "/table?schema=sales&name=late")


def test_the_time_line_says_who_did_what_and_why(client: TestClient) -> None:
    page = seen(client, "/timeline")
    assert "Ada <b>" in page and "created table sales.orders" in page and "inserted into main.small" in page


def test_the_time_line_goes_back(client: TestClient) -> None:
    page = seen(client, "/timeline?before=3")
    assert "created table sales.orders" in page and "small" not in page


def test_two_snapshots_are_compared_by_definition_and_by_rows(client: TestClient) -> None:
    page = seen(client, "/compare?pick=12&pick=7")
    assert "Snapshot 7 → 12" in page
    assert "column customer renamed to buyer" in page
    assert "column channel VARCHAR added" in page
    assert "table created main.small" in page
    assert "partitioned by" not in page


def test_a_comparison_needs_two_snapshots(client: TestClient) -> None:
    assert "Pick two snapshots" in seen(client, "/compare")
    assert "Pick two snapshots" in seen(client, "/compare?pick=3&pick=3")


@pytest.mark.parametrize(
    ("path", "status", "words"),
    [
        ("/table?schema=sales&name=ordres", 404, "orders"),
        ("/table?schema=nothing&name=x", 404, "nothing"),
        ("/table?schema=sales&name=orders&at=999", 404, "No snapshot found at version 999"),
        ("/compare?pick=1&pick=999", 404, "No snapshot found"),
        ("/no-such-page", 404, "There is no such page."),
        ("/runs/unknown", 404, "not kept any more"),
    ],
)
def test_what_is_not_there_is_said(client: TestClient, path: str, status: int, words: str) -> None:
    answer = client.get(path)
    assert answer.status_code == status
    assert words in text_of(answer.text)


def test_an_empty_lake_says_so(new_client: New) -> None:
    _, client = new_client()
    assert "No tables yet" in seen(client, "/")
    assert "--write" in seen(client, "/")
    assert "Pick two" not in seen(client, "/timeline")


@pytest.mark.parametrize(
    "path",
    [
        "/",
        "/?q={name}",
        "/timeline",
        "/table?schema=main&name={name}",
        "/table?schema=main&name={name}&tab=history",
        "/table?schema=main&name={name}&tab=files",
        "/table?schema=main&name=wide&q={name}",
        "/table?schema=main&name={name}x",
        "/compare?pick=12&pick=18",
        "/sql?text={name}",
    ],
)
def test_hostile_names_and_values_are_texts(client: TestClient, path: str) -> None:
    answer = client.get(path.replace("{name}", re.sub(r"[^\w]", lambda m: f"%{ord(m[0]):02X}", HOSTILE)))
    assert "<img" not in answer.text.replace('<img src="/static/icon.svg"', "")
    assert "<script>" not in answer.text
    assert "owned" in answer.text


def test_suggestions_know_the_names_of_the_lake(client: TestClient) -> None:
    def suggested(text: str, dialect: str = "spark") -> list[tuple[str, str]]:
        asked = {"text": text, "cursor": str(len(text)), "dialect": dialect}
        return [(each["text"], each["kind"]) for each in client.get("/complete", params=asked).json()]

    assert ("orders", "table") in suggested("SELECT * FROM sales.ord")
    assert ("buyer", "column") in suggested("SELECT * FROM sales.orders o WHERE o.bu")
    quoted = '"' + HOSTILE.replace('"', '""') + '"'
    assert (quoted, "table") in suggested("SELECT * FROM ", "duckdb")


def test_the_pages_of_the_catalog_start_no_spark(lake_path: str) -> None:
    script = f"""
import sys, ducklake_spark
from starlette.testclient import TestClient
from ducklake_spark.explorer.app import create_app
from ducklake_spark.explorer.site import Site
lake = ducklake_spark.attach({lake_path!r}, read_only=True)
client = TestClient(create_app(Site(lake), "t"), base_url="http://127.0.0.1")
client.get("/?token=t")
for path in ("/", "/timeline", "/compare?pick=7&pick=12", "/sql", "/health") + tuple(
    f"/table?schema=sales&name=orders&tab={{tab}}" for tab in ("columns", "files", "history")):
    assert client.get(path).status_code == 200, path
from pyspark import SparkContext
assert SparkContext._gateway is None
print("fine")
"""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=120)
    assert done.stdout == "fine\n", done.stderr
