"""A lake in a bucket: whatever is done with it, beside the extension on the same bucket."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.interop.oracle import Oracle
from tests.s3.store import Store

pytestmark = pytest.mark.spark


def test_rows_go_both_ways(
    attach: Callable[..., Any], bucket: str, oracle: Oracle, store: Store, tmp_path: Path
) -> None:
    with attach(data_inlining_row_limit=0) as lake:
        lake.sql("CREATE TABLE t (i INT, s STRING, l ARRAY<INT>)")
        lake.sql("INSERT INTO t VALUES (1, 'a', array(1, 2)), (2, 'b', NULL)")
        assert sorted(lake.sql("SELECT i, s, l FROM t").collect()) == [(1, "a", [1, 2]), (2, "b", None)]
    oracle.attach(f"ducklake:{tmp_path}/lake.ducklake")
    assert oracle.execute("SELECT * FROM t ORDER BY i") == [(1, "a", [1, 2]), (2, "b", None)]
