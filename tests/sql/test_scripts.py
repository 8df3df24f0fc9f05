"""Scripts of DuckDB's SQL, as they are, on the extension and on ours: the same answers, statement by statement.

A script attaches its lakes itself. `{D}` stands for a folder of its own, in which each side works by itself.
"""

from __future__ import annotations

import datetime
import re
import uuid
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

import ducklake_spark
from tests.interop.oracle import Oracle, OracleError
from tests.sql.shared import LIGHT
from tests.sql.values import plain

pytestmark = pytest.mark.spark

SCRIPTS = {script.stem: script.read_text() for script in (Path(__file__).parent / "scripts").glob("*.sql")}
GUIDE = Path(__file__).parents[2] / "docs" / "guides" / "from-duckdb.md"
SCRIPTS |= {
    f"guide_{number}": text.replace("data/", "{D}/")
    for number, text in enumerate(re.findall(r"^```sql\n(.*?)^```", GUIDE.read_text(), re.M | re.S), start=1)
}
_ASKED = re.compile(r"\s*(SELECT|FROM|WITH|VALUES|DESCRIBE|SHOW|PRAGMA|PIVOT|EXECUTE)\b", re.IGNORECASE)
_NOW = re.compile(r"'20(2[6-9]|[3-9]\d)-\d\d-\d\d[ 0-9:.+]*'")


def statements(script: str) -> list[str]:
    """The statements of a script: each ends with a semicolon at the end of a line."""
    return [part.strip() for part in re.split(r";[ \t]*\n", script) if part.strip()]


def test_the_guide_has_ten_scripts() -> None:
    assert len([name for name in SCRIPTS if name.startswith("guide_")]) == 10


def shown(value: Any) -> Any:
    """A value in a form that both sides have."""
    value = plain(value)
    if isinstance(value, list):
        return [shown(part) for part in value]
    if isinstance(value, dict):
        return {str(key): shown(part) for key, part in value.items()}
    odd = (uuid.UUID, datetime.time, datetime.date, datetime.datetime, datetime.timedelta)
    return str(value) if isinstance(value, odd) else value


def rows(found: Any, folder: Path) -> list[str]:
    """Rows in an order of their own, without folders and times of today."""
    texts = (repr([shown(value) for value in row]).replace(str(folder), "") for row in found)
    return sorted(_NOW.sub("now", text) for text in texts)


@pytest.mark.parametrize("name", sorted(SCRIPTS))
def test_script_runs_as_in_the_extension(
    name: str, spark: SparkSession, _oracle_process: Oracle, tmp_path: Path
) -> None:
    folders = {side: tmp_path / side for side in ("theirs", "ours")}
    for folder in folders.values():
        folder.mkdir()
    _oracle_process.close()  # its database in memory and its variables are those of a new session
    for key, value in LIGHT.items():
        spark.conf.set(key, value)
    wrong = []
    handle = ducklake_spark.attach(f"ducklake:{tmp_path}/first.ducklake", name="first", spark=spark)
    handle.sql("DETACH first", dialect="duckdb")
    try:
        for text in statements(SCRIPTS[name]):
            theirs: Any
            ours: Any
            try:
                theirs = _oracle_process.execute(text.replace("{D}", str(folders["theirs"])))
            except OracleError as error:
                theirs = error
            try:
                frame = handle.sql(text.replace("{D}", str(folders["ours"])), dialect="duckdb")
                ours = [tuple(row) for row in frame.collect()]
            except ducklake_spark.DuckLakeError as error:
                ours = error
            if isinstance(theirs, Exception) or isinstance(ours, Exception):
                both = isinstance(theirs, Exception) and isinstance(ours, Exception)
                if not both or name.startswith("guide_"):
                    wrong.append((text, theirs, ours))
            elif _ASKED.match(text):
                pair = rows(theirs, folders["theirs"]), rows(ours, folders["ours"])
                if pair[0] != pair[1]:
                    wrong.append((text, *pair))
    finally:
        handle.close()
        _oracle_process.close()
        for key in LIGHT:
            spark.conf.unset(key)
    assert not wrong


def test_handles_are_connections(spark: SparkSession, tmp_path: Path) -> None:
    """Each has a transaction of its own in a lake that one of them attached, and conflicts are found at COMMIT."""
    with (
        ducklake_spark.attach(f"ducklake:{tmp_path}/1.ducklake", name="home1", spark=spark) as first,
        ducklake_spark.attach(f"ducklake:{tmp_path}/2.ducklake", name="home2", spark=spark) as second,
    ):

        def run(handle: ducklake_spark.Lake, text: str) -> list[Any]:
            return [row[0] for row in handle.sql(text, dialect="duckdb").collect()]

        run(first, f"ATTACH 'ducklake:{tmp_path}/shared.ducklake' AS shared; CREATE TABLE shared.t(i INT)")
        run(second, "USE shared")
        for handle, value in ((first, 1), (second, 2)):
            run(handle, f"BEGIN; INSERT INTO shared.t VALUES ({value})")
        assert run(first, "FROM shared.t") == [1]
        assert run(second, "FROM t") == [2]
        run(first, "COMMIT")
        run(second, "COMMIT")
        assert sorted(run(first, "FROM shared.t")) == [1, 2]
        for handle in (first, second):
            run(handle, "BEGIN; CREATE TABLE shared.same(i INT)")
        run(first, "COMMIT")
        with pytest.raises(ducklake_spark.DuckLakeError, match="conflict"):
            run(second, "COMMIT")
