"""How fast the same work is on plain Parquet, Delta, Iceberg, DuckDB's extension and ours: `make bench-peers`.

    python -m benchmarks.peers [--only scan,rows] [--scale 1] [--rounds 3] [--systems sql,iceberg] [--report-only]

Writes `benchmarks/report.md` and its pictures. What was measured before of other groups, and is kept in
`build/peers/results.json`, stays in the report.
"""

from __future__ import annotations

import argparse
import datetime
import os
import shlex
import shutil
import sys
import tempfile
from dataclasses import asdict
from pathlib import Path

from benchmarks.peers import data, machine, others, pictures, report
from benchmarks.peers.groups import GROUPS, Round
from benchmarks.peers.others import OTHERS
from benchmarks.peers.results import SYSTEMS, Conditions, Results
from benchmarks.peers.runner import Bench

ROOT = Path(__file__).parents[2]
MAKE = "make bench-peers"
COMMANDS = "commands"
"""What was run last for each group, among the figures."""
WARM = 0.01
"""The scale of the rounds that warm up."""
PICTURED = ("scan", "rows", "appends", "tpch", "files", "files10", "wide", "nested", "stream", "compact")
LARGE = ("files100",)
"""Groups that take hours: only who names them gets them."""


def main() -> None:
    given = arguments()
    work = ROOT / "build" / "peers"
    results = Results.load(given.results) if given.results.exists() else Results()
    if not given.report_only:
        try:
            measure(given, work, results)
        finally:
            results.save(given.results)
    write(results, given.report)
    if given.readme:
        write_readme(results, ROOT / "README.md")
    print(f"{given.report} and its pictures are written; results are in {given.results}")


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="make bench-peers", description=__doc__.split("\n")[0])
    known_groups = (*GROUPS, *OTHERS)
    usual = [name for name in known_groups if name not in LARGE]
    listed = f"of {', '.join(known_groups)}"
    parser.add_argument("--only", default=",".join(usual), help=f"groups of rows: some {listed}")
    parser.add_argument("--systems", default=",".join(SYSTEMS), help=f"some of {', '.join(SYSTEMS)}")
    parser.add_argument("--scale", type=float, default=1.0, help="of TPC-H; 1 is 6 million rows of lineitem")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--warm", type=int, default=2, help="rounds on small tables before, unmeasured")
    parser.add_argument("--scans", type=int, default=3, help="how often a scan is repeated within a round")
    parser.add_argument("--appends", type=int, default=60, help="appends of 500 rows in a round")
    parser.add_argument("--merges", type=int, default=20, help="merges of 3 %% in the group curve, up to 33")
    parser.add_argument(
        "--files",
        type=int,
        default=1000,
        help="files of the group files; compact has twice as many, files10 and files100 10 and 100 times as many",
    )
    parser.add_argument("--wide", type=int, default=50_000, help="rows of the group wide")
    parser.add_argument("--batches", type=int, default=30, help="batches of the group stream, up to 60")
    parser.add_argument("--sizes", default="1,10,100", help="of the lakes in the group growth")
    parser.add_argument("--cores", type=int, default=2)
    parser.add_argument("--memory", default="3g", help="of each driver")
    parser.add_argument("--results", type=Path, default=ROOT / "build" / "peers" / "results.json")
    parser.add_argument("--report", type=Path, default=ROOT / "benchmarks" / "report.md")
    parser.add_argument(
        "--report-only", action="store_true", help="write the report of what was measured before"
    )
    parser.add_argument("--readme", action="store_true", help="put the main table into README.md, too")
    given = parser.parse_args()
    given.only, given.systems = given.only.split(","), given.systems.split(",")
    for name, known in ((given.only, known_groups), (given.systems, SYSTEMS)):
        if unknown := set(name) - set(known):
            parser.error(f"{', '.join(sorted(unknown))} is none of {', '.join(known)}")
    return given


def measure(given: argparse.Namespace, work: Path, results: Results) -> None:
    """Runs the groups; what was known of them before is forgotten."""
    command = f"{MAKE} ARGS='{shlex.join(sys.argv[1:])}'" if sys.argv[1:] else MAKE
    known = results.figures.setdefault(COMMANDS, {})
    known.update(dict.fromkeys(given.only, command))
    results.machine = asdict(machine.Machine.here())
    for name in given.only:
        if name in OTHERS:
            others.measure(name, given, results)
            results.save(given.results)
    groups = [name for name in given.only if name in GROUPS]
    if groups:
        measure_groups(given, groups, work, results)


def measure_groups(given: argparse.Namespace, groups: list[str], work: Path, results: Results) -> None:
    """The groups in which systems take turns."""
    small, large = data.made(work / "data", WARM), data.made(work / "data", given.scale)
    for name in groups:
        results.without_rows(row.key for row in GROUPS[name].rows)
    lakes = Path(tempfile.mkdtemp(prefix="lakes-", dir=work))
    bench = Bench(given.systems, lakes, given.cores, given.memory, work / "jars", results)
    try:
        bench.warming = True
        for number in range(given.warm):
            print(f"warming up, {number + 1} of {given.warm}", flush=True)
            one_round(bench, given, Round(bench, small, -1 - number, 2, 5, 2, 50, 500, 3), groups)
        bench.warming = False
        for number in range(given.rounds):
            print(f"round {number + 1} of {given.rounds}", flush=True)
            some = [name for name in groups if not number or not GROUPS[name].once]
            one_round(
                bench,
                given,
                Round(
                    bench,
                    large,
                    number,
                    given.scans,
                    given.appends,
                    given.merges,
                    given.files,
                    given.wide,
                    given.batches,
                ),
                some,
            )
    finally:
        bench.close()
        shutil.rmtree(lakes, ignore_errors=True)


def one_round(bench: Bench, given: argparse.Namespace, current: Round, groups: list[str]) -> None:
    """All groups once; says afterwards under which conditions."""
    for name in groups:
        watch = machine.Watch()
        GROUPS[name].run(current)
        if bench.warming:
            continue
        share = watch.others()
        before = bench.results.conditions.get(name) if current.number else None
        # The mean of all rounds.
        if before:
            share = (before.others * current.number + share) / (current.number + 1)
        bench.results.conditions[name] = Conditions(
            f"{datetime.datetime.now(datetime.timezone.utc):%Y-%m-%d %H:%M} UTC",
            given.scale,
            current.number + 1,
            round(share, 3),
            round(os.getloadavg()[1], 1),
            given.warm,
        )
        bench.results.save(given.results)
    current.end()


def write(results: Results, target: Path) -> None:
    """The report, and the pictures in `images` beside it."""
    images = target.parent / "images"
    images.mkdir(parents=True, exist_ok=True)
    drawn: dict[str, str] = {}
    # On a busy machine a picture of the clock would show whom it disturbed.
    kind = "cpu" if report.busy(results) > report.QUIET else "wall"
    for name in PICTURED:
        rows = [row for row in GROUPS[name].rows if any(results.taken(row.key, system) for system in SYSTEMS)]
        if rows:
            drawn[name] = f"peers-{name}"
            for theme, colours in pictures.THEMES.items():
                text = pictures.dots(results, GROUPS[name].title, rows, colours, kind)
                (images / f"peers-{name}-{theme}.svg").write_text(text)
    if any(results.taken("curve-scan", system) for system in SYSTEMS):
        drawn["curve"] = "peers-curve"
        series = {system: list(results.taken("curve-scan", system, kind).values()) for system in SYSTEMS}
        for theme, colours in pictures.THEMES.items():
            text = pictures.lines(
                "A scan after each of twenty merges", series, "scans, one after the other", colours
            )
            (images / f"peers-curve-{theme}.svg").write_text(text)
    reasons = report.reasons_of((Path(__file__).parent / "reasons.txt").read_text())
    commands = dict.fromkeys(results.figures.get(COMMANDS, {}).values()) or [MAKE]
    target.write_text(report.report(results, reasons, drawn, "`, `".join(commands)))


def write_readme(results: Results, readme: Path) -> None:
    """Puts the main table between its marks."""
    begin, end = "<!-- bench-peers -->", "<!-- /bench-peers -->"
    before, _, rest = readme.read_text().partition(begin)
    _, found, after = rest.partition(end)
    if not found:
        raise SystemExit(f"{readme} has no place for the table: {begin} and {end}")
    readme.write_text(f"{before}{begin}\n{report.main_table(results)}\n{end}{after}")


if __name__ == "__main__":
    main()
