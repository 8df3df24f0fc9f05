"""How many files a write makes: as few as fit the target size, however many tasks of Spark wrote them."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import DataFrame, SparkSession

import ducklake_spark
from ducklake_spark import Lake, Table
from ducklake_spark.workers.parquet_concat import UnlikeFilesError, concat, read_layout, row_count
from ducklake_spark.write.encoders import packing
from tests.interop.oracle import Oracle

pytestmark = pytest.mark.spark

FLAT, NESTED = "a BIGINT, b VARCHAR, k INTEGER", "a BIGINT, b VARCHAR, k INTEGER, l INTEGER[]"
"""Spark's own writer stores the first, DuckDB in the workers the second."""


@pytest.fixture(scope="module")
def lake(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lake]:
    folder = tmp_path_factory.mktemp("packing")
    with ducklake_spark.attach(
        f"ducklake:sqlite:{folder / 'ours.db'}", name="lake", data_path=str(folder / "data"), spark=spark
    ) as lake:
        yield lake


def frame(lake: Lake, columns: str, rows: int, tasks: int) -> DataFrame:
    made = lake.spark.range(0, rows, 1, tasks).selectExpr(
        "id AS a", "sha1(string(id)) AS b", "int(id * 7919 % 3) AS k"
    )
    return made if columns == FLAT else made.selectExpr("*", "array(int(a), NULL) AS l")


def new_table(lake: Lake, columns: str, **keywords: Any) -> Table:
    return lake.create_table(f"t{len(lake.tables())}", columns, **keywords)


def paths_of(lake: Lake, table: Table) -> list[Path]:
    folder = Path(lake.data_path) / "main" / table.name.rpartition(".")[2]
    assert not list(folder.rglob("job-*"))
    return sorted(folder.rglob("*.parquet"))


def catalog_rows(lake: Lake, table: Table, what: str, columns: str) -> list[tuple[Any, ...]]:
    ids = (
        lake.metadata("ducklake_table")
        .where(f"table_name = '{table.name.rpartition('.')[2]}'")
        .select("table_id")
    )
    found = lake.metadata(what).join(ids, "table_id").selectExpr(*columns.split(", "))
    return sorted(tuple(row) for row in found.collect())


STATISTICS = "column_id, value_count, null_count, min_value, max_value, contains_nan"


@pytest.mark.parametrize("columns", [FLAT, NESTED])
@pytest.mark.parametrize(("rows", "tasks", "groups"), [(12_000, 16, 1), (150_000, 3, 3)])
def test_small_outputs_of_many_tasks_become_one_file(
    lake: Lake, columns: str, rows: int, tasks: int, groups: int
) -> None:
    """Few rows are written again, more are joined by row groups: the same rows, order, statistics and facts."""
    table, alone = new_table(lake, columns), new_table(lake, columns)
    assert table.insert(frame(lake, columns, rows, tasks)) == rows
    alone.insert(frame(lake, columns, rows, 1))
    [path] = paths_of(lake, table)
    read = pq.ParquetFile(path)
    assert (read.metadata.num_rows, read.metadata.num_row_groups) == (rows, groups)
    assert read.read(["a"]).column("a").to_pylist() == list(range(rows))
    facts = "record_count, file_size_bytes, row_id_start"
    assert catalog_rows(lake, table, "ducklake_data_file", facts) == [(rows, path.stat().st_size, 0)]
    with duckdb.connect() as connection:
        [[footer]] = connection.execute(
            "SELECT footer_size FROM parquet_file_metadata(?)", [str(path)]
        ).fetchall()
    assert catalog_rows(lake, table, "ducklake_data_file", "footer_size") == [(footer,)]
    stats = [catalog_rows(lake, each, "ducklake_file_column_stats", STATISTICS) for each in (table, alone)]
    assert stats[0] == stats[1] and len(stats[0]) == (3 if columns == FLAT else 4)
    assert table.to_df().where(f"a >= {rows - 10}").count() == 10


def test_create_table_as_of_few_rows_writes_one_file(lake: Lake) -> None:
    source = new_table(lake, FLAT, partitioned_by=["k"])
    source.insert(frame(lake, FLAT, 300, 1))
    assert len(paths_of(lake, source)) == 3
    lake.sql(f"CREATE TABLE few AS SELECT a, k FROM {source.name} WHERE a < 15")
    assert len(paths_of(lake, lake["few"])) == 1 and lake["few"].to_df().count() == 15


@pytest.mark.parametrize("columns", [FLAT, NESTED])
@pytest.mark.parametrize("tasks", [1, 7])
def test_large_outputs_are_cut_by_the_target_size(lake: Lake, columns: str, tasks: int) -> None:
    table = new_table(lake, columns)
    table.set_option("target_file_size", "500KB")
    table.set_option("parquet_row_group_size", 2048)
    for number in range(2):  # before and after the table's files tell how large a row is
        table.insert(frame(lake, columns, 60_000, tasks))
        sizes = [path.stat().st_size for path in paths_of(lake, table)]
        total = sum(sizes)
        assert max(sizes) <= 700_000
        assert total / 700_000 <= len(sizes) <= 2 * total / 500_000 + 1, (number, sizes)
    assert table.to_df().selectExpr("count(*)", "count(DISTINCT a)").first() == (120_000, 60_000)


@pytest.mark.parametrize("columns", [FLAT, NESTED])
def test_a_partition_that_fits_one_file_is_one(lake: Lake, columns: str) -> None:
    table = new_table(lake, columns, partitioned_by=["k"])
    table.insert(frame(lake, columns, 50_000, 8))
    assert [path.parent.name for path in paths_of(lake, table)] == ["k=0", "k=1", "k=2"]
    assert catalog_rows(lake, table, "ducklake_file_partition_value", "partition_value") == [
        ("0",),
        ("1",),
        ("2",),
    ]
    assert table.to_df().where("k = 1").count() == sum(i * 7919 % 3 == 1 for i in range(50_000))


@pytest.mark.parametrize("columns", [FLAT, NESTED])
def test_one_file_of_a_sorted_table_is_sorted(lake: Lake, columns: str) -> None:
    table = new_table(lake, columns, sorted_by=["k DESC", "b"])
    table.insert(frame(lake, columns, 30_000, 5))
    [path] = paths_of(lake, table)
    rows = [(-row["k"], row["b"]) for row in pq.read_table(path, columns=["k", "b"]).to_pylist()]
    assert rows == sorted(rows)


@pytest.mark.parametrize("columns", [FLAT, NESTED])
def test_changed_rows_keep_their_ids_in_a_packed_file(lake: Lake, columns: str, oracle: Oracle) -> None:
    table = new_table(lake, columns)
    table.set_option("per_thread_output", True)
    table.insert(frame(lake, columns, 24_000, 6))
    table.set_option("per_thread_output", False)
    before = {
        row[0]: row[1]
        for row in lake.table(table.name, virtual_columns=["rowid"]).select("a", "rowid").collect()
    }
    assert table.update({"b": "'new'"}, "a % 2 = 0") == 12_000
    assert len(paths_of(lake, table)) == 6 + 6 + 1, (
        "six files, what is deleted from each, and one of new versions"
    )
    after = (
        lake.table(table.name, virtual_columns=["rowid"]).where("b = 'new'").select("a", "rowid").collect()
    )
    assert {row[0]: row[1] for row in after} == {a: rowid for a, rowid in before.items() if a % 2 == 0}
    location = str(Path(lake.data_path).parent / "ours.db")
    oracle.attach(f"ducklake:sqlite:{location}", data_path=lake.data_path)
    theirs = oracle.execute(f"SELECT a, rowid FROM {table.name} WHERE b = 'new' ORDER BY a")
    assert theirs == [(a, before[a]) for a in range(0, 24_000, 2)]


def test_much_is_packed_in_tasks(lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(packing, "_HERE", 0)
    table = new_table(lake, NESTED, partitioned_by=["k"])
    table.set_option("target_file_size", "1MB")
    table.insert(frame(lake, NESTED, 40_000, 4))
    flat = new_table(lake, FLAT)
    flat.insert(frame(lake, FLAT, 140_000, 4))
    assert len(paths_of(lake, flat)) == 1
    assert flat.to_df().selectExpr("count(*)", "sum(a)").first() == (140_000, sum(range(140_000)))
    assert table.to_df().selectExpr("count(*)", "sum(a)").first() == (40_000, sum(range(40_000)))


def test_variants_are_not_joined(lake: Lake) -> None:
    """Each file shreds them in its own way."""
    table = new_table(lake, "a BIGINT, v VARIANT")
    rows = lake.spark.range(0, 130_000, 1, 2).selectExpr(
        "id AS a",
        "parse_json(IF(id < 65000, concat('{\"x\":', id, '}'), concat('{\"y\":\"', id, '\"}'))) AS v",
    )
    table.insert(rows)
    assert len(paths_of(lake, table)) == 2
    assert table.to_df().where("try_variant_get(v, '$.x', 'bigint') IS NOT NULL").count() == 65_000


# Files joined byte by byte


def written_by_spark(spark: SparkSession, folder: Path) -> list[str]:
    spark.range(0, 90_000, 1, 3).selectExpr("id", "string(id % 7) AS s", "array(id) AS l").write.option(
        "parquet.page.row.count.limit", 1000
    ).parquet(str(folder))
    for path in folder.glob(".*.crc"):  # checksums of Hadoop, which lake files do not have
        path.unlink()
    return sorted(str(path) for path in folder.glob("*.parquet"))


def written_by_duckdb(_: SparkSession, folder: Path) -> list[str]:
    folder.mkdir()
    paths = [str(folder / f"{number}.parquet") for number in range(3)]
    with duckdb.connect() as connection:
        for number, path in enumerate(paths):
            rows = f"range({number * 30_000}, {number * 30_000 + 30_000}) r(id)"
            select = f"SELECT id, (id % 7)::VARCHAR AS s, [id] AS l FROM {rows}"
            connection.execute(f"COPY ({select}) TO '{path}' (ROW_GROUP_SIZE 10240)")
    return paths


@pytest.mark.parametrize("write", [written_by_spark, written_by_duckdb])
def test_joined_files_have_the_rows_of_all(spark: SparkSession, tmp_path: Path, write: Any) -> None:
    paths = write(spark, tmp_path / "files")
    groups = sum(pq.ParquetFile(path).metadata.num_row_groups for path in paths)
    size, footer_size = concat(paths)
    assert [path for path in paths if Path(path).exists()] == paths[:1]
    assert (Path(paths[0]).stat().st_size, row_count(paths[0])) == (size, 90_000)
    read = pq.ParquetFile(paths[0])
    assert (read.metadata.num_row_groups, read.metadata.serialized_size) == (groups, footer_size)
    assert read.read(["id"]).column("id").to_pylist() == list(range(90_000))
    # Spark goes to pages by the page index, DuckDB by dictionaries and Bloom filters.
    assert spark.read.parquet(paths[0]).where("id BETWEEN 59990 AND 60010 AND l[0] = id").count() == 21
    with duckdb.connect() as connection:
        found = connection.execute(
            "SELECT count(*), min(id), sum(l[1]) FROM read_parquet(?) WHERE s = '3' AND id >= 80000",
            [paths[0]],
        ).fetchall()
    wanted = [i for i in range(80_000, 90_000) if i % 7 == 3]
    assert found == [(len(wanted), wanted[0], sum(wanted))]


def test_files_of_other_columns_are_left_alone(tmp_path: Path) -> None:
    left, right, text = (str(tmp_path / name) for name in ("left.parquet", "right.parquet", "text"))
    pq.write_table(pa.table({"a": [1]}), left)
    pq.write_table(pa.table({"b": [1]}), right)
    Path(text).write_text("no Parquet file")
    kept = shutil.copy(left, tmp_path / "kept")
    for other in (right, text):
        with pytest.raises(UnlikeFilesError):
            concat([left, other])
    assert Path(left).read_bytes() == Path(kept).read_bytes()
    assert read_layout(left).shape != read_layout(right).shape
