"""Several deletion vectors in one file, as newer extensions write them: read, told as changes, and continued."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

import ducklake_spark
from ducklake_spark.engine.scope import scope_of
from ducklake_spark.format.deletion_vector import vector_positions
from tests.format.test_deletion_vector import container

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark


def join_vectors(lake: ducklake_spark.Lake, data: Path) -> None:
    """Puts the deletion vectors of the one data file into one file, as the catalog would have it then."""
    store = scope_of(lake).store
    rows = store.query(
        "SELECT delete_file_id, begin_snapshot, path FROM ducklake_delete_file ORDER BY begin_snapshot"
    )
    folder = next(data.rglob("*.puffin")).parent
    vectors = [
        (int(begin), vector_positions((folder / os.path.basename(path)).read_bytes(), path).tolist())
        for _, begin, path in rows
    ]
    joined = container(list(vectors))
    (folder / "joined.puffin").write_bytes(joined)
    with store.begin() as session:
        for delete_id, *_ in rows[:-1]:
            session.execute("DELETE FROM ducklake_delete_file WHERE delete_file_id = ?", (delete_id,))
        session.execute(
            "UPDATE ducklake_delete_file SET begin_snapshot = ?, partial_max = ?, path = ?, file_size_bytes = ?",
            (
                vectors[0][0],
                vectors[-1][0],
                rows[-1][2].replace(os.path.basename(rows[-1][2]), "joined.puffin"),
                len(joined),
            ),
        )


def seen(lake: ducklake_spark.Lake) -> dict[Any, Any]:
    """The rows at each snapshot, and all changes."""
    at = {
        v: sorted(row.i for row in lake.table("t", version=v).collect()) for v in range(2, lake.version + 1)
    }
    changes = lake.table_changes("t", 0, lake.version).where("change_type = 'delete'")
    return {**at, "deletes": sorted((row.snapshot_id, row.i) for row in changes.collect())}


@pytest.mark.parametrize("vectors", [True, False])
def test_a_container_of_vectors_is_read_and_continued(
    vectors: bool, spark: SparkSession, tmp_path: Path
) -> None:
    data = tmp_path / "data"
    with ducklake_spark.attach(
        f"ducklake:{tmp_path}/lake.ducklake", spark=spark, data_path=data, data_inlining_row_limit=0
    ) as lake:
        lake.create_table("t", {"i": "int"})
        lake["t"].set_option("write_deletion_vectors", True)
        lake["t"].insert([(i,) for i in range(8)])
        for last in (0, 1, 2):
            lake["t"].delete(f"i = {last}")
        before = seen(lake)
        join_vectors(lake, data)
        assert seen(lake) == before
        assert before["deletes"] == [(3, 0), (4, 1), (5, 2)]

        lake["t"].set_option("write_deletion_vectors", vectors)
        lake["t"].delete("i = 7")
        after = seen(lake)
        assert {**after, "deletes": after["deletes"][:-1]} == {
            **before,
            lake.version: [3, 4, 5, 6],
            "deletes": before["deletes"],
        }
        assert after["deletes"][-1] == (lake.version, 7)
