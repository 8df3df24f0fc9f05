"""Which process of a parallel run has which files of tests: always the same ones, in the same order.

pytest-xdist would hand the next file to whoever is free, so that each run mixes the files in another way, and a test
that leaves something behind fails in one run of ten. Here a run that passed says that the next one passes.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Iterable

import pytest
from xdist.remote import Producer
from xdist.scheduler import LoadScopeScheduling

SECONDS = {
    "test_docs.py": 90,
    "interop/test_scan_rows.py": 177,
    "interop/test_rowlevel_twins.py": 115,
    "interop/test_scan_types.py": 114,
    "interop/test_mysql.py": 112,
    "interop/test_ddl_twins.py": 104,
    "interop/test_scan_pruning.py": 97,
    "write/test_kills.py": 95,
    "spark/test_native_cluster.py": 35,
    "interop/test_inlined_nested.py": 91,
    "interop/test_encryption.py": 86,
    "interop/test_parity.py": 91,
    "concurrency/test_retries.py": 81,
    "catalog/test_file_locks.py": 70,
    "api/test_storage_options.py": 15,
    "interop/test_encoder_twins.py": 62,
    "interop/test_scan_evolution.py": 61,
    "catalog/test_bad_input.py": 59,
    "concurrency/test_rows.py": 57,
    "errors/test_mistakes.py": 52,
    "write/test_options.py": 51,
    "spark/test_workers.py": 49,
    "interop/test_restore.py": 47,
    "interop/test_changes.py": 45,
    "maintenance/test_crashes.py": 45,
    "spark/test_streaming.py": 40,
    "interop/test_connect.py": 60,
    "sql/test_dml.py": 45,
    "interop/test_insert_twins.py": 43,
    "catalog/test_migrate.py": 41,
    "catalog/test_stores.py": 40,
    "cli/test_shell.py": 40,
    "concurrency/test_conflicts.py": 37,
    "engine/test_streaming_source.py": 33,
    "sql/test_worker_expressions.py": 30,
    "interop/test_sequences.py": 32,
    "concurrency/test_conflict_table.py": 30,
    "maintenance/test_add_files.py": 30,
    "faults/test_lost_connections.py": 28,
    "maintenance/test_merge_files.py": 25,
    "spark/test_interrupts.py": 27,
    "engine/test_answers.py": 21,
    "maintenance/test_beside_writers.py": 18,
    "maintenance/test_compact.py": 18,
    "maintenance/test_rewrite.py": 15,
    "sql/test_plain_changes.py": 8,
    "scan/test_predicate.py": 5,
    "interop/test_history.py": 21,
    "interop/test_scan_random.py": 20,
    "cli/test_output.py": 3,
    "api/test_names.py": 1,
    "catalog/test_location.py": 1,
    "explorer/test_guard.py": 1,
    "format/test_conflicts.py": 1,
    "format/test_promotion.py": 1,
    "format/test_streaming.py": 1,
    "interop/test_bucket_hash.py": 1,
}
"""About how long files take whose tests do not take a second each; anew:

make test ARGS='--durations=0 --durations-min=0.01' | tee log; .venv/bin/python -m tests.schedule <log
"""


def shares(nodeids: Iterable[str], processes: int) -> dict[str, int]:
    """The number of the process for each file: the longest first, each to whoever has least."""
    tests = Counter(file_of(nodeid) for nodeid in nodeids)
    seconds = {file: SECONDS.get(file.removeprefix("tests/"), count) for file, count in tests.items()}
    loads = [0] * processes
    found: dict[str, int] = {}
    for file in sorted(seconds, key=lambda each: (-seconds[each], each)):
        process = loads.index(min(loads))
        loads[process] += seconds[file]
        found[file] = process
    return found


def file_of(nodeid: str) -> str:
    """The file of a test."""
    return nodeid.split("::", 1)[0]


class FixedScheduling(LoadScopeScheduling):  # type: ignore[misc]  # pytest-xdist has no types
    """Each process gets one share of the files, in the order in which they were collected."""

    def __init__(self, config: pytest.Config, log: Producer) -> None:
        super().__init__(config, log)
        self._shares: dict[str, int] = {}

    def schedule(self) -> None:
        if not self._shares and self.collection is None:
            [collected, *_] = self.registered_collections.values()
            self._shares = shares(collected, len(self.nodes))
        super().schedule()

    def _split_scope(self, nodeid: str) -> str:
        return f"share {self._shares[file_of(nodeid)]}"


def figures(lines: Iterable[str]) -> dict[str, int]:
    """What a run said, as SECONDS: files that took long, and those whose tests take much less than a second each."""
    seconds: defaultdict[str, float] = defaultdict(float)
    tests: defaultdict[str, set[str]] = defaultdict(set)
    for line in lines:
        if found := re.match(r"([\d.]+)s (?:setup|call|teardown) +tests/(\S+?)::(.*)", line):
            seconds[found[2]] += float(found[1])
            tests[found[2]].add(found[3])
    return {
        file: max(1, round(spent))
        for file, spent in sorted(seconds.items(), key=lambda each: -each[1])
        if spent >= 20 or 3 * spent < len(tests[file])
    }


if __name__ == "__main__":
    import json
    import sys

    print(json.dumps(figures(sys.stdin), indent=4))
