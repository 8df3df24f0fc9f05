"""Existing Parquet files that are added to tables, beside the extension that adds the same files."""

from __future__ import annotations

import datetime as dt
import decimal
import itertools
import os
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import ducklake_spark
from ducklake_spark.errors import (
    ConstraintError,
    DuckLakeError,
    FileError,
    InvalidInputError,
    NotFoundError,
    ReadOnlyError,
)
from ducklake_spark.format.parquet_types import check, columns_of
from ducklake_spark.workers.footers import read_footers
from tests.interop import catalogs
from tests.interop.oracle import Oracle, OracleError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

TIME = dt.datetime(2020, 1, 2, 3, 4, 5)


def write(path: Path, sql: str, options: str = "") -> str:
    """A file with the rows of a query, by DuckDB."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with duckdb.connect() as connection:
        connection.execute("SET TimeZone = 'UTC'")
        connection.execute(f"COPY ({sql}) TO '{path}' (FORMAT parquet{options})")
    return str(path)


class Twins:
    """Two lakes with the same tables, one for each side."""

    def __init__(self, oracle: Oracle, spark: SparkSession, folder: Path, tables: str) -> None:
        self.oracle, self.spark, self.folder = oracle, spark, folder
        self.uris = {}
        for name in ("theirs", "ours"):
            self.uris[name] = f"ducklake:{folder / name}.ducklake"
            oracle.attach(self.uris[name], data_path=f"{folder / name}_data")
            oracle.execute(tables)
            oracle.detach()
        self.lake = ducklake_spark.attach(self.uris["ours"], spark=spark, name="lake")

    def add(self, table: str, path: str | list[str], **options: Any) -> None:
        """Adds files on both sides, or fails on both with an error about the same."""
        theirs, ours = None, None
        self.oracle.attach(self.uris["theirs"])
        paths = repr(path)
        named = "".join(f", {key} => {str(value).lower()}" for key, value in options.items())
        try:
            self.oracle.execute(f"CALL ducklake_add_data_files('lake', '{table}', {paths}{named})")
        except OracleError as error:
            theirs = error
        self.oracle.detach()
        try:
            self.lake.add_data_files(table, path, **options)
        except DuckLakeError as error:
            ours = error
        assert (theirs is None) == (ours is None), (theirs, ours)
        if ours is not None:
            assert len(str(ours)) < 400

    def assert_same(self, *, but: tuple[str, ...] = ()) -> None:
        """The rows of both catalogs, names of columns in any order, and the rows of all tables on both sides."""
        theirs, ours = self._dumped("theirs"), self._dumped("ours")
        for table in MAPPED:
            if table not in but:
                assert theirs[table] == ours[table], table
        self.assert_read_alike()

    def _dumped(self, name: str) -> dict[str, list[Any]]:
        found = catalogs.dump(self.uris[name])
        rows: dict[str, list[Any]] = {}
        for table in MAPPED:
            rows[table] = sorted(
                str(
                    {
                        key: value
                        for key, value in row.items()
                        if key not in ("snapshot_time", "column_id" * is_names)
                    }
                )
                for is_names in [table == "ducklake_name_mapping"]
                for row in found[table]
            )
        # The number of a row is by chance for columns from folders; what it says is not.
        names = {(row["mapping_id"], row["column_id"]): row for row in found["ducklake_name_mapping"]}
        rows["ducklake_name_mapping"] = sorted(
            str(
                (
                    key[0],
                    row["source_name"],
                    row["target_field_id"],
                    row["is_partition"],
                    parent and parent["source_name"],
                )
            )
            for key, row in names.items()
            for parent in [names.get((key[0], row["parent_column"]))]
        )
        return rows

    def assert_read_alike(self, *, but: tuple[str, ...] = ()) -> None:
        """Our lake's tables, as the extension and as Spark read them."""
        tables = [row.table_name for row in self.lake.table_info().collect() if row.table_name not in but]
        ours = {table: shown(self.lake.table(table).collect()) for table in tables}
        self.lake.close()
        self.oracle.attach(self.uris["ours"])
        for table in tables:
            assert shown(self.oracle.execute(f"SELECT * FROM {table}")) == ours[table], table
        self.oracle.detach()
        self.lake = ducklake_spark.attach(self.uris["ours"], spark=self.spark, name="lake")


MAPPED = (
    "ducklake_data_file",
    "ducklake_file_column_stats",
    "ducklake_file_partition_value",
    "ducklake_column_mapping",
    "ducklake_name_mapping",
    "ducklake_table_stats",
    "ducklake_table_column_stats",
    "ducklake_snapshot",
    "ducklake_snapshot_changes",
)


def shown(rows: Any) -> list[str]:
    """Rows as texts that both sides write alike, in order."""
    return sorted(str(_plain(row)) for row in rows)


def _plain(value: Any) -> Any:
    if isinstance(value, dict):
        return (
            [_plain(part) for part in value.items()]
            if not _is_struct(value)
            else [*map(_plain, value.values())]
        )
    if isinstance(value, (list, tuple)):
        return [_plain(part) for part in value]
    if isinstance(value, dt.datetime) and value.tzinfo is not None:
        return value.astimezone(dt.timezone.utc).replace(tzinfo=None)
    if isinstance(value, bytearray):
        return bytes(value)
    if isinstance(value, dt.time):
        return str(value).rstrip("0") if value.microsecond else str(value)  # a text in Spark
    if isinstance(value, int) and abs(value) > 10**17:
        return dt.datetime(1970, 1, 1) + dt.timedelta(microseconds=value // 1000)  # nanoseconds, in Spark
    if isinstance(value, decimal.Decimal) and value == int(value):
        return int(value)  # numbers of 64 bits without a sign are decimals in Spark
    return str(value) if isinstance(value, uuid.UUID) else value


def _is_struct(value: dict[Any, Any]) -> bool:
    return all(isinstance(key, str) and len(key) < 3 and key != "k" for key in value)


@pytest.fixture
def twins(oracle: Oracle, spark: SparkSession, tmp_path: Path) -> Iterator[Callable[[str], Twins]]:
    made: list[Twins] = []

    def make(tables: str) -> Twins:
        made.append(Twins(oracle, spark, tmp_path, tables))
        return made[-1]

    yield make
    for each in made:
        each.lake.close()


def test_files_patterns_lists_and_folders_give_the_rows_of_the_extension(
    twins: Callable[[str], Twins], tmp_path: Path
) -> None:
    both = twins("CREATE TABLE t(id BIGINT, name VARCHAR, part INTEGER DEFAULT 42)")
    one = write(tmp_path / "x/one.parquet", "SELECT 1::BIGINT id, 'a' AS name, 5 part")
    b = write(tmp_path / "x/g/b.parquet", "SELECT 2::BIGINT id, 'a' AS name, 5 part")
    write(tmp_path / "x/g/a.parquet", "SELECT 'a' AS name, 5 part, 3::BIGINT id")
    write(tmp_path / "x/g/sub/c.parquet", 'SELECT 4::BIGINT "ID", \'a\' AS "NAME", 5 part')
    empty = write(tmp_path / "x/empty.parquet", "SELECT 2::BIGINT id, 'a' AS name, 5 part WHERE false")
    both.add("t", one)
    both.add("t", f"{tmp_path}/x/g/*.parquet")  # another order of columns is no other shape
    both.add("t", f"{tmp_path}/x/g/**/*.parquet")
    both.add("t", [one, b, one])  # twice in one call is once
    both.add("t", [f"{tmp_path}/x/g/?.parquet", b])
    both.add("t", empty)  # no rows, no snapshot
    both.add("t", [empty, one])
    both.add("t", f"{tmp_path}/x/g")
    both.assert_same()


def test_missing_and_extra_columns_as_the_extension_decides(
    twins: Callable[[str], Twins], tmp_path: Path
) -> None:
    both = twins(
        "CREATE TABLE t(id BIGINT, name VARCHAR); INSERT INTO t VALUES (0, 'x'); "
        "ALTER TABLE t ADD COLUMN part INTEGER DEFAULT 42"
    )
    less = write(tmp_path / "less.parquet", "SELECT 1::BIGINT id")
    more = write(tmp_path / "more.parquet", "SELECT 1::BIGINT id, 'a' AS name, 5 part, 6 z")
    bad = write(tmp_path / "bad.parquet", "SELECT 1::BIGINT idx WHERE false")
    both.add("t", less)
    both.add("t", less, allow_missing=True)
    both.add("t", more)
    both.add("t", more, ignore_extra_columns=True)
    both.add("t", bad)
    # The extension forgets that `name` has a NULL now: it would not find it.
    both.assert_same(but=("ducklake_table_column_stats",))
    assert both.lake.sql("SELECT id, part FROM t WHERE name IS NULL").collect() == [(1, 42)]
    both.lake.close()
    both.oracle.attach(both.uris["ours"])
    assert both.oracle.execute("SELECT id, part FROM t WHERE name IS NULL") == [(1, 42)]


def test_nested_columns_of_all_writers_are_mapped_alike(
    twins: Callable[[str], Twins], spark: SparkSession, tmp_path: Path
) -> None:
    both = twins(
        "CREATE TABLE n(s STRUCT(a INT, b STRUCT(x INT, y VARCHAR)), l STRUCT(p INT)[], m MAP(VARCHAR, INT[]))"
    )
    rest = "[{'p': 1}] l, map {'k': [1]} m"
    short = write(tmp_path / "short.parquet", f"SELECT {{'A': 1, 'b': {{'Y': 'q'}}}} s, {rest}")
    long = write(tmp_path / "long.parquet", f"SELECT {{'a': 1, 'b': {{'y': 'q', 'x': 1, 'z': 2}}}} s, {rest}")
    wrong = write(tmp_path / "wrong.parquet", f"SELECT {{'a': 1, 'b': {{'y': 'q', 'x': '1'}}}} s, {rest}")
    renamed = write(
        tmp_path / "renamed.parquet",
        "SELECT {'a': 1, 'b': {'x': 1, 'y': 'q'}} s, [{'q': 1}] l, map {'k': [1]} m",
    )
    both.add("n", short)
    both.add("n", short, allow_missing=True)
    both.add("n", long)
    both.add("n", long, ignore_extra_columns=True)
    both.add("n", wrong)
    both.add("n", renamed)
    schema = pa.schema(
        [
            ("s", pa.struct([("a", pa.int32()), ("b", pa.struct([("x", pa.int32()), ("y", pa.string())]))])),
            ("l", pa.list_(pa.struct([("p", pa.int32())]))),
            ("m", pa.map_(pa.string(), pa.list_(pa.int32()))),
        ]
    )
    rows = [
        {"s": {"a": 1, "b": {"x": 1, "y": "q"}}, "l": [{"p": 1}], "m": [("k", [1])]},
        {"s": None, "l": [], "m": None},
    ]
    table = pa.Table.from_pylist(rows, schema)
    for compliant in (True, False):
        path = f"{tmp_path}/arrow_{compliant}.parquet"
        pq.write_table(table, path, use_compliant_nested_type=compliant)
        both.add("n", path)
    spark.createDataFrame(table).coalesce(1).write.parquet(f"{tmp_path}/spark")
    both.add("n", f"{tmp_path}/spark/*.parquet")
    both.assert_same()


def test_statistics_are_those_of_the_footers(twins: Callable[[str], Twins], tmp_path: Path) -> None:
    both = twins(
        "CREATE TABLE s(b BOOLEAN, v VARCHAR, bl BLOB, ts TIMESTAMP, tz TIMESTAMPTZ, d DECIMAL(9,2), u UUID, f DOUBLE, "
        "dd DATE, tt TIME, i BIGINT, j JSON)"
    )
    ours = write(
        tmp_path / "d.parquet",
        "SELECT true b, 'ä' v, '\\xAA'::BLOB bl, TIMESTAMP '2020-01-01 01:02:03' ts, TIMESTAMPTZ '2020-01-01 01:02:03+00' "
        "tz, 1.5::DECIMAL(9,2) d, '00000000-0000-0000-0000-000000000001'::UUID u, 1.5::DOUBLE f, DATE '0044-01-01' dd, "
        "TIME '01:02:03.5' tt, 9::BIGINT i, '1'::JSON j UNION ALL SELECT false, NULL, '\\xBB'::BLOB, NULL, NULL, 10.5, "
        "NULL, 1.0, DATE '2020-01-01', NULL, 10, NULL",
    )
    both.add("s", ours)
    table = pa.table(
        {
            "b": pa.array([True, False]),
            "v": ["a" * 300, "b" * 300],
            "bl": pa.array([b"\x00\xff", b"a"], pa.binary()),
            "ts": pa.array([TIME, None], pa.timestamp("us")),
            "tz": pa.array([TIME, None], pa.timestamp("us", "UTC")),
            "d": pa.array([decimal.Decimal("1.50"), decimal.Decimal("10.50")], pa.decimal128(9, 2)),
            "u": pa.ExtensionArray.from_storage(pa.uuid(), pa.array([b"1" * 16, b"2" * 16], pa.binary(16))),
            "f": pa.array([2.0, 10.0]),
            "dd": pa.array([TIME.date(), None]),
            "tt": pa.array([dt.time(1, 2, 3), None], pa.time64("us")),
            "i": pa.array([9, 10], pa.int64()),
            "j": pa.ExtensionArray.from_storage(pa.json_(), pa.array(["1", None])),
        }
    )
    pq.write_table(table, tmp_path / "a.parquet")
    both.add("s", str(tmp_path / "a.parquet"))
    both.assert_same()
    # Whoever counts nothing says nothing, and then the table's bounds are not known; the extension forgets that.
    pq.write_table(table, tmp_path / "silent.parquet", write_statistics=False)
    both.add("s", str(tmp_path / "silent.parquet"))
    both.assert_same(but=("ducklake_table_column_stats",))
    assert both.lake.metadata("ducklake_table_column_stats").where("min_value IS NOT NULL").count() == 0


def test_folders_with_values(twins: Callable[[str], Twins], tmp_path: Path) -> None:
    both = twins(
        'CREATE TABLE t(id BIGINT, part INTEGER, d DATE, s VARCHAR); CREATE TABLE h(id BIGINT, s VARCHAR, n INTEGER, "a b" '
        "INTEGER); CREATE TABLE k(id BIGINT, ts TIMESTAMP, b BOOLEAN, f DOUBLE, u UUID, tt TIMESTAMPTZ, x DECIMAL(9,2)); "
        "CREATE TABLE l(id BIGINT, l INT[])"
    )
    ids, rest = "SELECT 1::BIGINT id", ", DATE '2021-01-01' d, 'x' s"
    both.add("t", write(tmp_path / "part=7/d=2020-01-01/s=a%20b%2Fc/f.parquet", ids))
    has_all = write(tmp_path / "part=7/f.parquet", f"{ids}, 9 part{rest}")
    both.add("t", has_all)
    both.add("t", has_all, hive_partitioning=False)
    both.add("t", has_all, hive_partitioning=True)
    for folder in (
        "part=abc",
        "part=__HIVE_DEFAULT_PARTITION__",
        "PART=8",
        "part=",
        "other=1/part=007",
        "other=1",
    ):
        both.add("t", write(tmp_path / folder / "f.parquet", f"{ids}{rest}"))
    both.add("t", write(tmp_path / "part=1/part=2/f.parquet", f"{ids}{rest}"))
    both.add("t", write(tmp_path / "d=2020-1-2/f.parquet", f"{ids}, 3 part, 'x' s"))
    for folder in (
        "s=NULL/n=1/a b=1",
        "s=null/n=NULL/a%20b=1",
        "s=/n=/a b=1",
        "s=x=y/n=1/a b=1",
        "s=%41+b/n= 5 /a b=1.5",
    ):
        both.add("h", write(tmp_path / folder / "f.parquet", ids), allow_missing=True)
    typed = "ts=2020-01-01 01%3A02%3A03/b=1/f=1e3/u=00000000000000000000000000000001/tt=2020-01-01 00%3A00%3A00%2B00/x=1.5"
    both.add("k", write(tmp_path / typed / "f.parquet", ids))
    both.add("l", write(tmp_path / "l=3/f.parquet", ids))
    # Some files have no folder for `s`: NULLs of which the extension's bounds know nothing.
    both.assert_same(but=("ducklake_table_column_stats",))


def test_partitioned_tables_take_files_with_all_their_keys(
    twins: Callable[[str], Twins], tmp_path: Path
) -> None:
    both = twins(
        "CREATE TABLE p(id BIGINT, part INTEGER, s VARCHAR); ALTER TABLE p SET PARTITIONED BY (part); "
        "CREATE TABLE y(id BIGINT, ts TIMESTAMP, s VARCHAR); ALTER TABLE y SET PARTITIONED BY (year(ts), bucket(4, id), s)"
    )
    ids = "SELECT 1::BIGINT id"
    both.add("p", write(tmp_path / "f.parquet", f"{ids}, 9 part, 'x' s"))
    both.add("p", write(tmp_path / "s=q/part=5/f.parquet", f"{ids}, 9 part, 'x' s"))
    both.add("p", write(tmp_path / "part=5/f.parquet", f"{ids}, 9 part, 'x' s"))
    both.add("p", write(tmp_path / "z=1/part=6/f.parquet", f"{ids}, 'x' s"))
    both.add("p", f"{tmp_path}/z=1/part=6/f.parquet", hive_partitioning=False, allow_missing=True)
    rows = f"{ids}, TIMESTAMP '2020-03-04' ts"
    both.add("y", write(tmp_path / "s=k/bucket=1/year=2020/f.parquet", rows))
    both.add("y", write(tmp_path / "s=k/year=2020/f.parquet", rows))
    both.add("y", write(tmp_path / "s=k/bucket=1/year=abc/f.parquet", rows))
    both.assert_same()


def test_two_transforms_of_one_column_keep_their_places(
    twins: Callable[[str], Twins], tmp_path: Path
) -> None:
    # The extension gives both values to the last key.
    both = twins(
        "CREATE TABLE y(id BIGINT, ts TIMESTAMP); ALTER TABLE y SET PARTITIONED BY (year(ts), month(ts))"
    )
    both.add(
        "y", write(tmp_path / "month=3/year=2020/f.parquet", "SELECT 1::BIGINT id, TIMESTAMP '2020-03-04' ts")
    )
    values = both.lake.metadata("ducklake_file_partition_value").orderBy("partition_key_index").collect()
    assert [row.partition_value for row in values] == ["2020", "3"]
    both.assert_read_alike()


SOURCES: dict[str, tuple[pa.DataType, Any]] = {
    **{
        f"{sign}int{bits}": (getattr(pa, f"{sign}int{bits}")(), 1)
        for sign in ("", "u")
        for bits in (8, 16, 32, 64)
    },
    "bool": (pa.bool_(), True),
    "float16": (pa.float16(), 1.5),
    "float32": (pa.float32(), 0.1),
    "float64": (pa.float64(), 0.1),
    "string": (pa.string(), "1"),
    "binary": (pa.binary(), b"1"),
    "date": (pa.date32(), TIME.date()),
    "time_ms": (pa.time32("ms"), dt.time(1, 2, 3)),
    "time_us": (pa.time64("us"), dt.time(1, 2, 3)),
    "time_ns": (pa.time64("ns"), dt.time(1, 2, 3)),
    **{f"ts_{unit}": (pa.timestamp(unit), TIME) for unit in ("ms", "us", "ns")},
    **{f"tz_{unit}": (pa.timestamp(unit, "UTC"), TIME) for unit in ("ms", "us", "ns")},
    "decimal(4,1)": (pa.decimal128(4, 1), decimal.Decimal("1.5")),
    "decimal(9,0)": (pa.decimal128(9, 0), decimal.Decimal("15")),
    "decimal(38,10)": (pa.decimal128(38, 10), decimal.Decimal("1.5")),
    "null": (pa.null(), None),
    "uuid": (pa.uuid(), b"1" * 16),
    "json": (pa.json_(), "1"),
    "list": (pa.list_(pa.int32()), [1]),
    "map": (pa.map_(pa.string(), pa.int32()), [("k", 1)]),
    "struct": (pa.struct([("a", pa.int32())]), {"a": 1}),
}
TARGETS = [
    "boolean",
    "tinyint",
    "smallint",
    "integer",
    "bigint",
    "hugeint",
    "utinyint",
    "usmallint",
    "uinteger",
    "ubigint",
    "uhugeint",
    "float",
    "double",
    "decimal(4,1)",
    "decimal(9,2)",
    "decimal(38,10)",
    "varchar",
    "blob",
    "date",
    "time",
    "timetz",
    "timestamp",
    "timestamp_s",
    "timestamp_ms",
    "timestamp_ns",
    "timestamptz",
    "uuid",
    "json",
    "interval",
    "variant",
    "geometry",
    "integer[]",
    "map(varchar,integer)",
    "struct(a",
]
TYPES_REFUSED_BY_US = {("float16", "blob")}
"""What the extension adds, and then cannot read."""


def test_types_are_taken_and_read_as_by_the_extension(twins: Callable[[str], Twins], tmp_path: Path) -> None:
    targets = [target if target != "struct(a" else "struct(a integer)" for target in TARGETS]
    tables = "; ".join(f"CREATE TABLE t{i}(c {target})" for i, target in enumerate(targets))
    both = twins(tables)
    for name, (kind, value) in SOURCES.items():
        if isinstance(kind, pa.BaseExtensionType):
            array = pa.ExtensionArray.from_storage(kind, pa.array([value], kind.storage_type))
        else:
            array = pa.array([value], kind)
        pq.write_table(pa.table({"c": array}), tmp_path / f"{name}.parquet")
    stamps = pa.table({"c": pa.array([TIME], pa.timestamp("us"))})
    pq.write_table(stamps, tmp_path / "int96.parquet", use_deprecated_int96_timestamps=True)
    native = ", GEOPARQUET_VERSION 'V2'"
    write(tmp_path / "geometry.parquet", "SELECT 'POINT(1 2)'::GEOMETRY c", native)
    names = [*SOURCES, "int96", "geometry"]
    oracle = both.oracle
    oracle.attach(both.uris["theirs"])
    taken = set()
    for i, target in enumerate(targets):
        for name in names:
            try:
                oracle.execute(f"CALL ducklake_add_data_files('lake', 't{i}', '{tmp_path}/{name}.parquet')")
                taken.add((name, target))
            except OracleError:
                pass
    oracle.detach()
    ours = set()
    footers = read_footers([f"{tmp_path}/{name}.parquet" for name in names])
    columns = {name: columns_of(footer.schema)[0] for name, footer in zip(names, footers, strict=True)}
    wanted = {target: both.lake[f"t{i}"].definition.columns[0].type for i, target in enumerate(targets)}
    for target, name in itertools.product(targets, names):
        try:
            check(columns[name], wanted[target], "c", f'from file "{name}"')
            ours.add((name, target))
        except InvalidInputError as error:
            assert f'Failed to map column "c" from file "{name}"' in str(error)
    with both.lake.transaction():
        for i, target in enumerate(targets):
            files = [f"{tmp_path}/{name}.parquet" for name in names if (name, target) in ours]
            if files:
                both.lake[f"t{i}"].add_data_files(files)
        pending = {i: shown(both.lake.table(f"t{i}").collect()) for i in (4, 15, 21, 24, 25)}
    assert ours == taken - TYPES_REFUSED_BY_US
    assert pending == {i: shown(both.lake.table(f"t{i}").collect()) for i in pending}
    geometry = f"t{targets.index('geometry')}"
    assert both.lake.table(geometry).count() == 1  # the two sides have no Python type in common for it
    both.assert_read_alike(but=(geometry,))


def test_a_transaction_sees_its_files_and_leaves_them_when_it_is_rolled_back(
    lake: ducklake_spark.Lake, tmp_path: Path
) -> None:
    lake.create_table("t", "id BIGINT, part INT")
    path = write(tmp_path / "part=3/f.parquet", "SELECT unnest([1, 2])::BIGINT id")
    with pytest.raises(ZeroDivisionError), lake.transaction():
        report = lake["t"].add_data_files(path).collect()
        assert [(row.filename, row.row_count) for row in report] == [(path, 2)]
        assert lake.table("t").orderBy("id").collect() == [(1, 3), (2, 3)]
        lake["t"].delete("id = 1")
        assert lake.table("t").collect() == [(2, 3)]
        lake.create_table("new", "id BIGINT")
        lake["new"].add_data_files(path)
        assert lake.table("new").count() == 2
        raise ZeroDivisionError
    assert os.path.exists(path) and lake.table("t").count() == 0
    assert lake.metadata("ducklake_name_mapping").count() == 0
    with lake.transaction():
        lake["t"].add_data_files(path)
        lake["t"].delete("id = 1")
    assert lake.table("t").collect() == [(2, 3)]
    with lake.transaction(), pytest.raises(InvalidInputError):
        lake["t"].add_data_files(write(tmp_path / "g.parquet", "SELECT 1 x"))
    assert lake["t"].update({"id": "id + 5"}) == 1
    assert lake.table("t").collect() == [(7, 3)] and os.path.exists(path)


def test_both_sides_change_rows_of_added_files(oracle: Oracle, spark: SparkSession, tmp_path: Path) -> None:
    uri = f"ducklake:{tmp_path}/lake.ducklake"
    path = write(tmp_path / "part=3/f.parquet", "SELECT i::BIGINT id, {'a': i} s FROM range(6) t(i)")
    with ducklake_spark.attach(uri, spark=spark, name="lake") as lake:
        lake.create_table("t", "id BIGINT, s STRUCT<a: BIGINT>, part INT")
        lake["t"].add_data_files([path])
        lake["t"].delete("id = 0")
    oracle.attach(uri)
    oracle.execute("DELETE FROM t WHERE id = 1")
    oracle.execute("UPDATE t SET part = 9 WHERE id = 2")
    oracle.execute(
        "ALTER TABLE t RENAME s TO st; ALTER TABLE t RENAME st.a TO b; ALTER TABLE t ADD COLUMN z INT DEFAULT 7"
    )
    oracle.execute("ALTER TABLE t ALTER part SET TYPE DOUBLE")
    theirs = oracle.execute("SELECT rowid, * FROM t")
    feed = oracle.execute(
        "SELECT snapshot_id, rowid, change_type, id FROM ducklake_table_changes('lake', 'main', 't', 0, 9)"
    )
    oracle.detach()
    with ducklake_spark.attach(uri, spark=spark, name="lake") as lake:
        assert shown(lake.sql("SELECT rowid, * FROM t").collect()) == shown(theirs)
        changes = lake.table_changes("t", 0, 9).select("snapshot_id", "rowid", "change_type", "id")
        assert shown(changes.collect()) == shown(feed)
        lake["t"].update({"id": "id * 10"}, "id > 3")
        ours = shown(lake.table("t").collect())
    oracle.attach(uri)
    assert shown(oracle.execute("SELECT * FROM t")) == ours


def test_not_null_holds_for_files(lake: ducklake_spark.Lake, tmp_path: Path) -> None:
    lake.sql("CREATE TABLE n(id BIGINT NOT NULL, k INTEGER)", dialect="duckdb")
    path = write(tmp_path / "null.parquet", "SELECT NULL::BIGINT id, 1 k")
    silent = pa.table({"id": pa.array([None, 1], pa.int64()), "k": pa.array([1, 2], pa.int32())})
    pq.write_table(silent, tmp_path / "silent.parquet", write_statistics=False)
    pq.write_table(silent.slice(1), tmp_path / "good.parquet", write_statistics=False)
    missing = write(tmp_path / "missing.parquet", "SELECT 1 k")
    for bad in (path, str(tmp_path / "silent.parquet"), missing):
        with pytest.raises(ConstraintError, match=r"n\.id"):
            lake["n"].add_data_files(bad, allow_missing=True)
    lake["n"].add_data_files(str(tmp_path / "good.parquet"))
    assert lake.table("n").collect() == [(1, 2)]


def test_paths_are_stored_relative_in_the_tables_folder_and_absolute_elsewhere(
    lake: ducklake_spark.Lake, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = lake.create_table("t", "id BIGINT")
    inside = write(Path(f"{lake.data_path}main/t/sub/mine.parquet"), "SELECT 1::BIGINT id")
    odd = write(tmp_path / "a [b] c*" / "x=y=z ä.parquet", "SELECT 2::BIGINT id")
    monkeypatch.chdir(tmp_path)
    lake.add_data_files("t", os.path.relpath(inside, tmp_path))
    lake.add_data_files("t", [f"file://{tmp_path}/a [b] c*/../a [b] c*/x=y=z ä.parquet", odd])
    rows = lake.metadata("ducklake_data_file").orderBy("data_file_id").collect()
    assert [(row.path, row.path_is_relative) for row in rows] == [("sub/mine.parquet", True), (odd, False)]
    assert sorted(row.id for row in table.to_df().collect()) == [1, 2]


def test_sql_takes_both_forms_and_both_dialects(lake: ducklake_spark.Lake, tmp_path: Path) -> None:
    lake.sql("CREATE SCHEMA s")
    lake.create_table("s.t", "id BIGINT, k INT")
    path = write(tmp_path / "f.parquet", "SELECT 1::BIGINT id, 2 extra")
    given = "allow_missing => true, ignore_extra_columns = true"
    calls = {
        f"CALL ducklake_add_data_files('lake', 't', '{path}', schema => 's', {given})": ("spark", "duckdb"),
        f"CALL lake.add_data_files('T', ['{path}', '{path}'], schema => 'S', {given})": ("spark", "duckdb"),
        f"CALL lake.add_data_files('s.t', array('{path}'), {given})": ("spark",),
        f"SELECT * FROM ducklake_add_data_files('lake', 't', ['{path}'], schema => 's', {given})": (
            "duckdb",
        ),
    }
    count = 0
    for text, dialects in calls.items():
        for dialect in dialects:
            answer = lake.sql(text, dialect=dialect)
            count += 1
            assert answer.columns == ["filename"] and answer.collect() == []
            assert lake.table("s.t").count() == count
    with pytest.raises(InvalidInputError, match="changes the lake"):
        lake.sql(f"EXPLAIN SELECT * FROM lake.add_data_files('s.t', '{path}', {given})")
    assert lake.table("s.t").count() == count


def test_mistakes_name_the_file_and_change_nothing(lake: ducklake_spark.Lake, tmp_path: Path) -> None:
    lake.create_table("t", "id BIGINT")
    lake.sql("CREATE VIEW v AS SELECT 1 AS id")
    good = write(tmp_path / "good.parquet", "SELECT 1::BIGINT id")
    data = Path(good).read_bytes()
    bad = {
        "text": b"this is not a Parquet file at all",
        "cut": data[:-20],
        "none": b"",
        "damaged": data[:-60] + b"\xff" * 40 + data[-20:],
        "encrypted": b"PARE" + data[4:-4] + b"PARE",
    }
    for name, content in bad.items():
        (tmp_path / f"{name}.parquet").write_bytes(content)
    before = lake.current_snapshot().collect()
    for name in bad:
        with pytest.raises(FileError, match=f"{name}.parquet") as told:
            lake.add_data_files("t", [good, f"{tmp_path}/{name}.parquet"])
        assert len(str(told.value)) < 400
    for pattern in ("nothing.parquet", "nothing*.parquet", "**/nothing/*.parquet"):
        with pytest.raises(FileError, match="No files match"):
            lake.add_data_files("t", f"{tmp_path}/{pattern}")
    for path in (None, [], 7, [good, None], "", [good, ""], {}):
        with pytest.raises(InvalidInputError, match="add_data_files"):
            lake.add_data_files("t", path)  # type: ignore[arg-type]
    for name in ("nope", "v", "main.nope", "nope.t"):
        with pytest.raises(NotFoundError):
            lake.add_data_files(name, good)
    with pytest.raises(InvalidInputError, match="allow_missing"):
        lake.add_data_files("t", good, allow_missing="yes")  # type: ignore[arg-type]
    with pytest.raises(ReadOnlyError):
        lake.at(version=1).add_data_files("t", good)
    pq.write_table(
        pa.table({"id": pa.array([decimal.Decimal("1.5")], pa.decimal256(50, 2))}), tmp_path / "wide.parquet"
    )
    with pytest.raises(DuckLakeError, match=r"wide\.parquet"):
        lake.add_data_files("t", f"{tmp_path}/wide.parquet")
    assert lake.current_snapshot().collect() == before and lake.table("t").count() == 0


def test_all_catalogs(location: str, spark: SparkSession, tmp_path: Path) -> None:
    first = write(tmp_path / "part=1/f.parquet", "SELECT 1::BIGINT id, [1] l, '\\x00'::BLOB b")
    second = write(tmp_path / "part=2/f.parquet", "SELECT 2::BIGINT id, [2] l, NULL::BLOB b")
    with ducklake_spark.attach(location, spark=spark, name="lake", data_path=f"{tmp_path}/data") as lake:
        lake.create_table("t", "id BIGINT, l ARRAY<INT>, b BINARY, part INT", partitioned_by=["part"])
        lake.add_data_files("t", [first, second])
        lake.add_data_files("t", second)
        assert sorted((row.id, row.part) for row in lake.table("t").collect()) == [(1, 1), (2, 2), (2, 2)]
        assert lake.table("t").where("part = 2 AND id = 2").count() == 2
        assert lake.metadata("ducklake_column_mapping").count() == 1
        lake["t"].delete("id = 2")
        assert lake.table("t").count() == 1


def test_many_files_are_read_by_tasks(
    lake: ducklake_spark.Lake, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from ducklake_spark.engine.maintenance import add_files

    monkeypatch.setattr(add_files, "FEW_FILES", 3)
    lake.create_table("t", "id BIGINT")
    for i in range(5):
        write(tmp_path / f"x/{i}.parquet", f"SELECT {i}::BIGINT id")
    report = lake.add_data_files("t", f"{tmp_path}/x/*.parquet").collect()
    assert [os.path.basename(row.filename) for row in report] == [f"{i}.parquet" for i in range(5)]
    assert sorted(row.id for row in lake.table("t").collect()) == list(range(5))
    (tmp_path / "x/2.parquet").write_bytes(b"")
    with pytest.raises(FileError, match=r"2\.parquet"):
        lake.add_data_files("t", f"{tmp_path}/x/*.parquet")


def test_files_elsewhere_are_reached_by_hadoop(spark: SparkSession, tmp_path: Path) -> None:
    settings = spark.sparkContext._jsc.hadoopConfiguration()  # type: ignore[union-attr]
    settings.set("fs.viewfs.mounttable.added.link./mounted", f"file://{tmp_path}")
    for i in (1, 2):
        write(tmp_path / f"files/part={i}/f.parquet", f"SELECT {i}::BIGINT id")
    wide = ", ".join(f"{i} AS a_column_with_a_rather_long_name_{i}" for i in range(900))
    write(tmp_path / "wide.parquet", f"SELECT 3::BIGINT id, 3 part, {wide}")
    root = "viewfs://added/mounted"
    with ducklake_spark.attach(f"ducklake:{tmp_path}/lake.ducklake", spark=spark, name="lake") as lake:
        lake.create_table("t", "id BIGINT, part INT")
        for path in (f"{root}/files/**/*.parquet", f"{root}/files", f"{root}/files/part=1/f.parquet"):
            lake.add_data_files("t", path)
        report = lake.add_data_files("t", f"{root}/wide.parquet", ignore_extra_columns=True).collect()
        assert report[0].file_size_bytes == os.path.getsize(tmp_path / "wide.parquet")
        rows = sorted((row.id, row.part) for row in lake.table("t").collect())
        assert rows == [(1, 1)] * 3 + [(2, 2)] * 2 + [(3, 3)]
        with pytest.raises(FileError, match="No files match"):
            lake.add_data_files("t", f"{root}/files/nothing.parquet")
