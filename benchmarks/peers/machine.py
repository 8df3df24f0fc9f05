"""What this machine is and how busy it is. Knows Linux's /proc; elsewhere it says less."""

from __future__ import annotations

import contextlib
import os
import platform
import subprocess
import time
from dataclasses import dataclass
from pathlib import Path

TICKS = os.sysconf("SC_CLK_TCK")


def tree_seconds(root: int | None = None) -> float:
    """Seconds in which a process, this one unless told, and all below it kept a core busy; 0 where nobody knows."""
    parents: dict[int, int] = {}
    spent: dict[int, int] = {}
    for path in Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError):
            fields = path.read_text().rpartition(")")[2].split()
            parents[int(path.parent.name)] = int(fields[1])
            spent[int(path.parent.name)] = sum(int(part) for part in fields[11:15])
    wanted, found = {root or os.getpid()}, {root or os.getpid()}
    while found:
        found = {pid for pid, parent in parents.items() if parent in wanted} - wanted
        wanted |= found
    return sum(spent.get(pid, 0) for pid in wanted) / TICKS


def all_seconds() -> float:
    """Seconds in which the machine's cores were busy, for whoever."""
    with contextlib.suppress(OSError):
        user, nice, system, _, _, *interrupts = map(
            int, Path("/proc/stat").read_text().split("\n")[0].split()[1:8]
        )
        return (user + nice + system + sum(interrupts)) / TICKS
    return 0.0


class Watch:
    """Sees how much of the cores others take from now on."""

    def __init__(self) -> None:
        self._start, self._mine, self._all = time.perf_counter(), tree_seconds(), all_seconds()

    def others(self) -> float:
        """Their share, 1 for all cores."""
        seconds = time.perf_counter() - self._start
        theirs = all_seconds() - self._all - (tree_seconds() - self._mine)
        return max(0.0, theirs / seconds / (os.cpu_count() or 1))


def resident_bytes(root: int | None = None) -> int:
    """Memory of one process."""
    with contextlib.suppress(OSError):
        for line in Path(f"/proc/{root or os.getpid()}/status").read_text().splitlines():
            if line.startswith("VmRSS"):
                return int(line.split()[1]) * 1024
    return 0


@dataclass(frozen=True)
class Machine:
    """What a reader must know of the machine."""

    cores: int
    memory_gb: float
    processor: str
    system: str
    python: str
    java: str

    @classmethod
    def here(cls) -> Machine:
        memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30
        processor = platform.processor() or platform.machine()
        with contextlib.suppress(OSError):
            for line in Path("/proc/cpuinfo").read_text().splitlines():
                if line.startswith("model name"):
                    processor = line.split(":", 1)[1].strip()
                    break
        java = Path(os.environ["JAVA_HOME"], "bin", "java") if "JAVA_HOME" in os.environ else Path("java")
        said = subprocess.run(
            [java, "-version"], capture_output=True, text=True, check=True
        ).stderr.splitlines()
        return cls(
            os.cpu_count() or 1,
            round(memory, 1),
            processor,
            f"{platform.system()} {platform.release().split('-')[0]}",
            platform.python_version(),
            said[0].split('"')[1],
        )
