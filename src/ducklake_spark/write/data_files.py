"""A file that an encoder wrote, as the catalog describes it: in its folder, with its statistics."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any

from ducklake_spark.format.columns import ColumnDef
from ducklake_spark.format.data import DataFile
from ducklake_spark.format.encryption import key_of
from ducklake_spark.format.objects import TableDef
from ducklake_spark.format.statistics import WIDE_INTEGERS, ColumnStats, geometry_stats
from ducklake_spark.format.types import quote
from ducklake_spark.write.encoders.encoding import COUNTED_APART
from ducklake_spark.write.encoders.variants import variant_column_stats
from ducklake_spark.write.failures import explained, refused
from ducklake_spark.write.target import Target, place_of


def registered(target: Target, path: str, info: Mapping[str, Any]) -> DataFile:
    """Moves a file that a worker wrote to its place and describes it."""
    return moved_in(target, path, described(target, path, info))


def described(target: Target, path: str, info: Mapping[str, Any]) -> DataFile:
    """What the catalog says of a file, by what its worker found out."""
    return DataFile(
        path=info["folder"] + os.path.basename(path),
        path_is_relative=True,
        record_count=info["rows"],
        file_size_bytes=info["size"],
        footer_size=info["footer"],
        columns=tuple(column_stats(target.table, info)),
        partition_values=tuple(info["values"]),
        key=key_of(info.get("key")),
    )


def moved_in(target: Target, path: str, file: DataFile) -> DataFile:
    """The file in its place in the table's folder; it goes with the transaction if that does not commit."""
    whole = os.path.join(place_of(target.folder), file.path)
    if target.is_remote:
        target.tx.written.append(path)
        if path != whole:
            target.tx.written.append(whole)
            explained(target, lambda: target.access().move(path, whole))
    else:
        try:
            try:
                os.replace(path, whole)
            except FileNotFoundError:
                os.makedirs(os.path.dirname(whole), exist_ok=True)
                os.replace(path, whole)
        except OSError as error:
            raise refused(target, error) or error from None
        target.tx.written.append(whole)
    partitioning = target.table.partitioning
    keyed = partitioning is not None and bool(partitioning.keys)
    partition_id = partitioning.partition_id if keyed and partitioning is not None else None
    return replace(file, partition_id=partition_id, whole_path=whole)


def column_stats(table: TableDef, info: Mapping[str, Any]) -> Iterable[ColumnStats]:
    """The statistics of the columns of a file, by what DuckDB's COPY said of it."""
    statistics: Mapping[str, Mapping[str, str]] = info["statistics"]
    for column in table.columns:
        yield from _node_stats(column, quote(column.name), statistics, info)


def _node_stats(
    column: ColumnDef, path: str, statistics: Mapping[str, Mapping[str, str]], info: Mapping[str, Any]
) -> Iterable[ColumnStats]:
    if column.children:
        for child in column.children:
            yield from _node_stats(child, f"{path}.{quote(child.name)}", statistics, info)
        return
    if column.type == "variant":
        nulls = info["nulls"].get(column.name, 0)
        yield variant_column_stats(column.column_id, path, statistics, info["rows"], nulls)
        return
    found = statistics.get(path)
    if found is None:
        return
    if column.type in COUNTED_APART:
        nulls = info["nulls"].get(column.name)
        if nulls is not None:
            # DuckDB counts nothing for these; a count of zero would make readers skip the file.
            yield ColumnStats(column.column_id, 0, info["rows"] - nulls, nulls, None, None)
        return
    null_count = int(found["null_count"])
    # No NaN in a 128-bit integer: that tells a file which keeps its digits from the extension's, which has doubles.
    nan = "false" if column.type in WIDE_INTEGERS else found.get("has_nan")
    yield ColumnStats(
        column.column_id,
        int(found["column_size_bytes"]),
        int(found["num_values"]) - null_count,
        null_count,
        _bound(found.get("min")),
        _bound(found.get("max")),
        None if nan is None else nan == "true",
        _geometry(found) if column.type == "geometry" else None,
    )


def _bound(text: str | None) -> str | None:
    return None if text is None or "\0" in text else text


def _geometry(found: Mapping[str, str]) -> str:
    box = {key.removeprefix("bbox_"): float(value) for key, value in found.items() if key.startswith("bbox_")}
    types = [name.strip() for name in found.get("geo_types", "[]").strip("[]").split(",") if name.strip()]
    return geometry_stats({"bbox": box, "types": types})
