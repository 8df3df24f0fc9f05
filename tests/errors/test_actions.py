"""Errors that come out of Spark: at an action, in conditions and values, and what PySpark prints beside them."""

from __future__ import annotations

import dataclasses
import logging
import threading
import traceback
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

import ducklake_spark
from ducklake_spark import (
    ClosedError,
    DuckLakeError,
    FileError,
    InvalidInputError,
    Lake,
    NotFoundError,
)
from ducklake_spark.engine import inserts
from ducklake_spark.errors import unwrap
from ducklake_spark.spark.errors import install

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark


@pytest.fixture(scope="module")
def lake(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lake]:
    folder = tmp_path_factory.mktemp("actions")
    uri = f"ducklake:sqlite:{folder}/catalog.sqlite"
    with ducklake_spark.attach(uri, name="lake", data_path=folder / "a b", spark=spark) as lake:
        lake.set_option("data_inlining_row_limit", 0)
        lake.create_table("t", [{"a": i, "name": f"n{i}"} for i in range(10)])
        yield lake


def files_of(lake: Lake, table: str) -> list[Path]:
    return sorted(Path(lake.data_path).glob(f"main/{table}/*.parquet"))


# --- at an action -----------------------------------------------------------------------------------------------


def test_a_file_that_vanishes_between_planning_and_reading_is_named(lake: Lake) -> None:
    lake.create_table("planned", [{"a": 1}])
    frame = lake.table("planned")
    frame._jdf.queryExecution().executedPlan().execute()  # lists the files, and reads none
    [path] = files_of(lake, "planned")
    path.unlink()
    with pytest.raises(
        FileError, match=r"A file of lake\.main\.planned at snapshot \d+ is gone: .*a b/main/"
    ) as found:
        frame.collect()
    assert found.value.__suppress_context__ and str(path) in str(found.value)


def test_a_file_that_is_damaged_between_planning_and_reading_is_named(lake: Lake) -> None:
    lake.create_table("damaged", [{"a": 1}])
    frame = lake.table("damaged")
    frame._jdf.queryExecution().executedPlan().execute()
    [path] = files_of(lake, "damaged")
    path.write_bytes(b"x" * path.stat().st_size)
    with pytest.raises(
        FileError, match=r"A file of lake\.main\.damaged at snapshot \d+ cannot be read: .*Restore it"
    ):
        frame.collect()


def test_a_file_of_the_user_stays_an_error_of_spark(lake: Lake, spark: SparkSession, tmp_path: Path) -> None:
    spark.range(3).write.parquet(str(tmp_path / "own"))
    frame = spark.read.parquet(str(tmp_path / "own"))
    for path in (tmp_path / "own").glob("*.parquet"):
        path.unlink()
    with pytest.raises(Exception, match="FAILED_READ_FILE") as found:
        frame.collect()
    assert not isinstance(found.value, DuckLakeError)


def test_errors_of_the_user_are_those_of_pyspark(lake: Lake, spark: SparkSession) -> None:
    from pyspark.errors import AnalysisException, ArithmeticException

    lake.table("t").count()
    with pytest.raises(AnalysisException, match="UNRESOLVED_COLUMN"):
        lake.table("t").where("nope = 1")
    with pytest.raises(ArithmeticException):
        spark.range(3).selectExpr("1 / (id - id)").collect()


def test_a_new_session_does_not_undo_it(lake: Lake, spark: SparkSession) -> None:
    from pyspark.errors.exceptions import captured

    lake.table("t").count()
    spark.newSession()
    hooked = captured.convert_exception
    install()
    assert captured.convert_exception is hooked
    lake.create_table("gone", [{"a": 1}])
    frame = lake.table("gone")
    for path in files_of(lake, "gone"):
        path.unlink()
    with pytest.raises(FileError, match="is gone"):
        frame.collect()


def test_a_frame_of_a_closed_lake(spark: SparkSession, tmp_path: Path) -> None:
    lake = ducklake_spark.attach(
        f"ducklake:sqlite:{tmp_path}/c.sqlite", data_path=tmp_path / "data", spark=spark
    )
    lake.create_table("t", {"a": "int"})
    lake.set_option("data_inlining_row_limit", 0)
    lake["t"].insert([{"a": 1}])
    files = lake.table("t")
    lake.close()
    with pytest.raises(ClosedError, match=r"was closed\. Attach it again"):
        files.count()


def test_unwrap_finds_the_error_in_what_others_made_of_it() -> None:
    inner = FileError("A file is gone.")
    try:
        try:
            raise inner
        except FileError as error:
            raise RuntimeError("Job aborted.") from error
    except RuntimeError as error:
        assert unwrap(error) is inner
    text = "An error occurred while calling o1.count.\n: py4j.Py4JException: An exception was raised by the Python Proxy. "
    text += 'Return Message: Traceback (most recent call last):\n  File "x.py", line 1\n'
    text += "ducklake_spark.errors.ClosedError: The lake was closed. Attach it again.\n\n\tat py4j.Protocol\n"
    found = unwrap(RuntimeError(text))
    assert (type(found), str(found)) == (ClosedError, "The lake was closed. Attach it again.")
    other = ValueError("ducklake_spark.errors.Unknown: x")
    assert unwrap(other) is other


# --- in silence -------------------------------------------------------------------------------------------------


class Records(logging.Handler):
    def __init__(self) -> None:
        super().__init__()
        self.seen: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.seen.append(record.getMessage())


@pytest.fixture
def records() -> Iterator[Records]:
    """What PySpark logs of queries that are wrong."""
    from pyspark.logger import PySparkLogger

    handler = Records()
    loggers: list[Any] = [
        PySparkLogger.getLogger(name) for name in ("SQLQueryContextLogger", "DataFrameQueryContextLogger")
    ]
    kept = [(logger, list(logger.handlers)) for logger in loggers]
    for logger in loggers:
        logger.handlers[:] = [handler]
    yield handler
    for logger, handlers in kept:
        logger.handlers[:] = handlers


def test_only_queries_of_ours_are_not_logged(lake: Lake, spark: SparkSession, records: Records) -> None:
    from pyspark.errors import AnalysisException

    with pytest.raises(NotFoundError):
        lake.sql("SELECT nope FROM t")
    with pytest.raises(NotFoundError):
        lake["t"].delete("nope = 1")
    assert records.seen == []
    with pytest.raises(AnalysisException):
        spark.sql("SELECT nope FROM range(1)")
    assert len(records.seen) == 1


def test_another_thread_is_logged_meanwhile(lake: Lake, spark: SparkSession, records: Records) -> None:
    from ducklake_spark.spark.errors import quiet

    def theirs() -> None:
        with pytest.raises(Exception, match="nope"):
            spark.sql("SELECT nope FROM range(1)")

    with quiet():
        other = threading.Thread(target=theirs)
        other.start()
        other.join()
    assert len(records.seen) == 1


def test_a_mistyped_name_shows_one_short_traceback(lake: Lake) -> None:
    for wrong in ("SELECT nope FROM t", "SELECT * FROM nope", "DELETE FROM t WHERE nope = 1"):
        with pytest.raises(NotFoundError) as found:
            lake.sql(wrong)
        shown = "".join(traceback.format_exception(found.value))
        assert shown.count("Traceback (most recent call last)") == 1
        assert "py4j" not in shown and len(shown.splitlines()) < 60


# --- in conditions and values -------------------------------------------------------------------------------------


def test_a_text_as_value_is_explained_and_can_be_done_as_it_says(lake: Lake) -> None:
    from pyspark.sql import functions as F

    table = lake["t"]
    with pytest.raises(InvalidInputError, match="is SQL") as found:
        table.update({"name": "Ada Lovelace"}, "a = 1")
    assert "\"'Ada Lovelace'\"" in str(found.value) and 'F.lit("Ada Lovelace")' in str(found.value)
    assert table.update({"name": "'Ada Lovelace'"}, "a = 1") == 1
    assert table.update({"name": F.lit("Ada Lovelace")}, "a = 2") == 1
    assert lake.table("t").where("name = 'Ada Lovelace'").count() == 2


def test_suggestions_are_of_columns_that_can_be_seen(lake: Lake) -> None:
    for wrong in ("file_id", "row_id", "__ducklake_file_idd", "inlined_name", "nam"):
        with pytest.raises(NotFoundError) as found:
            lake["t"].delete(f"{wrong} = 1")
        assert "__ducklake_" not in str(found.value).replace(wrong, "")
    assert 'Did you mean "name"?' in str(found.value)


def test_an_error_in_a_users_function_keeps_its_traceback(lake: Lake, spark: SparkSession) -> None:
    from pyspark.sql import functions as F

    broken = F.udf(lambda value: {}["no such thing"], "boolean")
    with pytest.raises(
        InvalidInputError, match=r'The delete from table "t" failed: .*no such thing'
    ) as found:
        lake["t"].delete(broken("a"))
    assert "in <lambda>" in str(found.value.__cause__)


# --- folders --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("how", ["rows", "frame"])
def test_an_insert_into_a_folder_that_cannot_be_written_to(how: str, lake: Lake, spark: SparkSession) -> None:
    name = f"blocked_{how}"
    table, folder = lake.create_table(name, {"a": "int"}), Path(lake.data_path) / "main" / name
    folder.parent.mkdir(parents=True, exist_ok=True)
    folder.write_text("this is no folder")
    before = lake.version
    rows: Any = [{"a": 1}] if how == "rows" else spark.range(5).selectExpr("CAST(id AS INT) AS a")
    with pytest.raises(FileError, match=f'"{name}" to {folder}: Not a directory. Nothing was written'):
        table.insert(rows)
    assert lake.version == before and folder.read_text() == "this is no folder"


def test_a_delete_that_cannot_write_its_file(
    lake: Lake, spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = lake.create_table("blocked", spark.range(2000).selectExpr("CAST(id AS INT) AS a").coalesce(1))
    before, target_of = lake.version, inserts.target_of

    def below_proc(*args: Any, **kwargs: Any) -> Any:
        # Not even root can make a folder there, which tests may run as.
        return dataclasses.replace(target_of(*args, **kwargs), data_path="/proc/ducklake/")

    monkeypatch.setattr(inserts, "target_of", below_proc)
    with pytest.raises(
        FileError, match='Cannot write data files of table "blocked" to /proc/ducklake'
    ) as found:
        table.delete("a < 1500")
    assert found.value.__suppress_context__ and lake.version == before
