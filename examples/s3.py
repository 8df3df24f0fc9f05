"""An S3 on this machine for `make demo ARGS=--s3`: moto's server, and a session of Spark that reaches it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

JARS = Path(__file__).parents[1] / "build" / "s3-jars"
KEY, SECRET, BUCKET = "demo", "demo-secret", "demo-bucket"


@contextmanager
def bucket() -> Iterator[tuple[str, dict[str, Any]]]:
    """A bucket while the block runs: statements with which DuckDB reaches it, and what `attach()` takes."""
    import boto3
    from moto.server import ThreadedMotoServer
    from pyspark.sql import SparkSession

    jars = sorted(map(str, JARS.glob("*.jar")))
    if not jars:
        raise SystemExit("No jars for S3 in build/s3-jars: run `make s3-jars`.")
    server = ThreadedMotoServer("127.0.0.1", 0, verbose=False)
    server.start()
    host, port = server.get_host_and_port()
    try:
        endpoint = f"http://{host}:{port}"
        boto3.client(
            "s3",
            endpoint_url=endpoint,
            aws_access_key_id=KEY,
            aws_secret_access_key=SECRET,
            region_name="us-east-1",
        ).create_bucket(Bucket=BUCKET)
        spark = (
            SparkSession.builder.master("local[2]")
            .config("spark.jars", ",".join(jars))
            .config("spark.ui.enabled", "false")
            .config("spark.log.level", "ERROR")
            .getOrCreate()
        )
        options = {
            "key_id": KEY,
            "secret": SECRET,
            "region": "us-east-1",
            "endpoint": endpoint,
            "url_style": "path",
        }
        secret = (
            f"CREATE SECRET (TYPE s3, KEY_ID '{KEY}', SECRET '{SECRET}', REGION 'us-east-1', "
            f"ENDPOINT '{host}:{port}', USE_SSL false, URL_STYLE 'path')"
        )
        yield (
            secret,
            {"spark": spark, "data_path": f"s3://{BUCKET}/lake/", "storage_options": options},
        )
    finally:
        server.stop()
