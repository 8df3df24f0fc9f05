"""What `make bench-peers` says of figures: its report and its pictures, without measuring anything."""

from __future__ import annotations

import xml.etree.ElementTree as ElementTree
from pathlib import Path

import pytest

from benchmarks.peers import pictures, report
from benchmarks.peers.__main__ import write_readme
from benchmarks.peers.groups import CHANGES, GROUPS, SCANS
from benchmarks.peers.results import Conditions, Measurement, Results, goal_of

SUMS, DELETE = SCANS[0], CHANGES[0]


def results(taken: dict[str, dict[str, list[float]]]) -> Results:
    """Results of seconds by row and system; CPU is twice of them."""
    made = Results(
        machine={
            "cores": 2,
            "processor": "some",
            "memory_gb": 8.0,
            "system": "Linux 6",
            "java": "17",
            "python": "3.11",
        },
        versions={"parquet": {"Spark": "4.1.4"}, "iceberg": {"Iceberg": "1.12.0"}, "sql": {}},
        conditions={"scan": Conditions("2026-01-01 00:00 UTC", 0.1, 3, 0.0, 0.4)},
    )
    for row, systems in taken.items():
        for system, seconds in systems.items():
            made.measurements += [
                Measurement(row, system, turn, each, 2 * each) for turn, each in enumerate(seconds)
            ]
    return made


def test_a_ratio_is_the_median_of_turns_not_of_medians() -> None:
    given = results({"sums": {"sql": [1.0, 20.0, 2.0], "iceberg": [2.0, 10.0, 4.0]}})

    assert given.ratio("sums", "sql", "iceberg") == 0.5


def test_a_ratio_takes_only_turns_in_which_both_were_measured() -> None:
    given = results({"sums": {"sql": [1.0], "iceberg": [2.0, 1000.0]}})

    assert given.ratio("sums", "sql", "iceberg") == 0.5
    assert given.ratio("sums", "table", "iceberg") is None


def test_the_best_peer_is_none_of_ours_and_not_duckdb() -> None:
    given = results({"sums": {"sql": [0.1], "duckdb": [0.01], "iceberg": [2.0], "delta": [3.0]}})

    assert given.best_peer("sums") == "iceberg"


@pytest.mark.parametrize(
    ("scan", "peer", "goal"), [(True, "parquet", 1.05), (True, "iceberg", 0.9), (False, "parquet", 0.9)]
)
def test_goal_is_larger_for_scans_beside_plain_parquet(scan: bool, peer: str, goal: float) -> None:
    assert goal_of(scan, peer) == goal


def test_missed_goals_are_listed_with_their_reasons() -> None:
    given = results(
        {
            "sums": {"sql": [1.04], "parquet": [1.0]},
            "q6": {"sql": [3.0], "parquet": [1.0]},
            "delete": {"sql": [1.0], "iceberg": [0.5]},
        }
    )

    said = report.goals(given, {"q6": "no reason at all"})

    assert said.startswith("1 of 3 reach their goal by the clock, 1 by CPU time.")
    assert "TPC-H's query 6 | `spark.sql` | plain Parquet | 3.00 | 1.05 | 3.00 | no reason at all |" in said
    assert "delete 1 %, scattered | `spark.sql` | Iceberg | 2.00 | 0.9 | 2.00 | not known |" in said
    assert "three sums" not in said


def test_a_group_has_a_reason_for_rows_without_one() -> None:
    given = results({"sums": {"sql": [2.0], "parquet": [1.0]}, "delete": {"sql": [1.0], "iceberg": [0.5]}})

    said = report.goals(given, {"scan": "of the group", "rows": "of another", "delete": "its own"})

    assert "| of the group |" in said and "| its own |" in said and "of another" not in said


def test_commits_and_growth_say_whether_their_goals_are_reached() -> None:
    given = results({"sums": {"sql": [1.0]}})
    given.figures["commits"] = {
        "1": {"ours": {"rates": [90.0], "lost": 0}, "extension": {"rates": [100.0], "lost": 0}},
        "8": {"ours": {"rates": [120.0, 140.0], "lost": 0}, "extension": {"rates": [100.0], "lost": 2}},
    }
    given.figures["growth"] = {
        "files": {
            "plan": {"wall": [0.01, 0.01, 0.011], "cpu": [0.01, 0.01, 0.01]},
            "list": {"wall": [0.01, 0.1, 1.0], "cpu": [0.01, 0.1, 1.0]},
        }
    }
    given.figures["growth sizes"] = "1,10,100"

    said = report.report(given, {"commits": "The machine slept."}, {}, "make it")

    assert "The machine slept." in said
    assert "| 8 | 130 | 100 | 1.30 | 0 and 2 |" in said
    assert "1.5 times the extension's with 8 writers and no row lost, is missed by 13%" in said
    assert "| step | files: 100 | files: 1,000 | files: 10,000 | exponent |" in said
    assert "| list | 10 (10) | 100 (100) | 1000 (1000) | 1.00 (1.00) |" in said
    assert "more than constant (an exponent above 0.1): *list* with files (1.00)." in said


def test_a_table_shows_medians_spread_and_what_is_not_done() -> None:
    given = results(
        {"sums": {"sql": [1.0, 2.0, 6.0], "parquet": [2.0, 4.0, 12.0]}, "delete": {"sql": [0.05]}}
    )

    scan, rows = report.table(given, GROUPS["scan"]), report.table(given, GROUPS["rows"])

    assert "| scan, three sums | 4.00 <sub>2.00–12.0</sub> | 2.00 <sub>1.00–6.00</sub> | **0.50** |" in scan
    assert rows.splitlines()[0] == "| work | ours, `spark.sql` |"
    assert "| delete 1 %, scattered | 0.050 |" in rows


def test_the_report_says_that_the_machine_was_busy() -> None:
    given = results({"sums": {"sql": [1.0]}})
    assert "not quiet" not in report.report(given, {}, {}, "make it")

    given.conditions["scan"] = Conditions("2026-01-01 00:00 UTC", 0.1, 3, 0.7, 9.0)
    said = report.report(given, {}, {"scan": "peers-scan"}, "make it")

    assert "up to 70% of its cores" in said
    assert 'srcset="images/peers-scan-dark.svg"' in said


@pytest.mark.parametrize(
    ("others", "unit", "least"), [(0.0, "seconds", "**1.00**"), (0.7, "CPU seconds", "**2.00**")]
)
def test_the_table_of_the_readme_is_of_cpu_where_the_machine_was_busy(
    others: float, unit: str, least: str
) -> None:
    given = results({"sums": {"sql": [1.0], "parquet": [2.0]}, "q6": {"sql": [1.0], "parquet": [1.5]}})
    given.conditions["scan"] = Conditions("2026-01-01 00:00 UTC", 0.1, 3, others, 9.0)
    given.conditions["tpch"] = Conditions("2026-01-01 00:00 UTC", 0.1, 3, 0.9, 9.0)

    said = report.main_table(given).splitlines()

    assert said[0].startswith(f"Medians of {unit}, TPC-H scale 0.1, the least in bold")
    assert ("took 70%" in said[0]) == (others > 0)
    assert said[2] == "| work | plain Parquet | Iceberg | ours, `spark.sql` |"
    assert said[4].endswith(f"| {least} |")


def test_the_readme_keeps_what_is_around_its_table(tmp_path: Path) -> None:
    readme = tmp_path / "README.md"
    readme.write_text("before\n<!-- bench-peers -->\nearlier\n<!-- /bench-peers -->\nafter\n")

    write_readme(results({"sums": {"sql": [1.0]}}), readme)

    text = readme.read_text()
    assert text.startswith("before\n<!-- bench-peers -->\nMedians") and text.endswith(
        "<!-- /bench-peers -->\nafter\n"
    )
    assert "earlier" not in text


def test_a_readme_without_a_place_is_not_touched(tmp_path: Path) -> None:
    readme = tmp_path / "README.md"
    readme.write_text("nothing")

    with pytest.raises(SystemExit, match="no place"):
        write_readme(results({}), readme)

    assert readme.read_text() == "nothing"


def test_a_system_left_out_and_a_failure_are_in_the_report() -> None:
    given = results({"sums": {"sql": [1.0]}})
    given.missing["delta"] = "mvn is not installed"
    given.failures["merge/iceberg"] = "no space"

    said = report.report(given, {}, {}, "make it")

    assert "Left out: delta, as mvn is not installed" in said
    assert "- merge/iceberg: no space" in said


def test_results_are_the_same_after_saving(tmp_path: Path) -> None:
    given = results({"sums": {"sql": [1.0]}})

    given.save(tmp_path / "results.json")

    assert Results.load(tmp_path / "results.json") == given


def test_a_reason_is_a_line_that_is_no_comment() -> None:
    assert report.reasons_of("# q6: nothing\n\nsums: it reads: twice\n") == {"sums": "it reads: twice"}


@pytest.mark.parametrize("theme", pictures.THEMES)
def test_a_picture_has_a_dot_for_each_figure_inside_its_frame(theme: str) -> None:
    given = results({"sums": {"sql": [1.0], "parquet": [0.01]}, "q6": {"sql": [100.0]}})

    drawn = ElementTree.fromstring(pictures.dots(given, "A & B", SCANS, pictures.THEMES[theme]))

    dots = [each for each in drawn.iter() if each.tag.endswith("circle") and len(each)]
    assert [each[0].text for each in dots] == [
        "plain Parquet: 0.01 s",
        "ours, spark.sql: 1 s",
        "ours, spark.sql: 100 s",
    ]
    assert all(pictures.LEFT < float(each.attrib["cx"]) < pictures.WIDTH for each in dots)


def test_a_curve_has_a_line_for_each_system_with_figures() -> None:
    drawn = pictures.lines("some", {"sql": [1.0, 2.0], "delta": []}, "turns", pictures.THEMES["light"])

    assert drawn.count("<polyline") == 1
