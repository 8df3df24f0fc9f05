"""Expiry of snapshots: which of them, by their ids, by their age, or by the option `expire_older_than`."""

from __future__ import annotations

from collections.abc import Iterable

from ducklake_spark.catalog import expiry
from ducklake_spark.catalog.snapshot import described_sql
from ducklake_spark.engine.maintenance.age import flag, limit_micros, require_no_transaction
from ducklake_spark.engine.maintenance.report import Report
from ducklake_spark.engine.scope import Scope, described
from ducklake_spark.engine.times import Timestamp, micros_of
from ducklake_spark.errors import InvalidInputError

_COLUMNS = (
    "snapshot_id bigint, snapshot_time timestamp, schema_version bigint, changes map<string,array<string>>, "
    "author string, commit_message string, commit_extra_info string"
)


def expire_snapshots(
    scope: Scope,
    older_than: Timestamp | None = None,
    versions: Iterable[int] | None = None,
    *,
    dry_run: bool = False,
) -> Report:
    """Forgets snapshots, with all rows of the catalog that no other snapshot sees; never the newest one.

    Returns:
        The snapshots that were expired, or would be.
    """
    scope.require_open()
    chosen = _chosen(scope, older_than, versions)
    if flag(dry_run, "dry_run"):
        rows = (
            [] if chosen is None else expiry.expirable(scope.store.query(described_sql(scope.store)), chosen)
        )
    else:
        require_no_transaction(scope, "expire_snapshots()")
        scope.require_writable()
        rows = (
            []
            if chosen is None
            else expiry.expire(scope.store, scope.config.data_path, chosen, scope.config.policy)
        )
    return Report(_COLUMNS, described(rows))


def _chosen(
    scope: Scope, older_than: Timestamp | None, versions: Iterable[int] | None
) -> expiry.Chosen | None:
    """What is to be expired; None when nothing was said, not even by the option."""
    if older_than is not None and versions is not None:
        raise InvalidInputError("expire_snapshots() takes older_than or versions, not both.")
    if versions is not None:
        ids = _ids(versions)
        return lambda snapshot_id, _: snapshot_id in ids
    limit = (
        micros_of(older_than, "older_than")
        if older_than is not None
        else limit_micros(scope, "expire_older_than", "")
    )
    return None if limit is None else lambda _, micros: micros < limit


def _ids(versions: Iterable[int]) -> set[int]:
    if isinstance(versions, (str, bytes)) or not isinstance(versions, Iterable):
        raise InvalidInputError(f"versions takes a list of snapshot ids, not {versions!r}.")
    ids = set()
    for version in versions:
        if isinstance(version, bool) or not isinstance(version, int) or version < 0:
            raise InvalidInputError(
                f"versions takes ids of snapshots, which are whole numbers, not {version!r}."
            )
        ids.add(version)
    return ids
