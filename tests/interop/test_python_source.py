"""The Python data source step by step, as Spark's processes run it, beside the extension; no session is needed."""

from __future__ import annotations

import pickle
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyspark.sql.types as T
import pytest
from pyspark import cloudpickle
from pyspark.sql import datasource

import ducklake_spark
from ducklake_spark.api import python_source
from ducklake_spark.errors import (
    ConflictError,
    ConstraintError,
    InvalidInputError,
    NotADuckLakeError,
    NotFoundError,
    SnapshotNotFoundError,
)
from ducklake_spark.spark.worker_functions import arrow_schema
from tests.interop.oracle import Oracle

ROWS = T.StructType([T.StructField("id", T.LongType()), T.StructField("v", T.StringType())])
LAST = 17
"""The newest snapshot of the lake that `fill` makes."""
VERSIONS = (2, 4, 5, 9, 11, 13, LAST)


def fill(oracle: Oracle, folder: Path | str) -> None:
    """A table with all that happens to tables, and one of an added file."""
    for statement in (
        "CREATE TABLE t(a INTEGER, u UUID, s STRUCT(x INTEGER), l INTEGER[], m MAP(VARCHAR, INTEGER), d DATE, "
        "h HUGEINT, ts TIMESTAMP, tz TIMESTAMPTZ, ti TIME, iv INTERVAL, n DECIMAL(9, 2), b BLOB, f DOUBLE)",
        "INSERT INTO t SELECT i, uuid(), {'x': i}, [i, NULL], MAP {'k': i}, DATE '1500-01-01' + i::INTEGER, "
        "i * 1e30::HUGEINT, TIMESTAMP '2020-01-01' + INTERVAL (i) HOUR, TIMESTAMPTZ '2020-01-01 00:00:00+00', "
        "TIME '12:34:56.789', INTERVAL (i) DAY, i / 3, 'x'::BLOB, i FROM range(100) r(i)",
        "DELETE FROM t WHERE a % 3 = 0",
        "DELETE FROM t WHERE a = 1",
        "INSERT INTO t (a, s) VALUES (1000, {'x': 1})",
        "ALTER TABLE t RENAME COLUMN a TO b2",
        "ALTER TABLE t ADD COLUMN s.y VARCHAR DEFAULT 'y'",
        "ALTER TABLE t ADD COLUMN z BIGINT DEFAULT 42",
        "ALTER TABLE t ALTER COLUMN b2 TYPE BIGINT",
        "UPDATE t SET z = 1 WHERE b2 > 50",
        "DELETE FROM t WHERE b2 > 80 AND b2 < 99",
        "INSERT INTO t (b2, z) SELECT 2000 + i, i FROM range(20) r(i)",
        "CALL ducklake_merge_adjacent_files('lake')",
        f"COPY (SELECT i::BIGINT AS id, 'p' || i AS v FROM range(5) r(i)) TO '{folder}/added.parquet'",
        "CREATE TABLE added(id BIGINT, v VARCHAR)",
        f"CALL ducklake_add_data_files('lake', 'added', '{folder}/added.parquet')",
        "ALTER TABLE added RENAME COLUMN v TO w",
        "DELETE FROM added WHERE id = 2",
        "CREATE VIEW v AS SELECT 1 AS one",
    ):
        oracle.execute(statement)


@pytest.fixture(scope="module")
def filled(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[str, dict[Any, Any]]]:
    """A lake of the extension, and what the extension reads there."""
    folder = tmp_path_factory.mktemp("filled")
    uri = f"ducklake:sqlite:{folder}/lake.sqlite"
    with Oracle() as oracle:
        oracle.attach(uri, data_path=f"{folder}/data [x]")
        fill(oracle, folder)
        told: dict[Any, Any] = {
            version: oracle.execute(f"SELECT * EXCLUDE (u, h, ti, iv, m) FROM t AT (VERSION => {version})")
            for version in VERSIONS
        }
        told["feed"] = oracle.execute(
            f"SELECT snapshot_id, rowid, change_type, f FROM lake.table_changes('t', 2, {LAST})"
        )
        told["added"] = oracle.execute("FROM added")
    yield uri, told


@pytest.fixture
def uri(tmp_path: Path) -> str:
    made = f"ducklake:sqlite:{tmp_path}/lake.sqlite"
    ducklake_spark.attach(made, data_path=tmp_path / "data").close()
    return made


def sent(value: Any) -> Any:
    """What arrives in another process."""
    return pickle.loads(cloudpickle.dumps(value))


def source(uri: str, table: str, **options: Any) -> python_source.DuckLakeSource:
    given = {name: str(value) for name, value in options.items()}
    return python_source.DuckLakeSource({"path": uri, "table": table, **given})


def rows_of(reader: Any) -> list[dict[str, Any]]:
    worker = sent(reader)
    tasks = [sent(partition) for partition in reader.partitions()]
    return [row for task in tasks for batch in worker.read(task) for row in batch.to_pylist()]


def read(uri: str, table: str, **options: Any) -> list[dict[str, Any]]:
    made = source(uri, table, **options)
    schema = made.schema()
    return rows_of(sent(made).reader(schema))


def write(
    uri: str,
    tasks: Sequence[Sequence[Any]],
    schema: T.StructType = ROWS,
    *,
    overwrite: bool = False,
    **options: Any,
) -> None:
    """Writes the rows of some tasks, as Spark does; a failed task ends it."""
    writer = sent(source(uri, "w", **options).writer(schema, overwrite))
    arrow, messages = arrow_schema(schema), []
    try:
        for rows in tasks:
            named = [dict(zip(schema.names, row, strict=True)) for row in rows]
            messages.append(sent(writer.write(iter([pa.RecordBatch.from_pylist(named, schema=arrow)]))))
    except Exception:
        sent(writer).abort(messages)
        raise
    sent(writer).commit(messages)


def told(uri: str, *queries: str) -> list[Any]:
    with Oracle() as oracle:
        oracle.attach(uri)
        return [oracle.execute(query) for query in queries]


# Reads.


def test_every_version_is_read_as_the_extension_does(filled: tuple[str, dict[Any, Any]]) -> None:
    uri, theirs = filled
    for version in VERSIONS:
        found = read(uri, "main.t", versionAsOf=version)
        hidden = ("u", "h", "ti", "iv", "m")  # other types there: the Connect session compares these
        ours = [repr([v for k, v in row.items() if k not in hidden and k != "tz"]) for row in found]
        at = list(found[0]).index("tz") - sum(
            list(found[0]).index(name) < list(found[0]).index("tz") for name in hidden
        )
        assert sorted(ours) == sorted(repr([*row[:at], *row[at + 1 :]]) for row in theirs[version]), version
        assert [row["tz"].timestamp() for row in found if row["tz"]] == [
            row[at].timestamp() for row in theirs[version] if row[at]
        ]


def test_change_feed_is_that_of_the_extension(filled: tuple[str, dict[Any, Any]]) -> None:
    uri, theirs = filled
    found = read(uri, "t", readChangeFeed="true", startingVersion=2)
    ours = [(row["snapshot_id"], row["rowid"], row["change_type"], row["f"]) for row in found]
    assert sorted(ours, key=repr) == sorted(map(tuple, theirs["feed"]), key=repr)
    some = read(uri, "t", readChangeFeed="true", startingVersion=3, endingVersion=4)
    assert {row["change_type"] for row in some} == {"delete"} and len(some) == 35


def test_added_file_is_read_by_its_names(filled: tuple[str, dict[Any, Any]]) -> None:
    uri, theirs = filled
    assert sorted(tuple(row.values()) for row in read(uri, "added")) == sorted(theirs["added"])


@pytest.mark.skipif(not hasattr(datasource, "EqualTo"), reason="Spark hands filters over since 4.1")
def test_filters_prune_files_and_rows(filled: tuple[str, dict[Any, Any]]) -> None:
    uri, _ = filled
    made = source(uri, "t")
    schema = made.schema()

    def kept(*filters: Any) -> list[int]:
        reader = python_source._PushingReader(made.options, schema, LAST)
        assert list(reader.pushFilters(list(filters))) == list(filters)  # Spark applies them as well
        assert len(reader.partitions()) <= 2
        return sorted(row["b2"] for row in rows_of(reader))

    assert kept(datasource.EqualTo(("b2",), 5)) == [5]
    assert kept(datasource.In(("b2",), (7, 8, 2003))) == [7, 8, 2003]
    assert kept(datasource.Not(datasource.LessThan(("b2",), 2018))) == [2018, 2019]
    assert len(kept(datasource.StringEndsWith(("b2",), "x"))) == 74  # not known: nothing is left out


@pytest.mark.parametrize(
    ("table", "options", "error", "message"),
    [
        ("nothing", {}, NotFoundError, "nothing"),
        ("v", {}, InvalidInputError, "is a view"),
        ("t", {"versionAsOf": 999}, SnapshotNotFoundError, "999"),
        ("t", {"versionAs0f": 1}, InvalidInputError, "Did you mean"),
        ("t", {"readChangeFeed": "true"}, InvalidInputError, "needs startingVersion"),
        ("t", {"path": "lake.t"}, InvalidInputError, "does not"),
    ],
)
def test_mistakes_of_reads_are_named(
    filled: tuple[str, dict[Any, Any]],
    table: str,
    options: dict[str, Any],
    error: type[Exception],
    message: str,
) -> None:
    if "path" in options:
        with pytest.raises(InvalidInputError, match="needs the lake and the table"):
            python_source.DuckLakeSource(options).schema()
        return
    with pytest.raises(error, match=message):
        read(filled[0], table, **options)


def test_reading_makes_no_lake(tmp_path: Path) -> None:
    with pytest.raises(NotADuckLakeError):
        read(f"ducklake:sqlite:{tmp_path}/other.sqlite", "t", data_path=tmp_path / "data")
    assert not list(tmp_path.iterdir())


def test_streams_are_refused(uri: str) -> None:
    made = source(uri, "t")
    for ask in (made.streamReader, made.simpleStreamReader, lambda schema: made.streamWriter(schema, False)):
        with pytest.raises(InvalidInputError, match="classic session"):
            ask(ROWS)


# Writes.


def test_tasks_write_one_snapshot(uri: str) -> None:
    write(uri, [[(i, "n") for i in range(3)]])  # makes the table; few rows go to the catalog
    write(uri, [[(i, "n") for i in range(3, 1000)], [], [(i, "n") for i in range(1000, 2000)]])
    write(
        uri, [[(2000, 4000)]], T.StructType([ROWS[0], T.StructField("z", T.LongType())]), mergeSchema="true"
    )
    for _ in range(2):  # a numbered write that comes again writes nothing
        write(uri, [[(2001, "n")]], txnAppId="job", txnVersion=1)
    [[(rows, ids)], wide, [(snapshots,)]] = told(
        uri,
        "SELECT count(*), count(DISTINCT id) FROM w",
        "SELECT * FROM w WHERE id = 2000",
        "SELECT count(*) FROM ducklake_snapshots('lake')",
    )
    assert (rows, ids, snapshots) == (2002, 2002, 5) and wide == [(2000, None, 4000)]


def test_overwrite_empties_files_with_deletes_in_the_catalog(uri: str) -> None:
    write(uri, [[(i, "n") for i in range(2000)]])
    with Oracle() as oracle:
        oracle.attach(uri)
        oracle.execute("DELETE FROM w WHERE id IN (5, 1500)")
    write(uri, [[(i, "m") for i in range(50)]], overwrite=True)
    write(
        uri,
        [[(1,)]],
        T.StructType([T.StructField("q", T.LongType())]),
        overwrite=True,
        overwriteSchema="true",
    )
    before, [(deleted,)], now = told(
        uri,
        "SELECT count(*), max(v) FROM w AT (VERSION => 3)",
        "SELECT count(*) FROM lake.table_changes('w', 3, 3) WHERE change_type = 'delete'",
        "FROM w",
    )
    assert before == [(50, "m")] and deleted == 1998 and now == [(1,)]


def test_partitions_and_failures(uri: str, tmp_path: Path) -> None:
    with ducklake_spark.attach(uri) as lake:
        lake.create_table("w", {"id": "bigint", "v": "varchar"}, partitioned_by=["v"], not_null=["id"])
    write(uri, [[(i, f"p{i % 2}") for i in range(200)], [(i, f"p{i % 2}") for i in range(200, 400)]])
    before = sorted(map(str, tmp_path.rglob("*")))
    assert sum("v=p" in each and each.endswith(".parquet") for each in before) == 2
    with pytest.raises(ConstraintError, match='column "id"'):
        write(uri, [[(i, "a") for i in range(100)], [(None, "a"), *((i, "a") for i in range(100))]])
    writer = source(uri, "w").writer(ROWS, False)
    with ducklake_spark.attach(uri) as lake:
        lake["w"].rename_column("v", "x")
    with pytest.raises(ConflictError, match="was altered"):
        writer.commit([])
    assert sorted(map(str, tmp_path.rglob("*"))) == before
    assert told(uri, "SELECT count(*) FROM w") == [[(400,)]]


@pytest.mark.parametrize(
    ("schema", "options", "message"),
    [
        ({"id": T.StringType()}, {}, "Cannot store string"),
        ({"idd": T.LongType()}, {}, 'Did you mean "id"'),
        ({"id": T.LongType(), "v": T.TimestampType()}, {}, "Cast it in the DataFrame"),
        ({"id": T.LongType()}, {"replaceWhere": "id = 1"}, "overwrite\\(rows, where\\)"),
        ({"id": T.LongType()}, {"partitionOverwriteMode": "dynamic"}, "overwrite_partitions"),
    ],
)
def test_mistakes_of_writes_are_named(
    uri: str, schema: dict[str, T.DataType], options: dict[str, str], message: str
) -> None:
    with ducklake_spark.attach(uri) as lake:
        lake.create_table("w", {"id": "bigint", "v": "varchar"})
    made = T.StructType([T.StructField(name, kind) for name, kind in schema.items()])
    with pytest.raises(InvalidInputError, match=message):
        write(uri, [], made, overwrite=True, **options)
