"""Lakes on Azure and on HDFS: rows written, changed, merged and cleaned up, and nothing left where the catalog names nothing."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

import ducklake_spark
from ducklake_spark.errors import FileError
from ducklake_spark.spark import object_stores
from ducklake_spark.spark.files import delete_files, list_files
from tests.stores.names import AZURE_KEY, CONTAINER, SERVER

pytestmark = pytest.mark.spark


@dataclass
class Place:
    """Where a lake's files go, and how."""

    data_path: str
    options: dict[str, str] = field(default_factory=dict)


@pytest.fixture(params=["azure", "hdfs"])
def place(request: pytest.FixtureRequest, spark: Any, tmp_path: Path) -> Place:
    address = request.getfixturevalue(request.param)
    if request.param == "hdfs":
        return Place(f"hdfs://{address}/lakes/{tmp_path.name}/")
    options = {"account_key": AZURE_KEY, "endpoint": f"http://{address}"}
    return Place(f"abfs://{CONTAINER}@{SERVER}/{tmp_path.name}/", options)


@pytest.fixture(params=[False, True], ids=["plain", "encrypted"])
def lake(request: pytest.FixtureRequest, place: Place, spark: Any, tmp_path: Path) -> Iterator[Any]:
    with ducklake_spark.attach(
        f"ducklake:{tmp_path}/lake.ducklake",
        spark=spark,
        name="lake",
        data_path=place.data_path,
        storage_options=place.options,
        encrypted=request.param,
        data_inlining_row_limit=0,
    ) as lake:
        yield lake


def stored(spark: Any, place: Place) -> set[str]:
    """Files of rows: where one was deleted, Hadoop leaves a mark of its folder on Azure."""
    return {status.path for status in list_files(spark, place.data_path) if status.path.endswith(".parquet")}


def named(lake: Any, place: Place) -> set[str]:
    folder = f"{place.data_path}main/t/"
    frames = [lake.metadata(f"ducklake_{kind}_file").select("path") for kind in ("data", "delete")]
    return {folder + row[0] for frame in frames for row in frame.collect()}


def test_a_lake_is_used_as_any_other(
    lake: Any, place: Place, spark: Any, capfd: pytest.CaptureFixture[str]
) -> None:
    spark.sql("CREATE TABLE lake.t (i BIGINT, s STRING, l ARRAY<INT>) PARTITIONED BY (s)")
    lake["t"].insert(
        spark.range(40).selectExpr("id AS i", "IF(id < 20, 'a', 'b c') AS s", "array(INT(id)) AS l")
    )
    spark.sql("INSERT INTO lake.t SELECT id, 'a', NULL FROM range(40, 50)")
    loaded = lake.version
    assert lake["t"].delete("i % 10 = 3") == 5
    assert lake["t"].update({"l": "array(7)"}, "i = 45") == 1
    lake.sql(
        "MERGE INTO t USING (SELECT id FROM range(48, 52)) n ON t.i = n.id WHEN MATCHED THEN DELETE "
        "WHEN NOT MATCHED THEN INSERT (i, s) VALUES (n.id, 'b c')"
    )
    assert stored(spark, place) >= named(lake, place), "and delete files that were replaced"
    expected = sorted(tuple(row) for row in lake.table("t").collect())
    assert len(expected) == 50 - 5 - 2 + 2
    assert (45, "a", [7]) in expected
    assert lake.table("t", version=loaded).count() == 50
    assert lake.table_changes("t", loaded + 1, lake.version).count() == 5 + 2 + 2 + 2

    lake.rewrite_data_files("t", delete_threshold=0.01)
    lake.merge_adjacent_files("t")
    versions = [row[0] for row in lake.snapshots().select("snapshot_id").collect()]
    lake.expire_snapshots(versions=versions[:-1])
    assert lake.cleanup_old_files(cleanup_all=True).count() >= 4
    assert stored(spark, place) == named(lake, place)
    assert sorted(tuple(row) for row in lake.table("t").collect()) == expected
    frame = spark.table("lake.t").where("i = 45")
    frame.explain(True)
    assert frame.first().l == [7]
    shown = str(spark.sql("SET -v").collect()) + str(lake.settings().collect()) + "".join(capfd.readouterr())
    assert AZURE_KEY not in shown


def test_what_failed_leaves_nothing(lake: Any, place: Place, spark: Any) -> None:
    spark.sql("CREATE TABLE lake.t (i BIGINT, l ARRAY<INT>)")
    lake["t"].insert(spark.range(10).selectExpr("id AS i", "array(INT(id)) AS l"))
    before = stored(spark, place)
    assert before == named(lake, place)
    with pytest.raises(ZeroDivisionError), lake.transaction():
        lake["t"].insert(spark.range(10, 20).selectExpr("id AS i", "array(INT(id)) AS l"))
        lake["t"].delete("i < 3")
        assert lake.table("t").count() == 17
        raise ZeroDivisionError
    assert stored(spark, place) == before
    [path] = before
    assert delete_files(spark, [path]) == [path]
    with pytest.raises(FileError, match=path.rpartition("/")[2]):
        lake.table("t").collect()


def test_an_identity_of_azure_is_for_spark_and_for_workers(spark: Any) -> None:
    path = "abfss://c@identified.dfs.core.windows.net/x/"
    options = {"tenant_id": "a-tenant", "client_id": "an-id", "client_secret": "hidden"}
    object_stores.prepare(spark, path, options)
    hadoop = spark.sparkContext._jsc.hadoopConfiguration()
    server = "identified.dfs.core.windows.net"
    assert hadoop.get(f"fs.azure.account.auth.type.{server}") == "OAuth"
    assert hadoop.get(f"fs.azure.account.oauth2.client.secret.{server}") == "hidden"
    access = object_stores.access(spark, path)  # as if the settings were Spark's own
    assert access.settings(path) == options
    assert "hidden" not in repr(access)


def test_workers_find_the_name_nodes_of_the_sessions_hadoop(spark: Any, hdfs: str, tmp_path: Path) -> None:
    hadoop = spark.sparkContext._jsc.hadoopConfiguration()
    nodes = {
        "dfs.nameservices": "ns",
        "dfs.ha.namenodes.ns": "a",
        "dfs.namenode.rpc-address.ns.a": hdfs,
        "dfs.client.failover.proxy.provider.ns": "org.apache.hadoop.hdfs.server.namenode.ha.ConfiguredFailoverProxyProvider",
    }
    for name, value in nodes.items():
        hadoop.set(name, value)
    with ducklake_spark.attach(
        f"ducklake:{tmp_path}/lake.ducklake", spark=spark, data_path=f"hdfs://ns/{tmp_path.name}/"
    ) as lake:
        lake.sql("CREATE TABLE t AS SELECT id FROM range(2000)")
        assert lake.table("t").count() == 2000
