"""Azure and HDFS on this machine, and a session of Spark that can reach them: a process of its own, `make test-stores`."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pyspark
import pytest

from tests.servers import free_port
from tests.stores.names import ACCOUNT, AZURE_KEY, CONTAINER

ROOT = Path(__file__).parents[2]
PARTS = Path(os.environ.get("DUCKLAKE_SPARK_STORES", ROOT / "build" / "stores"))
_PATIENCE = 600.0


@contextmanager
def _process(command: list[str], folder: Path, is_ready: Callable[[], bool]) -> Iterator[None]:
    with (
        (folder / "log").open("wb") as log,
        subprocess.Popen(command, cwd=folder, stdout=log, stderr=log) as server,
    ):
        try:
            deadline = time.monotonic() + _PATIENCE
            while not is_ready():
                assert server.poll() is None, (folder / "log").read_text()
                assert time.monotonic() < deadline, (folder / "log").read_text()
                time.sleep(0.2)
            yield
        finally:
            server.kill()


def _answers(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


@pytest.fixture(scope="session")
def azure(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The address of an Azurite with a container."""
    from pyarrow import fs

    program = PARTS / "node_modules" / "azurite" / "dist" / "src" / "blob" / "main.js"
    if not program.exists():
        pytest.skip(f"no Azurite in {PARTS}: `make test-stores` fetches it from npm")
    folder, port = tmp_path_factory.mktemp("azurite"), free_port()
    options = [
        "--blobHost",
        "127.0.0.1",
        "--blobPort",
        str(port),
        "--location",
        str(folder),
        "--silent",
        "--loose",
    ]
    command = ["node", str(program), *options, "--skipApiVersionCheck", "--disableTelemetry"]
    with _process(command, folder, lambda: _answers(port)):
        address = f"127.0.0.1:{port}"
        fs.AzureFileSystem(
            ACCOUNT,
            account_key=AZURE_KEY,
            blob_storage_authority=address,
            dfs_storage_authority=address,
            blob_storage_scheme="http",
            dfs_storage_scheme="http",
        ).create_dir(CONTAINER)
        yield address


@pytest.fixture(scope="session")
def hdfs(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The address of a name node; it has one data node."""
    parts = sorted((PARTS / "hdfs").glob("*.jar"))
    if not parts or not (PARTS / "python" / "hdfs_native").exists():
        pytest.skip(f"no HDFS in {PARTS}: `make test-stores` fetches it from Maven Central and PyPI")
    folder, port = tmp_path_factory.mktemp("hdfs"), free_port()
    jars = Path(pyspark.__file__).parent / "jars"
    parts += [
        file
        for name in ("hadoop-client-*", "slf4j-api-*", "*commons-logging*", "jcl-over*")
        for file in sorted(jars.glob(f"{name}.jar"))
    ]
    java = Path(os.environ["JAVA_HOME"]) / "bin" / "java"
    command = [
        *(str(java), "-Xmx512m", f"-Dtest.build.data={folder}/data", "-cp", ":".join(map(str, parts))),
        *("org.apache.hadoop.mapreduce.MiniHadoopClusterManager", "-nomr", "-format", "-nnport", str(port)),
        *("-D", "dfs.namenode.http-address=127.0.0.1:0", "-writeDetails", str(folder / "ready")),
    ]  # The details are written when data can be.
    with _process(command, folder, (folder / "ready").exists):
        yield f"127.0.0.1:{port}"


@pytest.fixture(scope="session")
def spark() -> Iterator[Any]:
    from pyspark import SparkContext
    from pyspark.sql import SparkSession

    jars = sorted((PARTS / "jars").glob("*.jar"))
    if not jars:
        pytest.skip(f"no jars for Azure in {PARTS}: `make test-stores` fetches them from Maven Central")
    if SparkContext._active_spark_context is not None:
        pytest.skip("this process has a Spark without the jars for Azure: run `make test-stores`")
    # For the driver, and for the workers that Spark starts.
    python = str(PARTS / "python")
    sys.path.append(python)
    os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, (os.environ.get("PYTHONPATH"), python)))
    settings = {
        "spark.jars": ",".join(map(str, jars)),
        "spark.ui.enabled": "false",
        "spark.log.level": "OFF",
        "spark.sql.shuffle.partitions": "2",
        "spark.sql.session.timeZone": "UTC",
        # Azurite plays accounts without folders of their own, and has no TLS.
        "spark.hadoop.fs.azure.fns.account.service.type": "BLOB",
        "spark.hadoop.fs.azure.account.hns.enabled": "false",
        "spark.hadoop.fs.azure.networking.library": "JDK_HTTP_URL_CONNECTION",
        "spark.hadoop.fs.azure.always.use.https": "false",
        "spark.hadoop.fs.azure.io.retry.max.retries": "2",
    }
    builder = SparkSession.builder.master("local[2]")
    for key, value in settings.items():
        builder = builder.config(key, value)
    session = builder.getOrCreate()
    yield session
    session.stop()
