"""A process that dies at a chosen moment of a flush: `python flush_victim.py LOCATION DATA_PATH MOMENT`."""

from __future__ import annotations

import sys
from typing import Any

import ducklake_spark
from ducklake_spark.write import flush
from tests.faults.victim import arrange, before, die

MOMENTS = (
    "a file is written",
    "all files are written",
    "before the last row",
    "before COMMIT",
    "after COMMIT",
    "before an old table is dropped",
)


def trap(session: type, moment: str) -> None:
    """Sets it."""
    if moment == "a file is written":
        flush._write_deletes = die  # type: ignore[assignment]
    elif moment == "all files are written":
        flush.FlushInlinedData = die  # type: ignore[assignment, misc]
    elif moment == "before an old table is dropped":

        def is_drop(_: Any, sql: str, *__: Any) -> None:
            if sql.startswith("DROP TABLE"):
                die()

        before(session, "execute", is_drop)
    else:
        arrange(session, moment)


def main(location: str, data_path: str, moment: str) -> None:
    with ducklake_spark.attach(location, data_path=data_path) as lake:
        with lake._scope.store.begin() as session:
            pass
        trap(type(session), moment)
        lake.flush_inlined_data()


if __name__ == "__main__":
    main(*sys.argv[1:])
