"""Queries of pages: each runs in a thread of its own, and the page asks what became of it.

Rows come in windows, a Spark job each, so that a page of any result costs no more than it shows; nothing but the
windows that were looked at last is kept.
"""

from __future__ import annotations

import secrets
import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ducklake_spark.api.display import error_text
from ducklake_spark.api.frame_values import numeric, plain_rows, readable
from ducklake_spark.api.values import plain_text
from ducklake_spark.explorer.rendering import PAGE_ROWS

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from ducklake_spark.explorer.site import Site

WINDOW_CELLS = 200_000
"""So many values are fetched at once, in whole pages."""
WINDOW_PAGES = 10
KEPT_WINDOWS = 4
KEPT_RUNS = 50
AT_ONCE = 4
"""So many queries run at the same time; others wait."""

Row = Sequence["str | None"]


@dataclass(frozen=True)
class ResultColumn:
    """A column of a result."""

    name: str
    type: str
    is_number: bool


class Run:
    """A query that was started from a page.

    Its state is `waiting`, `starting` (Spark is), `running`, `done`, `failed` or `cancelled`.
    """

    def __init__(self, title: str, make: Callable[[], DataFrame], dialect: str | None) -> None:
        self.id = secrets.token_urlsafe(9)
        self.title = title
        self.dialect = dialect
        """Of SQL that a person typed; None for queries that pages make."""
        self.state = "waiting"
        self.error: str | None = None
        self.columns: Sequence[ResultColumn] = ()
        self.files: Sequence[str] = ()
        """Which files each scan reads, in a line each."""
        self.plan = ""
        self._make = make
        self._frame: DataFrame | None = None
        self._began = time.monotonic()
        self._ended = self._began
        self._windows: OrderedDict[int, list[Row]] = OrderedDict()
        self._known_end: int | None = None
        self._fetching = threading.Lock()
        self.left = threading.Event()
        """Set when nothing of it is under way any more."""
        self._changed = threading.Condition()

    @property
    def is_over(self) -> bool:
        """Whether its state is the last one."""
        return self.state in ("done", "failed", "cancelled")

    @property
    def seconds(self) -> float:
        """How long it has been running, or did."""
        return (self._ended if self.is_over else time.monotonic()) - self._began

    @property
    def row_count(self) -> int | None:
        """How many rows there are, as far as somebody looked at the end."""
        return self._known_end

    @property
    def rows_seen(self) -> int:
        """How many rows there are at least."""
        return max(
            (place * self._window_rows + len(rows) - 1 for place, rows in self._windows.items()), default=0
        )

    @property
    def is_count(self) -> bool:
        """Whether it is the answer to a change: how many rows."""
        return [column.name for column in self.columns] == ["Count"]

    def wait(self, known: str, seconds: float) -> None:
        """Waits until its state is another than the known one, for so long at most."""
        with self._changed:
            self._changed.wait_for(lambda: self.is_over or self.state != known, seconds)

    def become(self, state: str, error: str | None = None) -> None:
        """Takes a new state, unless it is over."""
        with self._changed:
            if self.is_over:
                return
            self.state, self.error = state, error
            self._ended = time.monotonic()
            self._changed.notify_all()

    def run(self, site: Site) -> None:
        """Makes the DataFrame, and looks at its first rows and its plan."""
        self._began = time.monotonic()  # waiting and starting Spark are not its own time
        frame = self._frame = self._make()
        fields = frame.schema.fields
        numbers = numeric([field.dataType for field in fields])
        self.columns = [
            ResultColumn(field.name, field.dataType.simpleString(), place in numbers)
            for place, field in enumerate(fields)
        ]
        if self.is_over:
            return
        self._window(0)
        self.files, self.plan = site.plan(frame)

    def page(self, page: int) -> tuple[Sequence[Row], bool]:
        """The rows of a page, from 1 on, and whether there are more behind them."""
        first = (page - 1) * PAGE_ROWS
        rows = self._window(first // self._window_rows)
        start = first % self._window_rows
        more = len(rows) > start + PAGE_ROWS
        return rows[start : start + PAGE_ROWS], more

    @property
    def _window_rows(self) -> int:
        pages = WINDOW_CELLS // (PAGE_ROWS * max(1, len(self.columns)))
        return PAGE_ROWS * min(max(pages, 1), WINDOW_PAGES)

    def _window(self, place: int) -> list[Row]:
        """The rows of a window, and one more if there is one."""
        with self._fetching:
            if place in self._windows:
                self._windows.move_to_end(place)
                return self._windows[place]
            assert self._frame is not None
            frame, size = self._frame, self._window_rows
            if not self.columns:
                return []
            types = [field.dataType for field in frame.schema.fields]
            found = readable(frame).offset(place * size).limit(size + 1).collect()
            rows: list[Row] = [
                [None if value is None else plain_text(value) for value in row]
                for row in plain_rows(found, types)
            ]
            if len(rows) <= size:
                self._known_end = place * size + len(rows)
            self._windows[place] = rows
            while len(self._windows) > KEPT_WINDOWS:
                self._windows.popitem(last=False)
            return rows

    @property
    def frame(self) -> DataFrame:
        """The result as a DataFrame, of a run that is done."""
        assert self._frame is not None
        return self._frame


class Runs:
    """The queries of an explorer; the oldest make room."""

    def __init__(self, site: Site) -> None:
        self._site = site
        self._runs: OrderedDict[str, Run] = OrderedDict()
        self._by_key: dict[tuple[Any, ...], str] = {}
        self._lock = threading.Lock()
        self._places = threading.Semaphore(AT_ONCE)

    def __iter__(self) -> Iterator[Run]:
        with self._lock:
            return iter(list(reversed(self._runs.values())))

    def get(self, run_id: str) -> Run | None:
        """The run of this id, if it is still known."""
        return self._runs.get(run_id)

    def start(
        self,
        title: str,
        make: Callable[[], DataFrame],
        key: tuple[Any, ...] | None = None,
        dialect: str | None = None,
    ) -> Run:
        """Starts a query. One with the key of another that did not fail is that other one.

        Args:
            title: What it is, for people.
            make: Gives its DataFrame.
            key: What makes it the same as another.
            dialect: The dialect of a title that is SQL.
        """
        with self._lock:
            known = self._runs.get(self._by_key.get(key, "")) if key is not None else None
            if known is not None and known.state not in ("failed", "cancelled"):
                self._runs.move_to_end(known.id)
                return known
            run = Run(title, make, dialect)
            self._runs[run.id] = run
            if key is not None:
                self._by_key[key] = run.id
            while len(self._runs) > KEPT_RUNS:
                self._runs.popitem(last=False)
        threading.Thread(target=self._run, args=(run,), name=f"explorer run {run.id}", daemon=True).start()
        return run

    def cancel(self, run: Run) -> None:
        """Ends a run, and stops what Spark does for it; a job that starts just now is stopped too."""
        run.become("cancelled", "The query was cancelled.")
        threading.Thread(target=self._stop, args=(run,), name=f"stops {run.id}", daemon=True).start()

    def _stop(self, run: Run) -> None:
        while not run.left.is_set():
            if self._site.has_spark:
                self._site.lake.spark.interruptTag(_tag(run))
            run.left.wait(0.2)

    def _run(self, run: Run) -> None:
        with self._places:
            try:
                if not self._site.has_spark:
                    run.become("starting")
                    self._site.start_spark()
                if run.is_over:
                    return
                run.become("running")
                self._site.lake.spark.addTag(_tag(run))
                run.run(self._site)
                self._site.scope.require_ended()
                run.become("done")
            except Exception as error:
                run.become("failed", error_text(error))
                self._site.roll_back()
            finally:
                run.left.set()


def _tag(run: Run) -> str:
    return f"explorer-{run.id}"
