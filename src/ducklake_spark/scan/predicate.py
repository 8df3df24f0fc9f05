"""Catalyst filters -> conditions of the query that lists files."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ducklake_spark.scan.listing import Condition
from ducklake_spark.scan.plan import FileGroup, ScanPlan


def condition(filters: Sequence[Any], plan: ScanPlan, group: FileGroup, kind: str) -> Condition | None:
    """A condition that every file with matching rows satisfies; None when the filters decide nothing."""
    return None
