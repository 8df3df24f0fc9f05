"""Options of a lake in what is written: each of them in each encoder, beside the files of the extension."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import duckdb
import pytest
from pyspark.sql import SparkSession

import ducklake_spark
from ducklake_spark import InvalidInputError, Lake
from ducklake_spark.format.options import OPTIONS
from tests.interop.oracle import Oracle

pytestmark = pytest.mark.spark

ROWS = 30_000
COLUMNS = "a BIGINT, b VARCHAR, k INTEGER"
SELECT = "SELECT i AS a, sha1(i::VARCHAR) AS b, (i * 7919 % 4)::INTEGER AS k FROM range({}) r(i)"
ENCODERS = ("spark", "workers", "local")
ELSEWHERE = {"write_deletion_vectors": "test_vectors.py", "require_commit_message": "test_transactions.py"}
MAINTENANCE = {"auto_compact", "rewrite_delete_threshold", "expire_older_than", "delete_older_than"}
"""Read by maintenance functions only, which the extension has and we do not have yet."""


@dataclass(frozen=True)
class Files:
    """What was written for one insert."""

    paths: tuple[str, ...]
    sizes: tuple[int, ...]
    compression: frozenset[str]
    encodings: frozenset[str]
    groups: int
    group_rows: int
    first: tuple[int, ...]
    """The values of column `k` in the order of the rows of the first file, without repetitions."""

    @property
    def folders(self) -> set[str]:
        return {str(Path(path).parent.name) for path in self.paths}


def files_of(paths: list[Path]) -> Files:
    names = sorted(str(path) for path in paths)
    if not names:
        return Files((), (), frozenset(), frozenset(), 0, 0, ())
    with duckdb.connect() as connection:
        asked = "SELECT compression, encodings, file_name, row_group_id, row_group_num_rows FROM parquet_metadata(?)"
        rows = connection.execute(asked, [names]).fetchall()
        values = connection.execute("SELECT k FROM read_parquet(?)", [names[0]]).fetchall()
    first: list[int] = []
    for (value,) in values:
        if not first or first[-1] != value:
            first.append(value)
    return Files(
        tuple(names),
        tuple(Path(name).stat().st_size for name in names),
        frozenset(row[0] for row in rows),
        frozenset(part.strip() for row in rows for part in row[1].split(",")),
        len({row[2:4] for row in rows}),
        max(row[4] for row in rows),
        tuple(first),
    )


@dataclass(frozen=True)
class Case:
    """An option, and what must be the same in our files and in those of the extension."""

    option: str
    value: Any
    same: Callable[[Files], Any] = len
    others: Mapping[str, Any] = field(default_factory=dict)
    alter: str | None = None
    keywords: Mapping[str, Any] = field(default_factory=dict)
    setting: str = "SET preserve_insertion_order = true"

    def __str__(self) -> str:
        return f"{self.option}={self.value}"


def compression(files: Files) -> Any:
    return files.compression


def has_deltas(files: Files) -> Any:
    return "DELTA_BINARY_PACKED" in files.encodings


def rows_fit(files: Files) -> Any:
    """DuckDB ends a row group with a chunk of up to 2,048 rows, when it has enough."""
    return 10_000 <= files.group_rows < 10_000 + 2 * 2048


def is_cut(files: Files) -> Any:
    """Several files, none of which is much larger than the target."""
    return len(files.paths) >= 4, max(files.sizes) <= 300_000


def is_one(files: Files) -> Any:
    return len(files.paths)


def order(files: Files) -> Any:
    return files.first == tuple(sorted(files.first, reverse=True)), len(files.first) == 4


def small_groups(files: Files) -> Any:
    """DuckDB counts bytes as they are in memory, and Spark as they will be in the file."""
    return 3 <= files.groups <= 40


CASES = [
    *(Case("parquet_compression", codec, compression)
      for codec in ("uncompressed", "snappy", "gzip", "zstd", "brotli", "lz4", "lz4_raw")),
    Case("parquet_version", 1, has_deltas),
    Case("parquet_version", 2, has_deltas),
    Case("parquet_row_group_size", 10_000, rows_fit),
    Case("parquet_row_group_size_bytes", "300KB", small_groups, setting="SET preserve_insertion_order = false"),
    Case("target_file_size", "200KB", is_cut, {"parquet_row_group_size": 2048}),
    Case("target_file_size", "100MB", is_one),
    Case("hive_file_pattern", True, lambda files: files.folders,
         alter="SET PARTITIONED BY (k)", keywords={"partitioned_by": ["k"]}),
    Case("hive_file_pattern", False, lambda files: (len(files.paths), len(files.folders)),
         alter="SET PARTITIONED BY (k)", keywords={"partitioned_by": ["k"]}),
    Case("sort_on_insert", True, order, alter="SET SORTED BY (k DESC)", keywords={"sorted_by": ["k DESC"]}),
    Case("sort_on_insert", False, order, alter="SET SORTED BY (k DESC)", keywords={"sorted_by": ["k DESC"]}),
]  # fmt: skip


@pytest.fixture(scope="module")
def lakes(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lake]:
    folder = tmp_path_factory.mktemp("options")
    with ducklake_spark.attach(
        f"ducklake:sqlite:{folder / 'ours.db'}", name="lake", data_path=str(folder / "data"), spark=spark
    ) as lake:
        yield lake


def written(
    lake: Lake, encoder: str, settings: Mapping[str, Any], keywords: Mapping[str, Any], rows: int = ROWS
) -> Files:
    """The files of a new table with these options."""
    name = f"t{len(lake.tables())}"
    columns = COLUMNS + (", l INTEGER[]" if encoder == "workers" else "")
    table = lake.create_table(name, columns, **keywords)
    for key, value in settings.items():
        table.set_option(key, value)
    if encoder == "local":
        with duckdb.connect() as connection:
            table.insert(connection.sql(SELECT.format(rows)).to_arrow_table())
    else:
        frame = lake.spark.range(0, rows, 1, 4).selectExpr(
            "id AS a", "sha1(string(id)) AS b", "int(id * 7919 % 4) AS k"
        )
        table.insert(frame if encoder == "spark" else frame.selectExpr("*", "array(1) AS l"))
    return files_of(list((Path(lake.data_path) / "main" / name).rglob("*.parquet")))


@pytest.mark.parametrize("case", CASES, ids=str)
def test_each_encoder_does_what_the_extension_does(
    case: Case, lakes: Lake, oracle: Oracle, tmp_path: Path
) -> None:
    settings = {case.option: case.value, **case.others}
    oracle.attach(
        f"ducklake:sqlite:{tmp_path / 'theirs.db'}",
        data_path=str(tmp_path / "data"),
        data_inlining_row_limit=0,
    )
    oracle.execute(case.setting)
    oracle.execute(f"CREATE TABLE t({COLUMNS})")
    if case.alter is not None:
        oracle.execute(f"ALTER TABLE t {case.alter}")
    for key, value in settings.items():
        oracle.execute(f"CALL lake.set_option('{key}', {value!r})")
    oracle.execute(f"INSERT INTO t {SELECT.format(ROWS)}")
    theirs = case.same(files_of(list((tmp_path / "data").rglob("*.parquet"))))
    found = {encoder: case.same(written(lakes, encoder, settings, case.keywords)) for encoder in ENCODERS}
    assert found == dict.fromkeys(ENCODERS, theirs)


@pytest.mark.parametrize("encoder", ENCODERS)
def test_levels_of_zstd(lakes: Lake, encoder: str) -> None:
    sizes = [
        sum(written(lakes, encoder, {"parquet_compression": "zstd", **level}, {}).sizes)
        for level in ({"parquet_compression_level": 1}, {}, {"parquet_compression_level": 19})
    ]
    assert len(set(sizes)) == 3 and min(sizes) == sizes[2]


@pytest.mark.parametrize("encoder", ENCODERS)
def test_a_level_without_zstd_is_refused(lakes: Lake, encoder: str) -> None:
    """The extension refuses such inserts as well."""
    with pytest.raises(InvalidInputError, match=r"parquet_compression_level is 3.* Only zstd has levels"):
        written(lakes, encoder, {"parquet_compression_level": 3}, {})


@pytest.mark.parametrize(("encoder", "tasks"), [("spark", 4), ("workers", 4), ("local", 1)])
def test_per_thread_output_leaves_a_file_to_each_task(lakes: Lake, encoder: str, tasks: int) -> None:
    assert len(written(lakes, encoder, {"per_thread_output": True}, {}).paths) == tasks
    assert len(written(lakes, encoder, {"per_thread_output": False}, {}).paths) == 1
    # Not in partitioned tables, as in the extension.
    keywords = {"partitioned_by": ["k"]}
    assert len(written(lakes, encoder, {"per_thread_output": True}, keywords).paths) == 4


@pytest.mark.parametrize("encoder", ENCODERS)
def test_the_inlining_limit_is_the_last_number_that_is_inlined(lakes: Lake, encoder: str) -> None:
    assert len(written(lakes, encoder, {"data_inlining_row_limit": 39}, {}, 40).paths) == 1
    assert len(written(lakes, encoder, {"data_inlining_row_limit": 40}, {}, 40).paths) == 0


def test_a_setting_of_the_session_comes_before_the_size_of_the_table(lakes: Lake) -> None:
    settings = {"target_file_size": "100MB", "parquet_row_group_size": 2048}
    lakes.sql("SET ducklake_target_file_size = '200KB'", dialect="duckdb")
    try:
        for encoder in ENCODERS:
            assert is_cut(written(lakes, encoder, settings, {})) == (True, True)
    finally:
        lakes.sql("RESET ducklake_target_file_size", dialect="duckdb")


def test_no_option_is_forgotten() -> None:
    here = {case.option for case in CASES} | {
        "parquet_compression_level", "per_thread_output", "data_inlining_row_limit"
    }  # fmt: skip
    settable = {name for name, option in OPTIONS.items() if option.normalize is not None}
    assert settable == here | set(ELSEWHERE) | MAINTENANCE
