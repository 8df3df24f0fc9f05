"""CALL: the functions of a lake as procedures of Spark's, `lake.system.snapshots()` or `lake.snapshots()`."""

from __future__ import annotations

import json
from collections.abc import Mapping
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from ducklake_spark.errors import NotFoundError, did_you_mean
from ducklake_spark.format.objects import EPOCH
from ducklake_spark.format.types import fold
from ducklake_spark.spark.file_index import java_frame
from ducklake_spark.sql.execute import functions

if TYPE_CHECKING:
    from ducklake_spark.api.lake import Lake

_TYPES = {
    "start_snapshot": "string",
    "end_snapshot": "string",
    "snapshot_version": "bigint",
    "snapshot_time": "timestamp",
    "older_than": "timestamp",
    "versions": "array<bigint>",
    "dry_run": "boolean",
    "cleanup_all": "boolean",
    "allow_missing": "boolean",
    "ignore_extra_columns": "boolean",
    "hive_partitioning": "boolean",
    "min_file_size": "bigint",
    "max_file_size": "bigint",
    "max_compacted_files": "bigint",
    "delete_threshold": "double",
}
"""What parameters take that are no texts."""


class Procedures:
    """The functions of a lake."""

    def __init__(self, lake: Lake) -> None:
        self._lake = lake

    def list(self, facts: Mapping[str, Any], _: Any) -> str:
        """SHOW PROCEDURES."""
        return json.dumps(sorted(functions.FUNCTIONS) if facts["namespace"] in ([], ["system"]) else [])

    def describe(self, facts: Mapping[str, Any], _: Any) -> str:
        """The parameters of a function; those that may be left out are NULL by default."""
        function = functions.find(facts["name"]) if facts["namespace"] in ([], ["system"]) else None
        if function is None:
            shown = ".".join((*facts["namespace"], facts["name"]))
            near = did_you_mean(fold(facts["name"]), functions.FUNCTIONS)
            raise NotFoundError(f'The lake "{self._lake.name}" has no procedure "{shown}".{near}')
        parameters: list[list[str]] = []
        for parameter in function.parameters:
            name = parameter.rstrip("?")
            kind = _TYPES.get(name, "string")
            parameters.append([name, kind, "NULL"] if parameter.endswith("?") else [name, kind])
        return json.dumps({"name": function.name, "description": function.text, "parameters": parameters})

    def call(self, facts: Mapping[str, Any], _: Any) -> Any:
        """CALL with values, which Spark has computed."""
        values = {name: _value(name, value) for name, value in facts["values"].items()}
        return java_frame(functions.call(self._lake, facts["function"], (), values))


def _value(name: str, value: Any) -> Any:
    if _TYPES.get(name) == "timestamp":
        return EPOCH + timedelta(microseconds=value)
    if name in ("start_snapshot", "end_snapshot") and value.isdigit():
        return int(value)
    return value
