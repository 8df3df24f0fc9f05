"""One process of many that insert into one table: `python inserter.py LOCATION DATA_PATH NUMBER TURNS`.

Each turn inserts rows that say who made them: some into the catalog, some as files, some in one transaction.
"""

from __future__ import annotations

import sys

import ducklake_spark


def run(location: str, data_path: str, number: int, turns: int) -> None:
    with ducklake_spark.attach(location, data_path=data_path, max_retry_count=100) as lake:
        for turn in range(turns):
            if turn % 3 == 0:
                lake["t"].insert([row(number, turn, i) for i in range(3)])
            elif turn % 3 == 1:
                lake["t"].insert([row(number, turn, i) for i in range(12)])
            else:
                with lake.transaction():
                    lake["t"].insert([row(number, turn, i) for i in range(12)])
                    lake["t"].insert([row(number, turn, 12)])


def row(number: int, turn: int, i: int) -> dict[str, object]:
    return {"who": number, "turn": turn, "i": i, "l": [number, None]}


def expected(number: int, turns: int) -> set[tuple[int, int, int]]:
    return {(number, turn, i) for turn in range(turns) for i in range((3, 12, 13)[turn % 3])}


if __name__ == "__main__":
    run(sys.argv[1], sys.argv[2], int(sys.argv[3]), int(sys.argv[4]))
