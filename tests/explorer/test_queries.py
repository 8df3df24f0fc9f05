"""What pages ask of Spark: rows, changes and SQL; and that nothing is written that may not be."""

from __future__ import annotations

import csv
import io
import re
import tempfile
from collections.abc import Callable
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession
from starlette.testclient import TestClient

from ducklake_spark import Lake
from ducklake_spark.explorer.runs import Run, Runs
from ducklake_spark.explorer.site import Site
from tests.explorer.conftest import HOSTILE
from tests.explorer.test_pages import text_of

pytestmark = [pytest.mark.spark, pytest.mark.usefixtures("spark")]
New = Callable[..., "tuple[Lake, TestClient]"]


def finished(client: TestClient, page: str) -> tuple[str, str]:
    """The id of the run of a page, and what became of it."""
    found = re.search(r"/runs/([\w-]+)", page)
    if found is None:
        return "", page  # it failed before the page was made
    run_id = found[1]
    for _ in range(20):
        answer = client.get(f"/runs/{run_id}", params={"known": "running"})
        if "data-poll" not in answer.text:
            return run_id, answer.text
    raise AssertionError("the query does not end")


def ran(client: TestClient, text: str, dialect: str = "spark") -> tuple[str, str]:
    """Runs SQL as the page does; the id of the run, and what a person reads."""
    answer = client.post("/sql", data={"text": text, "dialect": dialect})
    assert answer.status_code == 200
    run_id = str(answer.url.params["run"])
    for _ in range(20):
        shown = client.get(f"/runs/{run_id}", params={"known": "running"})
        if "data-poll" not in shown.text:
            return run_id, text_of(shown.text)
    raise AssertionError("the query does not end")


def test_rows_are_shown_filtered_and_in_order(client: TestClient) -> None:
    page = client.get("/table?schema=sales&name=orders&tab=rows&where=id+<+4+ORDER+BY+id+DESC").text
    shown = text_of(finished(client, page)[1])
    assert "2 rows · 5 columns" in shown
    assert re.search(r'1 3 c3 2024-06-04 00:00:00 \["a"\] web 2 1 c1 ', shown)


def test_rows_are_those_of_a_snapshot(client: TestClient) -> None:
    page = client.get("/table?schema=main&name=small&tab=rows&at=12").text
    shown = text_of(finished(client, page)[1])
    assert "2 rows" in shown and "2 2 NULL" in shown and "z" not in shown


def test_rows_come_in_pages(client: TestClient) -> None:
    page = client.get("/table?schema=sales&name=orders&tab=rows&where=true+ORDER+BY+id").text
    run_id, first = finished(client, page)
    assert "1–100 of 450" in text_of(first)
    last = text_of(client.get(f"/runs/{run_id}?page=5").text)
    assert "401–450 of 450" in last and "450 499 c2" in last


def test_rows_of_a_view_and_of_five_hundred_columns_are_shown(client: TestClient) -> None:
    view = finished(client, client.get("/table?schema=sales&name=late&tab=rows").text)[1]
    assert "9 rows · 1 column " in text_of(view)
    wide = finished(client, client.get("/table?schema=main&name=wide&tab=rows").text)[1]
    assert "1 row · 500 columns" in text_of(wide)


def test_hostile_rows_are_texts(client: TestClient) -> None:
    name = re.sub(r"[^\w]", lambda m: f"%{ord(m[0]):02X}", HOSTILE)
    shown = finished(client, client.get(f"/table?schema=main&name={name}&tab=rows").text)[1]
    assert "<img" not in shown and "<script>" not in shown
    assert HOSTILE in text_of(shown)


def test_the_difference_of_two_snapshots_has_rows(client: TestClient) -> None:
    page = client.get("/compare?pick=7&pick=8&schema=sales&name=orders").text
    shown = text_of(finished(client, page)[1])
    assert "50 rows" in shown and "delete" in shown and "insert " not in shown


@pytest.mark.parametrize(
    ("dialect", "text"),
    [
        ("spark", "SELECT buyer, count(*) AS n FROM sales.orders WHERE ordered < '2024-07-01' GROUP BY 1"),
        (
            "duckdb",
            "FROM sales.orders SELECT buyer, count(*) AS n WHERE ordered < '2024-07-01'::TIMESTAMP GROUP BY ALL",
        ),
    ],
)
def test_sql_of_both_dialects_runs_and_says_how_many_files_it_read(
    client: TestClient, dialect: str, text: str
) -> None:
    _, shown = ran(client, text, dialect)
    assert "7 rows · 2 columns" in shown
    assert "1 of 2 files" in shown
    assert "== Physical Plan ==" in shown


def test_results_are_handed_out_whole(client: TestClient) -> None:
    run_id, _ = ran(client, "SELECT id, buyer, tags, id AS id FROM sales.orders ORDER BY id")
    answer = client.get(f"/runs/{run_id}/result.csv")
    assert answer.headers["content-disposition"] == 'attachment; filename="result.csv"'
    rows = list(csv.reader(io.StringIO(answer.text)))
    assert rows[0] == ["id", "buyer", "tags", "id"]
    assert len(rows) == 451 and rows[1] == ["1", "c1", '["a"]', "1"]
    table = pq.read_table(io.BytesIO(client.get(f"/runs/{run_id}/result.parquet").content))
    assert table.column_names == ["id", "buyer", "tags", "id_2"]
    assert table.num_rows == 450 and table["tags"][0].as_py() == ["a"]


def test_a_result_without_rows_is_a_file_with_columns(client: TestClient) -> None:
    run_id, shown = ran(client, "SELECT id, buyer FROM sales.orders WHERE false")
    assert "No rows" in shown
    table = pq.read_table(io.BytesIO(client.get(f"/runs/{run_id}/result.parquet").content))
    assert (table.column_names, table.num_rows) == (["id", "buyer"], 0)


@pytest.mark.parametrize(
    "text", ["SELECT * FROM sales.ordrs", "SELEC 1", "SELECT 1 / ", "SELECT raise_error('no')"]
)
def test_errors_are_one_sentence(client: TestClient, text: str) -> None:
    _, shown = ran(client, text)
    assert shown.startswith("It failed")
    assert "\tat " not in shown and len(shown) < 600


WRITES = (
    "DROP TABLE small",
    "INSERT INTO small VALUES (9, 'w')",
    "DELETE FROM small",
    "UPDATE small SET a = 1",
    "TRUNCATE TABLE small",
    "CREATE TABLE evil (a INT)",
    "CREATE VIEW evil AS SELECT 1 AS a",
    "ALTER TABLE small ADD COLUMN c INT",
    "COMMENT ON TABLE small IS 'x'",
    "CALL shop.expire_snapshots(versions => [1])",
    "SELECT 1; DROP TABLE small",
    "BEGIN; DROP TABLE small; COMMIT",
    "CHECKPOINT",
    "SET spark.sql.ansi.enabled = false",
    "SELECT reflect('java.lang.System', 'setProperty', 'evil', '1')",
    "SELECT `java_method`('java.lang.System', 'setProperty', 'evil', '1')",
    "EXPLAIN SELECT reflect('java.lang.System', 'setProperty', 'evil', '1')",
    "INSERT OVERWRITE DIRECTORY '/tmp/evil' USING parquet SELECT 1",
    "SELECT TRANSFORM (a) USING 'touch {evil}' AS (x STRING) FROM small",
    "FROM small SELECT TRANSFORM (a) USING 'touch {evil}'",
    "SELECT a INTO evil FROM small",
    "WITH d AS (DELETE FROM small RETURNING *) SELECT * FROM d",
    "EXECUTE IMMEDIATE 'DROP TABLE small'",
    "BEGIN DROP TABLE small; END",
    "ADD JAR '{evil}'",
    "CACHE TABLE evil AS SELECT 1",
    "COPY small TO '{evil}'",
    "EXPORT DATABASE '{evil}'",
    "ATTACH '{evil}'",
    "CREATE PERSISTENT SECRET evil (TYPE s3)",
    "PRAGMA enable_profiling",
    "FROM query('DELETE FROM small')",
    "SELECT * FROM ducklake_expire_snapshots('new', versions => [1])",
    "SELECT * FROM ducklake_merge_adjacent_files('other')",
)


@pytest.mark.parametrize("where", ["a page of SQL", "a condition"])
def test_nothing_is_written_without_permission(
    new_client: New, spark: SparkSession, where: str, tmp_path: Path
) -> None:
    """Not even through a handle that may write, nor in another lake of the process."""
    lake, client = new_client()
    other, _ = new_client()
    lake.create_table("small", {"a": "int", "b": "varchar"}).insert([(1, "x")])
    before = lake.version, other.version
    evil = tmp_path / "evil"
    for template in WRITES:
        text = template.replace("{evil}", str(evil))
        for dialect in ("spark", "duckdb"):
            if where == "a page of SQL":
                _, shown = ran(client, text, dialect)
            else:
                asked = {"schema": "main", "name": "small", "tab": "rows", "where": f"true; {text}"}
                shown = text_of(finished(client, client.get("/table", params=asked).text)[1])
            assert "It failed" in shown, f"{dialect}: {text}: {shown}"
        if where == "a condition":
            break
    assert (lake.version, other.version) == before
    assert [tuple(row) for row in lake.table("small").collect()] == [(1, "x")]
    assert not evil.exists() and not spark.catalog.tableExists("spark_catalog.default.evil")


def test_with_permission_sql_changes_the_lake(new_client: New) -> None:
    lake, client = new_client(write=True)
    assert "Done" in ran(client, "CREATE TABLE t (a INT)")[1]
    assert "2 rows" in ran(client, "BEGIN; INSERT INTO t VALUES (1), (2); COMMIT; SELECT * FROM t")[1]
    assert "left open" in ran(client, "BEGIN; INSERT INTO t VALUES (3)")[1]
    assert lake.table("t").count() == 2


def test_a_read_only_lake_is_never_written(shop: Lake) -> None:
    assert not Site(shop, write=True).can_write


def test_a_query_that_is_the_same_is_not_run_twice(client: TestClient) -> None:
    path = "/table?schema=main&name=small&tab=rows&where=a=1"
    assert finished(client, client.get(path).text)[0] == finished(client, client.get(path).text)[0]


def test_a_query_is_cancelled(shop: Lake) -> None:
    site = Site(shop)
    run = site.runs.start(
        "long", lambda: site.sql("SELECT count(*) FROM range(1000000000000) WHERE id % 7 = rand()", "spark")
    )
    run.wait("waiting", 60)
    run.wait("starting", 60)
    site.runs.cancel(run)
    assert (run.state, run.error) == ("cancelled", "The query was cancelled.")
    assert run.left.wait(60), "Spark goes on"


def test_only_the_newest_runs_are_kept(shop: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ducklake_spark.explorer.runs.KEPT_RUNS", 2)
    runs = Runs(Site(shop))
    made: list[Run] = [runs.start(str(number), lambda: shop.sql("SELECT 1")) for number in range(3)]
    assert runs.get(made[0].id) is None and runs.get(made[2].id) is made[2]
    for run in made:
        for state in ("waiting", "starting", "running"):
            run.wait(state, 60)


def test_the_files_of_a_download_do_not_stay(
    client: TestClient, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    run_id, _ = ran(client, "SELECT 1 AS a")
    assert client.get(f"/runs/{run_id}/result.parquet").status_code == 200
    assert not list(tmp_path.glob("ducklake-explorer-*"))
