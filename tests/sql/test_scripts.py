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

SCRIPTS = sorted((Path(__file__).parent / "scripts").glob("*.sql"))
_ASKED = re.compile(r"\s*(SELECT|FROM|WITH|VALUES|DESCRIBE|SHOW|PRAGMA|PIVOT|EXECUTE)\b", re.IGNORECASE)
_NOW = re.compile(r"'20(2[6-9]|[3-9]\d)-\d\d-\d\d[ 0-9:.+]*'")


def statements(script: Path) -> list[str]:
    """The statements of a script: each ends with a semicolon at the end of a line."""
    return [part.strip() for part in re.split(r";[ \t]*\n", script.read_text()) if part.strip()]


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


@pytest.mark.parametrize("script", SCRIPTS, ids=lambda script: script.stem)
def test_script_runs_as_in_the_extension(
    script: Path, spark: SparkSession, _oracle_process: Oracle, tmp_path: Path
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
        for text in statements(script):
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
                if not (isinstance(theirs, Exception) and isinstance(ours, Exception)):
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
