"""Deletion vectors: bare ones, and several in a Puffin container, as newer releases of the extension write them."""

from __future__ import annotations

import json
import struct

import pytest

from ducklake_spark.errors import DuckLakeError
from ducklake_spark.format.deletion_vector import stamped_positions, vector_of, vector_positions


def container(vectors: list[tuple[int | None, list[int]]], flags: int = 0) -> bytes:
    """A container with a vector for each snapshot, put together by the words of its description."""
    data, blobs = b"PFA1", []
    for snapshot_id, positions in vectors:
        blob = vector_of(positions)
        told = {} if snapshot_id is None else {"ducklake-snapshot-id": str(snapshot_id)}
        blobs.append(
            {
                "type": "deletion-vector-v1",
                "fields": [],
                "snapshot-id": -1,
                "sequence-number": -1,
                "offset": len(data),
                "length": len(blob),
                "properties": {
                    "referenced-data-file": "f.parquet",
                    "cardinality": str(len(positions)),
                    **told,
                },
            }
        )
        data += blob
    payload = json.dumps({"blobs": blobs}).encode()
    return data + b"PFA1" + payload + struct.pack("<iBBBB", len(payload), flags, 0, 0, 0) + b"PFA1"


def test_the_newest_vector_that_is_not_too_new_counts() -> None:
    data = container([(7, [1, 4, 9]), (4, [4]), (6, [1, 4])])
    found = {at: vector_positions(data, "x", at).tolist() for at in (3, 4, 5, 6, 7, 8, None)}
    assert found == {3: [], 4: [4], 5: [4], 6: [1, 4], 7: [1, 4, 9], 8: [1, 4, 9], None: [1, 4, 9]}
    assert sorted(stamped_positions(data, "x")) == [(1, 6), (4, 4), (9, 7)]


def test_vectors_without_snapshots_count_always() -> None:
    for data in (vector_of([2, 3]), container([(None, [2, 3])])):
        assert vector_positions(data, "x", 1).tolist() == [2, 3]
        assert stamped_positions(data, "x") == [(2, None), (3, None)]


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (container([(1, [1])])[:-1], "without an end"),
        (container([(1, [1])], flags=1), "compressed"),
        (container([(1, [1])]).replace(b'"offset"', b'"offsex"'), "without 'offset'"),
        (b"PFA1" + bytes(12) + b"PFA1", "without a footer"),
        (vector_of([1])[:-1] + b"x", "checksum"),
    ],
)
def test_damage_is_told(data: bytes, reason: str) -> None:
    with pytest.raises(DuckLakeError, match=rf"f\.puffin is damaged: .*{reason}"):
        vector_positions(data, "f.puffin", 5)
    with pytest.raises(DuckLakeError, match=r"f\.puffin is damaged"):
        stamped_positions(data, "f.puffin")
