"""Settings of an object store from SQL, the command line, formats and sessions: they arrive, and nothing shows them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession
from typer.testing import CliRunner

import ducklake_spark
from ducklake_spark.api.configure import _shown
from ducklake_spark.cli.app import app
from ducklake_spark.engine import format_options, lakes
from ducklake_spark.engine.scope import scope_of
from ducklake_spark.errors import InvalidInputError

SECRET = "s3cretvalue"
WANTED = {"key_id": "K", "secret": SECRET, "use_ssl": "false"}


@pytest.mark.parametrize(
    "given",
    [
        f"{{'key_id': 'K', 'secret': '{SECRET}', 'use_ssl': 'false'}}",
        f"MAP {{'key_id': 'K', 'secret': '{SECRET}', 'use_ssl': 'false'}}",
    ],
)
def test_attach_in_sql_takes_them(tmp_path: Path, given: str) -> None:
    with ducklake_spark.attach(f"ducklake:{tmp_path}/a.ducklake") as lake:
        lake.sql(
            f"ATTACH 'ducklake:{tmp_path}/b.ducklake' AS other (DATA_PATH '{tmp_path}/x/', STORAGE_OPTIONS {given})",
            dialect="duckdb",
        )
        other = lakes.named("other")
        assert other is not None
        assert scope_of(other).config.storage_options == WANTED
        assert SECRET not in repr(scope_of(other).config)
        assert SECRET not in str(lake.sql("FROM duckdb_databases()", dialect="duckdb").collect())
        lake.sql("DETACH other", dialect="duckdb")


@pytest.mark.parametrize(
    ("given", "said"),
    [
        (f"{{'secretkey': '{SECRET}'}}", 'no setting "secretkey".*It has key_id, secret'),
        (f"'{SECRET}'", "takes a dict of names and values, not a str"),
        (f"['{SECRET}']", "takes a dict of names and values, not a list"),
    ],
)
def test_what_attach_says_of_wrong_ones_shows_no_value(tmp_path: Path, given: str, said: str) -> None:
    text = f"ATTACH 'ducklake:{tmp_path}/b.ducklake' AS b (DATA_PATH 's3://bucket/', STORAGE_OPTIONS {given})"
    with ducklake_spark.attach(f"ducklake:{tmp_path}/a.ducklake") as lake:
        for statements in (text, f"SELECT 1; {text}"):
            with pytest.raises(InvalidInputError, match=said) as caught:
                lake.sql(statements, dialect="duckdb")
            assert SECRET not in str(caught.value)
            assert str(caught.value).endswith(" is: ATTACH ...")


def test_formats_take_them_with_a_prefix(spark: SparkSession, tmp_path: Path) -> None:
    given = {"storage_Account_Key": SECRET, "storage_region": "eu", "table": "t"}
    assert format_options.reading(given).attach == {
        "storage_options": {"account_key": SECRET, "region": "eu"}
    }

    ducklake_spark.register(spark)
    uri = f"ducklake:{tmp_path}/lake.ducklake"
    rows: Any = spark.range(3).write.format("ducklake").option("table", "main.t").mode("append")
    rows.option("storage_account_key", SECRET).save(uri)
    found = (
        spark.read.format("ducklake")
        .option("table", "main.t")
        .option("storage_account_key", SECRET)
        .load(uri)
    )
    assert found.count() == 3
    runs = spark._jsparkSession.sharedState().statusStore().executionsList()  # type: ignore[attr-defined]
    plans = [runs.apply(i).physicalPlanDescription() for i in range(runs.size())]
    assert any("storage_account_key" in plan for plan in plans), "Spark shows that it was given"
    assert not any(SECRET in plan for plan in plans)


def test_settings_of_a_session_do_not_show_them() -> None:
    shown = _shown(
        {"uri": "ducklake:m.ducklake", "name": "m", "data_path": "s3://b/", "storage_options": WANTED}
    )
    assert shown == {"uri": "ducklake:duckdb:m.ducklake", "data_path": "s3://b/"}


def test_the_command_line_takes_them(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    lake = str(tmp_path / "lake.ducklake")
    ducklake_spark.attach(f"ducklake:{lake}").close()
    attached: list[dict[str, Any]] = []
    real = ducklake_spark.attach

    def seen(uri: str, **given: Any) -> Any:
        attached.append(given)
        return real(uri, **given)

    monkeypatch.setattr("ducklake_spark.cli.connect.attach", seen)
    options = [part for key, value in WANTED.items() for part in ("--storage-option", f"{key}={value}")]
    for command in ("sql", "health", "merge-adjacent-files"):
        last = {"sql": ["SHOW TABLES"], "merge-adjacent-files": ["--dry-run"]}.get(command, [])
        done = CliRunner().invoke(app, [command, lake, *last, *options])
        assert done.exit_code == 0, done.output
        assert attached.pop()["storage_options"] == WANTED
        assert SECRET not in done.output
    done = CliRunner().invoke(app, ["health", lake, "--storage-option", SECRET])
    assert done.exit_code != 0
    assert SECRET not in done.output
