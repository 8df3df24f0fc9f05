"""Change data feeds: from a name and two bounds to the changes of a table, as it is at the end of the range."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Union

from ducklake_spark.catalog import ddl
from ducklake_spark.catalog.snapshot import (
    latest_query,
    snapshot_at_time,
    snapshot_at_version,
    snapshot_from_time,
    snapshot_of,
)
from ducklake_spark.catalog.store import Store
from ducklake_spark.engine.scope import Scope
from ducklake_spark.engine.times import micros_of
from ducklake_spark.errors import InvalidInputError, did_you_mean
from ducklake_spark.format.names import Name
from ducklake_spark.format.objects import SchemaDef, Snapshot, TableDef
from ducklake_spark.scan.change_feed.frames import FEED_COLUMNS, ChangeReader
from ducklake_spark.scan.change_feed.plan import Feed, make_feed
from ducklake_spark.scan.planning.plan import LakeInfo
from ducklake_spark.scan.projection.types import TimestampNs, TypeChoices, choices_of

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

Bound = Union[int, str, datetime]  # noqa: UP007 - a name for readers
"""A version, or a time as text or datetime."""


def changes(
    scope: Scope, name: Name, start: Bound, end: Bound | None, *, net: bool, timestamp_ns: TimestampNs
) -> DataFrame:
    """Insertions, deletions and both images of updates."""
    return _reader(scope, name, start, end, timestamp_ns, net=net).changes()


def insertions(
    scope: Scope,
    name: Name,
    start: Bound,
    end: Bound | None,
    virtual: Sequence[str],
    timestamp_ns: TimestampNs,
) -> DataFrame:
    """Rows that were added."""
    return _reader(scope, name, start, end, timestamp_ns).insertions(_checked(virtual))


def deletions(
    scope: Scope,
    name: Name,
    start: Bound,
    end: Bound | None,
    virtual: Sequence[str],
    timestamp_ns: TimestampNs,
) -> DataFrame:
    """Rows that were removed."""
    return _reader(scope, name, start, end, timestamp_ns).deletions(_checked(virtual))


def _checked(virtual: Sequence[str]) -> Sequence[str]:
    for name in virtual:
        if name not in FEED_COLUMNS:
            raise InvalidInputError(
                f'A change feed has no virtual column "{name}".{did_you_mean(name, FEED_COLUMNS)} There are '
                f"{' and '.join(FEED_COLUMNS)}."
            )
    return virtual


def _reader(
    scope: Scope, name: Name, start: Bound, end: Bound | None, timestamp_ns: TimestampNs, *, net: bool = False
) -> ChangeReader:
    feed = feed_of(scope, name, start, end, choices_of(scope.spark, timestamp_ns), net=net)
    return ChangeReader(scope.spark, scope.store, feed)


def feed_of(
    scope: Scope,
    name: Name,
    start: Bound,
    end: Bound | None = None,
    choices: TypeChoices = TypeChoices(),  # noqa: B008 - a value
    *,
    net: bool = False,
) -> Feed:
    """What a feed will read, with types shown by these choices. Needs no session.

    Raises:
        SnapshotNotFoundError: There is no such snapshot.
        NotFoundError: There is no such table at the end of the range.
        InvalidInputError: It is a view.
    """
    scope.require_open()
    store = scope.store
    last = snapshot_of(store.query(*latest_query(store))) if end is None else _upper(scope.store, end)
    first = _lower(scope.store, start)
    schema, table = _table_at(scope, name, last)
    info = LakeInfo(scope.name, scope.config.data_path, scope.config.is_encrypted, scope.access)
    return make_feed(store, info, schema, table, first, last, choices, is_net=net)


def _version(bound: Bound, what: str) -> int | None:
    if isinstance(bound, bool) or not isinstance(bound, (int, str, datetime)):
        raise InvalidInputError(f"{what} takes a version or a time, not {bound!r}.")
    return bound if isinstance(bound, int) else None


def _lower(store: Store, bound: Bound) -> Snapshot:
    version = _version(bound, "start")
    if version is not None:
        return snapshot_at_version(store, version)
    assert not isinstance(bound, int)
    return snapshot_from_time(store, micros_of(bound, "start"), str(bound))


def _upper(store: Store, bound: Bound) -> Snapshot:
    version = _version(bound, "end")
    if version is not None:
        return snapshot_at_version(store, version)
    assert not isinstance(bound, int)
    return snapshot_at_time(store, micros_of(bound, "end"), str(bound))


def _table_at(scope: Scope, name: Name, snapshot: Snapshot) -> tuple[SchemaDef, TableDef]:
    """The table at the end of the range; what a running transaction did is not part of any snapshot."""
    tx = scope.at(snapshot).read_transaction()
    schema, own = scope.resolve(tx, name)
    if tx.table(schema, own) is None and tx.view(schema, own) is not None:
        raise InvalidInputError(
            f'"{schema.name}"."{own}" is a view. Change feeds are of tables: ask for the tables that it reads.'
        )
    return schema, ddl.get_table(tx, schema, own)
