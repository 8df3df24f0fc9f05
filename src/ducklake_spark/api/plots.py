"""`lake.plot` and `table.plot`: pictures of what the catalog says, by matplotlib (the extra `plot`), without Spark.

A picture has no background of its own, and colours that can be read on white and on black. Names in it are shown as
they are: neither as formulas, nor longer than the picture can bear.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

from ducklake_spark.api.display import visible
from ducklake_spark.catalog import inventory
from ducklake_spark.engine.history import history_rows
from ducklake_spark.engine.html import human_bytes
from ducklake_spark.engine.scope import scope_of
from ducklake_spark.errors import InvalidInputError, MissingDriverError
from ducklake_spark.format.objects import is_local, table_folder
from ducklake_spark.format.options import DEFAULT_TARGET_FILE_SIZE

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from ducklake_spark.api.lake import Lake
    from ducklake_spark.api.table import Table

INK = "#7d8590"
"""Of texts and lines: about as far from white as from black."""
DATA, SOME, DELETED, OLD = "#12a594", "#d9a441", "#e5704b", "#8f9bb3"
MANY_DELETED = 0.3
"""The share of deleted rows from which on `lake.health()` advises to write a file anew."""
_PER_DECADE = 5
"""Bars for each power of ten of a file's size."""
_NAME = 40
"""So many letters of a name are shown."""


class TablePlots:
    """Pictures of a table; `table.plot`."""

    def __init__(self, table: Table) -> None:
        self._table = table

    def files(self, *, ax: Axes | None = None) -> Axes:
        """How many data files there are of which size, and which of them have deleted rows.

        >>> table = getfixture("lake").create_table("t", {"a": "int"})
        >>> table.insert([(number,) for number in range(100)])
        100
        >>> table.plot.files().get_title(loc="left").partition(",")[0]
        'main.t: 1 file'

        Args:
            ax: Where to draw; a new figure if it is left out.

        Raises:
            MissingDriverError: The extra `plot` is not installed.
        """
        table, scope = self._table, scope_of(self._table)
        tx = scope.read_transaction()
        definition = table.definition
        found: list[inventory.StoredFile] = []
        inlined = 0
        if not is_local(definition.table_id):
            at = tx.snapshot.snapshot_id
            folder = table_folder(scope.config.data_path, tx.schema_of(definition.schema_id), definition)
            found = inventory.files(tx.store, definition.table_id, folder, at)
            sizes = inventory.sizes(tx.store, at, definition.table_id)
            inlined = sizes.get(definition.table_id, inventory.Size()).inlined_rows
        axes = _axes(ax)
        rows, deleted = sum(each.rows for each in found), sum(each.deleted or 0 for each in found)
        size = human_bytes(sum(each.file_bytes for each in found))
        title = f"{_shown(table)}: {_counted(len(found), 'file')}, {size}"
        if deleted:
            title += f", {deleted / rows:.1%} of the rows deleted"
        _titled(axes, title)
        if not found:
            rest = f"; {_counted(inlined, 'row')} in the catalog" if inlined else ""
            return _empty(axes, f"No files{rest}")
        option = tx.options.get(
            "target_file_size", schema_id=definition.schema_id, table_id=definition.table_id
        )
        return _file_sizes(axes, found, int(option or DEFAULT_TARGET_FILE_SIZE))

    def history(self, *, newest: int = 50, ax: Axes | None = None) -> Axes:
        """How many rows came and went with each snapshot that touched the table, as `history()` counts them.

        >>> table = getfixture("lake").create_table("t", {"a": "int"})
        >>> table.insert([(1,), (2,)]), table.delete("a = 1")
        (2, 1)
        >>> [label.get_text() for label in table.plot.history().get_xticklabels()]
        ['1', '2', '3']

        Args:
            newest: So many snapshots are shown at most.
            ax: Where to draw; a new figure if it is left out.

        Raises:
            MissingDriverError: The extra `plot` is not installed.
        """
        _check_count("newest", newest)
        table, scope = self._table, scope_of(self._table)
        definition = table.definition
        rows = [] if is_local(definition.table_id) else history_rows(scope, definition)
        at = scope.read_transaction().snapshot.snapshot_id
        shown = [row for row in rows if row[0] <= at][:newest][::-1]
        axes = _axes(ax)
        if not shown:
            _titled(axes, _shown(table))
            return _empty(axes, "No snapshot yet")
        moments = sorted({f"{row[1]:%Y-%m-%d %H:%M}" for row in (shown[0], shown[-1])})
        _titled(axes, f"{_shown(table)}: {_counted(len(shown), 'snapshot')}, {' to '.join(moments)} UTC")
        return _changes(axes, shown)


class LakePlots:
    """Pictures of a lake; `lake.plot`."""

    def __init__(self, lake: Lake) -> None:
        self._lake = lake

    def sizes(self, *, largest: int = 20, ax: Axes | None = None) -> Axes:
        """The bytes of each table: what it has now, what deletes take, and what only other snapshots need.

        >>> lake = getfixture("lake")
        >>> lake.create_table("t", {"a": "int"}).insert([(number,) for number in range(100)])
        100
        >>> [label.get_text() for label in lake.plot.sizes().get_yticklabels()]
        ['main.t']

        Args:
            largest: So many tables are shown at most; the others together are one more bar.
            ax: Where to draw; a new figure if it is left out.

        Raises:
            MissingDriverError: The extra `plot` is not installed.
        """
        _check_count("largest", largest)
        tx = scope_of(self._lake).read_transaction()
        found = sorted(
            inventory.stored_bytes(tx.store, tx.snapshot.snapshot_id).items(),
            key=lambda each: (-sum(each[1]), each[0]),
        )
        names = inventory.names(tx.store, (i for i, _ in found[:largest]))
        bars = [(names.get(str(i), f"table {i}"), sizes) for i, sizes in found[:largest]]
        rest = found[largest:]
        if rest:
            sums = tuple(sum(sizes[place] for _, sizes in rest) for place in range(3))
            bars.append((f"{_counted(len(rest), 'more table')}", (sums[0], sums[1], sums[2])))
        axes = _axes(ax, height=1.6 + 0.28 * len(bars))
        total = human_bytes(sum(sum(sizes) for _, sizes in found))
        _titled(axes, f"{_short(self._lake.name)}: {total} in {_counted(len(found), 'table')}")
        return _bars(axes, bars) if bars else _empty(axes, "No files")


def _file_sizes(axes: Axes, found: Sequence[inventory.StoredFile], target: int) -> Axes:
    """A histogram over powers of ten; files with deletes stand on those without."""
    powers = [math.log10(max(each.file_bytes, 1)) for each in found]
    first, last = (math.floor(min(powers) * _PER_DECADE), math.floor(max(powers) * _PER_DECADE) + 1)
    edges = [10 ** (place / _PER_DECADE) for place in range(first, last + 1)]
    many = f"{MANY_DELETED:.0%} or more deleted"
    kinds = {"no row deleted": DATA, "some rows deleted": SOME, many: DELETED}
    counts = {kind: [0] * (last - first) for kind in kinds}
    for each, power in zip(found, powers, strict=True):
        kind = "no row deleted" if each.deleted == 0 else "some rows deleted"
        if each.deleted and each.deleted >= MANY_DELETED * each.rows:
            kind = many
        counts[kind][math.floor(power * _PER_DECADE) - first] += 1
    widths = [high - low for low, high in itertools.pairwise(edges)]
    below = [0] * (last - first)
    for kind, numbers in counts.items():
        if any(numbers):
            axes.bar(
                edges[:-1], numbers, widths, bottom=below, align="edge", color=kinds[kind], label=kind,
                edgecolor="none", linewidth=0,
            )  # fmt: skip
            below = [low + more for low, more in zip(below, numbers, strict=True)]
    axes.set_xscale("log")
    if edges[0] / 100 <= target <= edges[-1] * 100:
        axes.axvline(target, color=INK, linestyle="--", linewidth=1, label=f"target {human_bytes(target)}")
    axes.xaxis.set_major_formatter(lambda size, _: _tick(size) if size >= 1 else "")
    axes.xaxis.set_minor_formatter(lambda *_: "")
    _whole_numbers(axes.yaxis)
    axes.set_ylabel("files", color=INK)
    _legend(axes)
    return axes


def _changes(axes: Axes, rows: Sequence[Sequence[Any]]) -> Axes:
    places = range(len(rows))
    came, went = ([row[place] or 0 for row in rows] for place in (3, 4))
    axes.bar(places, came, color=DATA, label="rows inserted", width=0.8)
    if any(went):
        axes.bar(places, [-count for count in went], color=DELETED, label="rows deleted", width=0.8)
    unknown = [place for place, row in zip(places, rows, strict=True) if row[3] is None or row[4] is None]
    if unknown:
        axes.plot(
            unknown,
            [0] * len(unknown),
            "o",
            color=INK,
            clip_on=False,
            zorder=5,
            label="not known without reading files",
        )
    altered = [place for place, row in zip(places, rows, strict=True) if "altered_table" in row[2]]
    if altered:
        axes.plot(altered, [0] * len(altered), "d", color=INK, clip_on=False, zorder=5, label="table altered")
    axes.axhline(0, color=INK, linewidth=0.8)
    step = max(1, math.ceil(len(rows) / 15))
    ticks = list(places)[::step]
    axes.set_xticks(ticks, [str(rows[place][0]) for place in ticks])
    axes.set_xlim(-0.7, max(len(rows), 8) - 0.3)
    axes.yaxis.set_major_formatter(lambda count, _: f"{abs(count):,.0f}")
    _whole_numbers(axes.yaxis, formatted=True)
    axes.set_xlabel("snapshot", color=INK)
    axes.set_ylabel("rows", color=INK)
    _legend(axes)
    return axes


def _bars(axes: Axes, bars: Sequence[tuple[str, tuple[int, int, int]]]) -> Axes:
    places = range(len(bars))
    left = [0] * len(bars)
    for place, (label, color) in enumerate((("data", DATA), ("deletes", DELETED), ("other snapshots", OLD))):
        widths = [sizes[place] for _, sizes in bars]
        if any(widths):
            axes.barh(places, widths, left=left, color=color, label=label, height=0.7)
            left = [low + more for low, more in zip(left, widths, strict=True)]
    for place, total in zip(places, left, strict=True):
        axes.annotate(
            human_bytes(total), (total, place), (5, 0), textcoords="offset points", va="center", color=INK, size=8,
        )  # fmt: skip
    axes.set_yticks(places, [_short(name) for name, _ in bars])
    _plain(axes.get_yticklabels())
    axes.set_xlim(0, max(left) * 1.18)
    axes.set_ylim(len(bars) - 0.4, -0.6)
    axes.xaxis.set_major_formatter(lambda size, _: _tick(size))
    axes.grid(axis="y", visible=False)
    axes.grid(axis="x", color=INK, alpha=0.2, linewidth=0.8)
    _legend(axes)
    return axes


def _axes(ax: Axes | None, height: float = 3.6) -> Axes:
    """The axes that were given, or those of a new figure; without a background and with quiet lines."""
    if ax is None:
        try:
            from matplotlib import pyplot
        except ImportError as error:
            raise MissingDriverError(
                f"Pictures need the package {error.name}: pip install 'ducklake-spark[plot]'"
            ) from None
        figure, ax = pyplot.subplots(figsize=(8, height), layout="constrained")
        figure.set_facecolor("none")
    ax.set_facecolor("none")
    for side, spine in ax.spines.items():
        spine.set_visible(side == "bottom")
        spine.set_color(INK)
    ax.tick_params(which="both", colors=INK, length=0)
    ax.grid(axis="y", color=INK, alpha=0.2, linewidth=0.8)
    ax.set_axisbelow(True)
    ax.margins(y=0.08)
    return ax


def _titled(axes: Axes, text: str) -> None:
    _plain([axes.set_title(text, loc="left", color=INK, fontsize=11)])


def _empty(axes: Axes, text: str) -> Axes:
    axes.set_axis_off()
    axes.text(0.5, 0.5, text, transform=axes.transAxes, ha="center", va="center", color=INK, size=12)
    return axes


def _legend(axes: Axes) -> None:
    handles, labels = axes.get_legend_handles_labels()
    if len(handles) > 1:
        # Below the picture, where it never covers a bar.
        axes.legend(
            handles, labels, loc="upper left", bbox_to_anchor=(0, -0.16), ncols=len(handles), frameon=False,
            labelcolor=INK, fontsize=9, borderaxespad=0,
        )  # fmt: skip


def _whole_numbers(axis: Any, *, formatted: bool = False) -> None:
    from matplotlib.ticker import MaxNLocator

    axis.set_major_locator(MaxNLocator(nbins=6, integer=True))
    if not formatted:
        axis.set_major_formatter(lambda count, _: f"{count:,.0f}")


def _tick(size: float) -> str:
    return human_bytes(round(size)).replace(".0 ", " ")


def _plain(texts: Iterable[Any]) -> None:
    """Texts that hold names: matplotlib would read `$a$` as a formula."""
    for text in texts:
        text.set_parse_math(False)


def _shown(table: Table) -> str:
    return f"{_short(table.schema_name)}.{_short(table.name)}"


def _short(name: str) -> str:
    text = visible(name).replace("\n", " ").replace("\t", " ")
    return text if len(text) <= _NAME else f"{text[: _NAME // 2]}…{text[1 - _NAME // 2 :]}"


def _counted(count: int, noun: str) -> str:
    return f"{count:,} {noun}" if count == 1 else f"{count:,} {noun}s"


def _check_count(what: str, value: object) -> None:
    if isinstance(value, bool) or not isinstance(value, int) or value < 1:
        raise InvalidInputError(f"{what} takes a whole number from 1 on, not {value!r}.")
