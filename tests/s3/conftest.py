"""A session of Spark that can reach an S3 on this machine: these tests run in a process of their own, `make test-s3`."""

from __future__ import annotations

import importlib.util
import os
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import ducklake_spark
from tests.interop.oracle import Oracle, literal
from tests.s3.store import BUCKET, KEY, SECRET, Store, running

ROOT = Path(__file__).parents[2]
JARS = Path(os.environ.get("DUCKLAKE_SPARK_S3_JARS", ROOT / "build" / "s3-jars"))


@pytest.fixture(scope="session")
def store() -> Iterator[Store]:
    if importlib.util.find_spec("moto") is None:
        pytest.skip("moto, which plays S3, is not installed: run `make venv`")
    with running() as server:
        yield server


@pytest.fixture(autouse=True)
def _unharmed(store: Store) -> Iterator[None]:
    store.seen.clear()
    yield
    assert store.fault is None


@pytest.fixture(scope="session")
def spark(store: Store) -> Iterator[Any]:
    from pyspark import SparkContext
    from pyspark.sql import SparkSession

    jars = sorted(JARS.glob("*.jar"))
    if not jars:
        pytest.skip(f"no jars for S3 in {JARS}: run `make s3-jars`, which fetches them from Maven Central")
    if SparkContext._active_spark_context is not None:
        pytest.skip("this process has a Spark without the jars for S3: run `make test-s3`")
    settings = {
        "spark.jars": ",".join(map(str, jars)),
        "spark.ui.enabled": "false",
        "spark.log.level": "ERROR",
        "spark.sql.shuffle.partitions": "2",
        "spark.sql.session.timeZone": "UTC",
        "spark.hadoop.fs.s3a.endpoint": store.endpoint,
        "spark.hadoop.fs.s3a.endpoint.region": "us-east-1",
        "spark.hadoop.fs.s3a.path.style.access": "true",
        "spark.hadoop.fs.s3a.access.key": KEY,
        "spark.hadoop.fs.s3a.secret.key": SECRET,
        # A store that refuses is believed soon.
        "spark.hadoop.fs.s3a.attempts.maximum": "6",
        "spark.hadoop.fs.s3a.retry.limit": "3",
        "spark.hadoop.fs.s3a.retry.interval": "50ms",
        "spark.hadoop.fs.s3a.retry.throttle.interval": "50ms",
        "spark.hadoop.fs.s3a.retry.throttle.limit": "8",
        "spark.hadoop.fs.s3a.connection.establish.timeout": "5s",
        "spark.hadoop.fs.s3a.connection.timeout": "10s",
        "spark.hadoop.fs.s3a.connection.request.timeout": "10s",
    }
    builder = SparkSession.builder.master("local[2]")
    for key, value in settings.items():
        builder = builder.config(key, value)
    session = builder.getOrCreate()
    yield session
    session.stop()


@pytest.fixture
def bucket(oracle: Oracle, store: Store) -> str:
    """A new folder of the bucket; the oracle reaches it, too."""
    spec = importlib.util.find_spec("duckdb_extension_httpfs")
    assert spec is not None and spec.origin is not None
    [file] = Path(spec.origin).parent.glob("extensions/*/httpfs.duckdb_extension")
    oracle.execute(f"LOAD {literal(file)}")
    oracle.execute(
        f"CREATE OR REPLACE SECRET store (TYPE s3, KEY_ID {literal(KEY)}, SECRET {literal(SECRET)}, "
        f"REGION 'us-east-1', ENDPOINT {literal(store.endpoint.partition('://')[2])}, USE_SSL false, URL_STYLE 'path')"
    )
    return f"s3://{BUCKET}/{uuid.uuid4().hex[:8]}/"


@pytest.fixture
def attach(spark: Any, bucket: str, tmp_path: Path) -> Iterator[Callable[..., Any]]:
    """Attaches the test's lake; a catalog file, with its data in the bucket."""
    opened = []

    def run(**options: Any) -> Any:
        lake = ducklake_spark.attach(
            f"ducklake:{tmp_path}/lake.ducklake", spark=spark, **{"data_path": bucket} | options
        )
        opened.append(lake)
        return lake

    yield run
    for lake in opened:
        lake.close()
