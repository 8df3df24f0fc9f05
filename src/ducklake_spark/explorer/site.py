"""What all pages share: the lake, whether it may be changed, the queries that run, and what was counted already."""

from __future__ import annotations

import re
import threading
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any, TypeVar

from ducklake_spark.api.completion import Names
from ducklake_spark.api.lake import Lake
from ducklake_spark.catalog import inventory
from ducklake_spark.engine.scope import scope_of
from ducklake_spark.spark.session import start

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from ducklake_spark.engine.scope import Scope

V = TypeVar("V")


class Site:
    """An explorer's lake. Without `write`, nothing that comes from a page can change it."""

    def __init__(self, lake: Lake, *, write: bool = False, settings: Mapping[str, str] | None = None) -> None:
        from ducklake_spark.explorer.runs import Runs

        own = scope_of(lake)
        self.can_write = write and not own.config.read_only
        # Transactions of the handle that was given are its own.
        self.lake = Lake(own.apart() if self.can_write else own.apart_read_only())
        self.runs = Runs(self)
        self._settings = dict(settings or {})
        self._starting = threading.Lock()
        self._counted: dict[str, tuple[int, Any]] = {}
        self._counting: dict[str, threading.Lock] = defaultdict(threading.Lock)

    @property
    def scope(self) -> Scope:
        """The scope of the lake."""
        return scope_of(self.lake)

    @property
    def catalog(self) -> str:
        """The catalog database, without secrets."""
        return self.scope.store.display

    @property
    def has_spark(self) -> bool:
        """Whether queries can run at once."""
        return self.scope.session is not None

    def start_spark(self) -> None:
        """Starts Spark, or waits until it has been started, for the first query."""
        with self._starting:
            if self.scope.session is None:
                if self._settings:
                    self.scope.session = start(self._settings)
                _ = self.lake.spark

    def lake_at(self, version: int | None) -> Lake:
        """The lake as it is, or as it was at a snapshot."""
        return self.lake if version is None else self.lake.at(version=version)

    def sql(self, text: str, dialect: str, version: int | None = None) -> DataFrame:
        """Runs SQL; only such as reads, unless the lake may be changed."""
        from ducklake_spark.sql.execute.reading import read

        lake = self.lake_at(version)
        return lake.sql(text, dialect) if self.can_write else read(lake, text, dialect)

    def plan(self, frame: DataFrame) -> tuple[list[str], str]:
        """Which files the scans of a query read, in a line each, and Spark's plan for it."""
        from ducklake_spark.engine.answers import LocalAnswer
        from ducklake_spark.spark.file_index import is_classic, plan_text

        if isinstance(frame, LocalAnswer):
            return [], ""
        scans = self.lake.explain(frame).splitlines() if is_classic(frame.sparkSession) else []
        return _by_table(scans), plan_text(frame)

    def roll_back(self) -> None:
        """Ends a transaction that a failed query of this thread left open."""
        if self.scope.transaction is not None:
            self.lake.rollback()

    def sizes(self, snapshot_id: int) -> Mapping[int, inventory.Size]:
        """The sizes of all tables at a snapshot."""
        return self.remembered("sizes", snapshot_id, lambda: inventory.sizes(self.scope.store, snapshot_id))

    def names(self, snapshot_id: int) -> Names:
        """The names that a query can use, for suggestions."""
        return self.remembered("names", snapshot_id, lambda: Names(self.lake))

    def remembered(self, what: str, snapshot_id: int, count: Callable[[], V]) -> V:
        """What was counted at a snapshot, once. Only that of the last snapshot is kept."""
        with self._counting[what]:
            known = self._counted.get(what)
            if known is None or known[0] != snapshot_id:
                known = self._counted[what] = (snapshot_id, count())
            found: V = known[1]
            return found


_SCAN = re.compile(r"(.*): (\d+) of (\d+) files?")


def _by_table(scans: Iterable[str]) -> list[str]:
    """The lines of `lake.explain()` with those of one table as one: files with deletes are a scan of their own.

    >>> _by_table(["lake.main.t at snapshot 3: 1 of 2 files", "lake.main.t at snapshot 3: 0 of 5 files"])
    ['lake.main.t at snapshot 3: 1 of 7 files']
    """
    sums: dict[str, tuple[int, int]] = {}
    for line in scans:
        found = _SCAN.fullmatch(line)
        title, kept, total = (found[1], int(found[2]), int(found[3])) if found else (line, 0, 0)
        before = sums.get(title, (0, 0))
        sums[title] = (before[0] + kept, before[1] + total)
    return [
        f"{title}: {kept:,} of {total:,} {'file' if total == 1 else 'files'}" if total else title
        for title, (kept, total) in sums.items()
    ]
