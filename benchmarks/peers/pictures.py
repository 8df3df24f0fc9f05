"""Pictures of results as SVG, for light and for dark pages: pure, so that a test can tell what they show."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from html import escape

from benchmarks.peers.results import SYSTEMS, TITLES, Results
from benchmarks.peers.runner import Row


@dataclass(frozen=True)
class Theme:
    """Colours of a page, and of the systems in the order of `SYSTEMS`."""

    page: str
    text: str
    line: str
    systems: tuple[str, ...]


THEMES = {
    "light": Theme(
        "#ffffff", "#1f2328", "#d1d9e0", ("#8c959f", "#0b7285", "#9c36b5", "#d9480f", "#f08c00", "#5c940d")
    ),
    "dark": Theme(
        "#0d1117", "#e6edf3", "#30363d", ("#8b949e", "#3bc9db", "#da77f2", "#ff922b", "#ffd43b", "#94d82d")
    ),
}
WIDTH, LEFT, STEP, TOP = 860, 270, 26, 58


def dots(results: Results, title: str, rows: Sequence[Row], theme: Theme, kind: str = "wall") -> str:
    """A line for each row, a dot for each system: seconds, of the clock or of CPU, on a scale of powers of ten."""
    found = {
        row: {name: value for name in SYSTEMS if (value := results.median(row.key, name, kind))}
        for row in rows
    }
    found = {row: medians for row, medians in found.items() if medians}
    values = [value for medians in found.values() for value in medians.values()]
    low, high = _decades(values)
    systems = [name for name in SYSTEMS if any(name in medians for medians in found.values())]

    def x(value: float) -> float:
        return LEFT + (math.log10(value) - low) / (high - low) * (WIDTH - LEFT - 30)

    height = TOP + STEP * len(found) + 34
    bottom = height - 30
    shown_title = f"{title}, seconds of CPU" if kind == "cpu" else f"{title}, seconds"
    parts = [*_frame(shown_title, height, theme), *_legend(systems, theme)]
    for mark in _marks(low, high):
        parts.append(_line(x(mark), TOP - 8, x(mark), bottom, theme.line))
        parts.append(_text(x(mark), height - 12, f"{mark:g} s", theme.text, "middle"))
    for number, (row, medians) in enumerate(found.items()):
        y = TOP + STEP * number + 6
        parts.append(_text(LEFT - 14, y + 4, row.title.replace("`", ""), theme.text, "end"))
        parts.append(_line(x(min(medians.values())), y, x(max(medians.values())), y, theme.line, 3))
        for name, value in medians.items():
            shown = f"{TITLES[name].replace('`', '')}: {value:.3g} s"
            radius = 6 if name in ("sql", "table") else 5
            colour = theme.systems[SYSTEMS.index(name)]
            parts.append(
                f'<circle cx="{x(value):.1f}" cy="{y}" r="{radius}" fill="{colour}" stroke="{theme.page}">'
                f"<title>{escape(shown)}</title></circle>"
            )
    return "\n".join([*parts, "</svg>\n"])


def lines(title: str, series: Mapping[str, Sequence[float]], below: str, theme: Theme) -> str:
    """Seconds from turn to turn, a line for each system."""
    series = {name: values for name, values in series.items() if values}
    height, top, bottom, left = 330, 58, 286, 60
    count = max((len(values) for values in series.values()), default=1)
    low, high = _decades([value for values in series.values() for value in values])

    def y(value: float) -> float:
        return bottom - (math.log10(value) - low) / (high - low) * (bottom - top)

    parts = [*_frame(title, height, theme), *_legend(list(series), theme)]
    for mark in _marks(low, high):
        parts.append(_line(left, y(mark), WIDTH - 30, y(mark), theme.line))
        parts.append(_text(left - 8, y(mark) + 4, f"{mark:g} s", theme.text, "end"))
    for name, values in series.items():
        width = (WIDTH - 30 - left) / max(count - 1, 1)
        points = " ".join(f"{left + width * i:.1f},{y(value):.1f}" for i, value in enumerate(values))
        colour = theme.systems[SYSTEMS.index(name)]
        parts.append(f'<polyline points="{points}" fill="none" stroke="{colour}" stroke-width="2.5"/>')
    parts.append(_text((left + WIDTH - 30) / 2, height - 12, below, theme.text, "middle"))
    return "\n".join([*parts, "</svg>\n"])


def _decades(values: Sequence[float]) -> tuple[float, float]:
    """From a little below to a little above all values, as powers of ten."""
    if not values:
        return -1.0, 1.0
    return math.log10(min(values)) - 0.08, math.log10(max(values)) + 0.08


def _marks(low: float, high: float) -> list[float]:
    marks = [f * 10.0**p for p in range(math.floor(low), math.ceil(high) + 1) for f in (1, 2, 5)]
    inside = [mark for mark in marks if low <= math.log10(mark) <= high]
    return inside if len(inside) < 9 else [mark for mark in inside if f"{mark:e}".startswith("1.")]


def _frame(title: str, height: int, theme: Theme) -> list[str]:
    return [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" width="{WIDTH}" height="{height}" '
        'font-family="system-ui, sans-serif" font-size="13" role="img">',
        f"<title>{escape(title)}</title>",
        f'<rect width="{WIDTH}" height="{height}" rx="6" fill="{theme.page}"/>',
        _text(14, 22, title, theme.text, "start", "600"),
    ]


def _legend(systems: Sequence[str], theme: Theme) -> list[str]:
    parts, x = [], 14.0
    for name in systems:
        title = TITLES[name].replace("`", "")
        parts.append(f'<circle cx="{x + 5:.0f}" cy="38" r="5" fill="{theme.systems[SYSTEMS.index(name)]}"/>')
        parts.append(_text(x + 15, 42, title, theme.text, "start"))
        x += 34 + 7 * len(title)
    return parts


def _text(x: float, y: float, text: str, colour: str, anchor: str, weight: str = "400") -> str:
    style = f'fill="{colour}" text-anchor="{anchor}" font-weight="{weight}"'
    return f'<text x="{x:.1f}" y="{y:.1f}" {style}>{escape(text)}</text>'


def _line(x1: float, y1: float, x2: float, y2: float, colour: str, width: int = 1) -> str:
    return f'<line x1="{x1:.1f}" y1="{y1:.1f}" x2="{x2:.1f}" y2="{y2:.1f}" stroke="{colour}" stroke-width="{width}"/>'
