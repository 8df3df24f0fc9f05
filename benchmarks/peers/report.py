"""The report as Markdown, out of results: pure, so that a test can tell what it says."""

from __future__ import annotations

import statistics
from collections.abc import Iterable, Mapping

from benchmarks.peers.groups import BATCHES, GROUPS, MEMORY, STREAM, Group
from benchmarks.peers.others import OTHERS, section
from benchmarks.peers.results import OURS, PEERS, SYSTEMS, TITLES, Results, goal_of
from benchmarks.peers.runner import Row

HOW = """\
Delta keeps deletion vectors; Iceberg has format 3 with deletion vectors, and changes rows by merge-on-read;
ours has its catalog in a DuckDB file. All write Parquet with zstd, and have Spark's settings alike: the same
cores, memory and number of shuffle partitions; Delta reads its log with as many partitions as there are
cores. Statements are the same texts for `spark.sql`; plain Parquet is a table of Spark's own catalog;
`lake.table` is the same lake by methods of Python. Each system is a process that stays; a round lets all of
them do a step, one right after the other, in an order that changes, and then the next step. Rounds on small
tables come before, unmeasured. Answers of queries are compared.

A cell has the median of seconds, and the fastest and the slowest in small. Ratios are medians of what was
taken right after another. *Of the best peer* is ours beside the one of plain Parquet, Delta and Iceberg that
is fastest in that row; the goal is at most 0.9 of it, or 1.05 where it is a scan and plain Parquet is
fastest. CPU is the time of all threads of a system, those that compile for a young JVM included; a busy
machine disturbs it much less than the clock. DuckDB's extension is another engine, shown for comparison.

Groups that are not above were not measured on this machine: 100,000 files (`--only files100`) take hours, and so
does everything at a larger scale of TPC-H. `make bench-peers ARGS='--only ...'` adds them."""


QUIET = 0.1
"""How much of the cores others may take before the report warns of it."""


def report(results: Results, reasons: Mapping[str, str], pictures: Mapping[str, str], command: str) -> str:
    """The whole page.

    Args:
        results: What was measured.
        reasons: Why a goal is missed, by the key of the row.
        pictures: The name of a group's picture, without its ending, by the key of the group.
        command: What makes the page again.
    """
    measured = {key: group for key, group in GROUPS.items() if _measured(results, group)}
    parts = [
        "# Beside plain Parquet, Delta Lake and Apache Iceberg",
        f"Made by `{command}`; see [CONTRIBUTING.md](../CONTRIBUTING.md).",
        *_circumstances(results, measured),
        "## Goals",
        goals(results, reasons),
    ]
    for key, group in measured.items():
        parts += [f"## {group.title}", *([group.text] if group.text else [])]
        if key in pictures:
            parts.append(_picture(pictures[key], group.title))
        if f"{MEMORY}: {key}" in results.figures:
            figures = results.figures[f"{MEMORY}: {key}"]
            held = {name: f"{held / 2**20:.0f} MB" for name, held in figures.items()}
            parts.append(
                "Memory of JVM and Python after it: "
                + "; ".join(f"{TITLES[n]} {h}" for n, h in held.items())
                + "."
            )
        if key == "stream" and BATCHES in results.figures:
            parts.append(_batches(results, results.figures[BATCHES]))
        parts += [table(results, group), "CPU seconds:", table(results, group, "cpu")]
    for name in OTHERS:
        parts += section(name, results)
        if name in results.figures and name in reasons:
            parts.append(reasons[name])
    parts += ["## How", HOW]
    if results.failures:
        parts += [
            "## What failed",
            "\n".join(f"- {key}: {why}" for key, why in sorted(results.failures.items())),
        ]
    return "\n\n".join(parts) + "\n"


def main_table(results: Results, keys: Iterable[str] = ("scan", "rows", "appends")) -> str:
    """The table that README shows: medians, of CPU time where the machine was too busy for others."""
    at = [results.conditions[key] for key in keys if key in results.conditions]
    others = max((each.others for each in at), default=0.0)
    kind, unit = ("cpu", "CPU seconds") if others > QUIET else ("wall", "seconds")
    scales = sorted({each.scale for each in at})
    said = f"Medians of {unit}, TPC-H scale {', '.join(f'{scale:g}' for scale in scales)}, the least in bold"
    said += f"; other programs took {others:.0%} of the cores meanwhile:" if kind == "cpu" else ":"
    systems = [name for name in (*PEERS, *OURS) if name in results.versions]
    lines = [
        "| work | " + " | ".join(TITLES[name] for name in systems) + " |",
        "|---" * (len(systems) + 1) + "|",
    ]
    for key in keys:
        for row in GROUPS[key].rows:
            medians = {name: results.median(row.key, name, kind) for name in systems}
            known = [value for value in medians.values() if value is not None]
            if known:
                cells = [_number(value, bold=value == min(known)) for value in medians.values()]
                lines.append(f"| {row.title} | " + " | ".join(cells) + " |")
    return "\n".join([said, "", *lines])


def busy(results: Results) -> float:
    """How much of the cores others took, at worst."""
    return max((at.others for at in results.conditions.values()), default=0.0)


def table(results: Results, group: Group, kind: str = "wall") -> str:
    """The rows of a group: a column for each system that did any of it, and ours beside the best peer."""
    rows = [row for row in group.rows if any(results.taken(row.key, name) for name in SYSTEMS)]
    systems = [name for name in SYSTEMS if any(results.taken(row.key, name) for row in rows)]
    ours = [name for name in OURS if name in systems]
    beside = any(name in PEERS for name in systems)
    heads = ["work", *(TITLES[name] for name in systems)]
    heads += [f"{TITLES[name].removeprefix('ours, ')}, of the best peer" for name in ours if beside]
    lines = ["| " + " | ".join(heads) + " |", "|---" * len(heads) + "|"]
    for row in rows:
        cells = [_cell(results, row.key, name, kind) for name in systems]
        if beside:
            peer = results.best_peer(row.key, kind)
            cells += [_ratio(results, row, name, peer, kind) for name in ours]
        lines.append(f"| {row.title} | " + " | ".join(cells) + " |")
    if len(rows) > 5:
        lines += _total(results, rows, systems, ours if beside else [], kind)
    return "\n".join(lines)


def goals(results: Results, reasons: Mapping[str, str]) -> str:
    """Which rows reach their goal, and by how much and why the others do not."""
    reached, by_cpu, missed = 0, 0, []
    for key, group in GROUPS.items():
        for row in group.rows:
            peer = results.best_peer(row.key)
            if peer is None:
                continue
            for name in OURS:
                found = results.ratio(row.key, name, peer)
                if found is None:
                    continue
                goal = goal_of(row.scan, peer)
                cpu_peer = results.best_peer(row.key, "cpu") or peer
                cpu = results.ratio(row.key, name, cpu_peer, "cpu")
                by_cpu += cpu is not None and cpu <= goal_of(row.scan, cpu_peer)
                if found <= goal:
                    reached += 1
                else:
                    why = reasons.get(f"{row.key}/{name}") or reasons.get(row.key) or reasons.get(key)
                    missed.append((group.title, row, name, peer, found, goal, cpu, why or "not known"))
    text = f"{reached} of {reached + len(missed)} reach their goal by the clock, {by_cpu} by CPU time."
    if not missed:
        return text
    lines = ["| work | by | best peer | ratio | goal | ratio of CPU | why |", "|---|---|---|---|---|---|---|"]
    for title, row, name, peer, found, goal, cpu, why in missed:
        of_cpu = f"{cpu:.2f}" if cpu is not None else "–"
        by = TITLES[name].removeprefix("ours, ")
        lines.append(
            f"| {title}: {row.title} | {by} | {TITLES[peer]} | {found:.2f} | {goal} | {of_cpu} | {why} |"
        )
    return f"{text} These do not:\n\n" + "\n".join(lines)


def reasons_of(text: str) -> dict[str, str]:
    """Reasons by row, out of lines `row: reason`; a line that begins with # is none."""
    lines = (line for line in text.splitlines() if line.strip() and not line.startswith("#"))
    return {key.strip(): why.strip() for key, _, why in (line.partition(":") for line in lines)}


def _measured(results: Results, group: Group) -> bool:
    return any(results.taken(row.key, name) for row in group.rows for name in SYSTEMS)


def _circumstances(results: Results, groups: Mapping[str, Group]) -> list[str]:
    machine = results.machine
    versions: dict[str, str] = {}
    for found in results.versions.values():
        versions.update(found)
    parts = []
    if machine:
        parts.append(
            f"On {machine['cores']} cores ({machine['processor']}), {machine['memory_gb']} GB of memory, "
            f"{machine['system']}, Java {machine['java']}, Python {machine['python']}; "
            + ", ".join(f"{name} {version}" for name, version in versions.items())
            + "."
        )
    lines = [
        "| group | when | TPC-H scale | rounds | warming up | cores taken by others | load |",
        "|---|---|---|---|---|---|---|",
    ]
    titles = {**{key: group.title for key, group in groups.items()}, **OTHERS}
    for key, title in titles.items():
        if key in results.conditions:
            at = results.conditions[key]
            cells = (
                title,
                at.date,
                f"{at.scale:g}" if at.scale else "–",
                at.rounds,
                at.warm,
                f"{at.others:.0%}",
                at.load,
            )
            lines.append("| " + " | ".join(map(str, cells)) + " |")
    parts.append("\n".join(lines))
    worst = busy(results)
    if worst > QUIET:
        parts.append(
            f"The machine was not quiet: other programs took up to {worst:.0%} of its cores. Seconds are longer "
            "than they would be alone, and differ from turn to turn; trust ratios more than seconds, and CPU "
            "more than both."
        )
    parts += [f"Left out: {name}, as {why}" for name, why in results.missing.items()]
    return parts


def _batches(results: Results, batches: int) -> str:
    medians = {name: results.median(STREAM[0].key, name) for name in SYSTEMS}
    said = [f"{TITLES[name]} {batches / taken:.1f}" for name, taken in medians.items() if taken]
    return f"Batches per second, of {batches}: {'; '.join(said)}."


def _picture(name: str, title: str) -> str:
    return (
        f'<picture><source media="(prefers-color-scheme: dark)" srcset="images/{name}-dark.svg">'
        f'<img alt="{title}" src="images/{name}-light.svg"></picture>'
    )


def _number(value: float | None, bold: bool = False) -> str:
    if value is None:
        return "–"
    text = f"{value:.3f}" if value < 0.1 else f"{value:.2f}" if value < 10 else f"{value:.1f}"
    return f"**{text}**" if bold else text


def _cell(results: Results, row: str, system: str, kind: str) -> str:
    taken = results.taken(row, system, kind)
    if not taken:
        return "–"
    middle = _number(statistics.median(taken.values()))
    if len(taken) == 1:
        return middle
    return f"{middle} <sub>{_number(min(taken.values()))}–{_number(max(taken.values()))}</sub>"


def _ratio(results: Results, row: Row, system: str, peer: str | None, kind: str) -> str:
    found = results.ratio(row.key, system, peer, kind) if peer else None
    if found is None or peer is None:
        return "–"
    text = f"{found:.2f}"
    return f"**{text}**" if found <= goal_of(row.scan, peer) else text


def _total(results: Results, rows: list[Row], systems: list[str], ours: list[str], kind: str) -> list[str]:
    """The sum of medians, where all systems did the same rows."""
    medians = {name: [results.median(row.key, name, kind) for row in rows] for name in systems}
    sums = {
        name: sum(v for v in found if v is not None) for name, found in medians.items() if None not in found
    }
    best = min((sums[name] for name in PEERS if name in sums), default=None)
    cells = [_number(sums.get(name)) for name in systems]
    cells += [f"{sums[name] / best:.2f}" if best and name in sums else "–" for name in ours]
    return [f"| all of these | {' | '.join(cells)} |"]
