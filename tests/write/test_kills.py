"""Processes that die while they write: the lake is as it was or as it should be, and never between."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import pyspark
import pytest

from tests.write import victim
from tests.write.lakes import WrittenLake

pytestmark = pytest.mark.spark


@contextmanager
def started(lake: WrittenLake, master: str, marks: Path) -> Iterator[subprocess.Popen[bytes]]:
    """A victim in a process group of its own, which is gone at the end with all its helpers."""
    marks.mkdir()
    environment = dict(os.environ) | {
        "SPARK_HOME": str(Path(pyspark.__file__).parent),
        "PYTHONPATH": os.pathsep.join(path for path in sys.path if path),
        "SPARK_LOCAL_IP": "127.0.0.1",
    }
    with (marks / "words").open("wb") as words:
        process = subprocess.Popen(
            [sys.executable, victim.__file__, master, lake.uri, str(lake.data_path), str(marks)],
            env=environment,
            cwd=marks,
            start_new_session=True,
            stdout=subprocess.DEVNULL,
            stderr=words,
        )
    try:
        yield process
    finally:
        for pid in [process.pid, *helpers(process.pid)]:
            strike(pid)
        process.wait()


def strike(pid: int) -> None:
    with suppress(ProcessLookupError):
        os.kill(pid, signal.SIGKILL)


def stat(pid: int) -> tuple[int, int]:
    """The parent and the session of a process; zeros when it is gone."""
    try:
        words = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return 0, 0
    return int(words[1]), int(words[3])


def helpers(leader: int) -> list[int]:
    """All processes of a victim's session, which outlive it."""
    found = [int(entry.name) for entry in Path("/proc").iterdir() if entry.name.isdigit()]
    return [pid for pid in found if pid != leader and stat(pid)[1] == leader]


def command(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
    except OSError:
        return ""


def wait_for(process: subprocess.Popen[bytes], marks: Path, pattern: str, seconds: float = 400) -> list[Path]:
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        ended = process.poll() is not None
        found = sorted(marks.glob(pattern))
        if found:
            return found
        if ended:
            break
        time.sleep(0.02)
    raise AssertionError(f"no {pattern}: {(marks / 'words').read_text(errors='replace')[-3000:]}")


def outcome(process: subprocess.Popen[bytes], marks: Path, write: str) -> dict[str, Any]:
    (path,) = wait_for(process, marks, f"{write}/outcome")
    found: dict[str, Any] = json.loads(path.read_text())
    return found


@pytest.fixture
def lake(make_lake: Callable[..., WrittenLake], request: pytest.FixtureRequest) -> WrittenLake:
    made = make_lake(getattr(request, "param", "sqlite"))
    made.table("nested", {"id": "bigint", "l": "bigint[]"})
    made.table("flat", {"id": "bigint"})
    made.table("m", {"id": "bigint", "v": "varchar", "l": "bigint[]"})
    made.ours["nested"].insert([(-1, [])])
    made.close()
    return made


def assert_as_before(lake: WrittenLake) -> None:
    assert lake.ask("SELECT * FROM nested") == [(-1, [])]
    assert lake.ask("SELECT count(*) FROM flat") == [(0,)]
    # What is left are orphans below the folder of the table, where clean-up looks for them.
    assert all(name.startswith("main/nested/") and name.endswith(".parquet") for name in lake.files())
    assert lake.registered() == []
    assert lake.ours.version == 4
    # And the next one can write.
    lake.ours["nested"].insert([(i, None) for i in range(20)])
    assert lake.check("nested") == 21


@pytest.mark.parametrize("lake", ["duckdb", "sqlite", "postgres"], indirect=True)
def test_the_driver_dies_while_it_commits(lake: WrittenLake, tmp_path: Path) -> None:
    marks = tmp_path / "marks"
    with started(lake, "none", marks) as process:
        wait_for(process, marks, "committing")
        strike(process.pid)
    assert_as_before(lake)


def test_workers_and_the_driver_die_while_they_write(lake: WrittenLake, tmp_path: Path) -> None:
    """One session, three times: first its workers die, then it is interrupted, at last it dies itself."""
    marks = tmp_path / "marks"
    with started(lake, "local[2]", marks) as process:
        wait_for(process, marks, "worker/pid-*")
        for pid in helpers(process.pid):
            if "pyspark.daemon" in command(pid) and "pyspark.daemon" in command(stat(pid)[0]):
                strike(pid)
        found = outcome(process, marks, "worker")
        # A task is tried once here: the insert fails and leaves nothing.
        assert "error" in found and not found.keys() & {"nested", "flat"}
        assert lake.files() == []

        wait_for(process, marks, "cancel/pid-*")
        process.send_signal(signal.SIGINT)
        # Ctrl-C ends the Spark job and leaves nothing; the session can go on.
        assert outcome(process, marks, "cancel") == {"cancelled": 3}
        assert lake.files() == []

        wait_for(process, marks, "driver/pid-*")
        strike(process.pid)
    assert not (marks / "driver" / "outcome").exists()
    assert_as_before(lake)


def test_tasks_are_repeated_in_a_cluster(lake: WrittenLake, tmp_path: Path) -> None:
    """Executors are processes of their own here; Spark gives tasks that failed, and those of a dead one, to another."""
    marks = tmp_path / "marks"
    with started(lake, "local-cluster[2,1,1024]", marks) as process:
        assert outcome(process, marks, "retry") == {"nested": victim.ROWS + 1, "flat": victim.ROWS}
        assert len(list(marks.glob("retry/failed-*"))) == victim.TASKS
        wait_for(process, marks, "executor/pid-*")
        backends = [pid for pid in helpers(process.pid) if "CoarseGrainedExecutorBackend" in command(pid)]
        assert len(backends) == 2
        strike(backends[0])
        (marks / "executor" / "go").touch()
        found = outcome(process, marks, "executor")
    changed = found.pop("changed")
    assert found == {"nested": 2 * victim.ROWS + 1, "flat": 2 * victim.ROWS}
    assert changed == [90, 65, 20, 5]
    assert lake.check("m") == 90
    whole = [(2 * victim.ROWS, 2 * victim.ROWS, 2 * victim.ROWS - 1)]
    for table in ("nested", "flat"):
        assert lake.ask(f"SELECT count(*), count(DISTINCT id), max(id) FROM {table} WHERE id >= 0") == whole
    assert lake.files() == lake.registered()
