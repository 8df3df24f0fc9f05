"""Schemas that changed after files were written: every change that the extension accepts, read as it reads it."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.interop.test_added_columns import DEFAULTS
from tests.scan.lakes import Lake

pytestmark = pytest.mark.spark
MakeLake = Callable[..., Lake]

PROMOTIONS = {
    "BOOLEAN": ["TINYINT", "SMALLINT", "INTEGER", "BIGINT", "HUGEINT", "UTINYINT", "UBIGINT"],
    "TINYINT": [
        "SMALLINT",
        "INTEGER",
        "BIGINT",
        "HUGEINT",
        "FLOAT",
        "DOUBLE",
        "DECIMAL(5,2)",
        "DECIMAL(38,0)",
    ],
    "SMALLINT": ["INTEGER", "BIGINT", "HUGEINT", "FLOAT", "DOUBLE", "DECIMAL(18,3)"],
    "INTEGER": ["BIGINT", "HUGEINT", "FLOAT", "DOUBLE", "DECIMAL(38,0)"],
    "BIGINT": ["HUGEINT", "FLOAT", "DOUBLE", "DECIMAL(38,0)"],
    "HUGEINT": ["FLOAT", "DOUBLE", "DECIMAL(38,0)"],
    "UTINYINT": ["SMALLINT", "INTEGER", "BIGINT", "HUGEINT", "USMALLINT", "UINTEGER", "UBIGINT", "DOUBLE"],
    "USMALLINT": ["INTEGER", "BIGINT", "UINTEGER", "UBIGINT", "UHUGEINT", "FLOAT", "DECIMAL(38,0)"],
    "UINTEGER": ["BIGINT", "HUGEINT", "UBIGINT", "FLOAT", "DOUBLE", "DECIMAL(38,0)"],
    "UBIGINT": ["HUGEINT", "UHUGEINT", "FLOAT", "DOUBLE", "DECIMAL(38,0)"],
    "FLOAT": ["DOUBLE"],
    "DECIMAL(5,2)": ["DECIMAL(9,3)", "DECIMAL(18,4)", "DECIMAL(38,10)", "FLOAT", "DOUBLE"],
    "DATE": ["TIMESTAMP", "TIMESTAMP_S", "TIMESTAMP_MS", "TIMESTAMP_NS", "TIMESTAMPTZ"],
    "TIMESTAMP": ["TIMESTAMP_NS", "TIMESTAMPTZ"],
    "TIMESTAMP_S": ["TIMESTAMP", "TIMESTAMP_MS", "TIMESTAMP_NS"],
    "TIMESTAMP_MS": ["TIMESTAMP", "TIMESTAMP_NS"],
}
SAMPLES = {
    "BOOLEAN": "true",
    "DATE": "'2020-02-29'",
    "TIMESTAMP": "'2020-02-29 01:02:03.456789'",
    "TIMESTAMP_S": "'2020-02-29 01:02:03'",
    "TIMESTAMP_MS": "'2020-02-29 01:02:03.456'",
    "DECIMAL(5,2)": "123.45",
}


@pytest.mark.parametrize("inlined", [False, True], ids=["files", "inlined"])
@pytest.mark.parametrize("old", PROMOTIONS)
def test_promotions(make_lake: MakeLake, old: str, inlined: bool) -> None:
    if inlined and old == "BOOLEAN":
        pytest.skip("the extension cannot insert into such a column any more")
    lake = make_lake(data_inlining_row_limit=10 if inlined else 0)
    sample = SAMPLES.get(old, "100")
    targets = PROMOTIONS[old]
    lake.write(
        f"CREATE TABLE t({', '.join(f'c{i} {old}' for i in range(len(targets)))})",
        f"INSERT INTO t VALUES ({', '.join([sample] * len(targets))})",
        f"INSERT INTO t VALUES ({', '.join(['NULL'] * len(targets))})",
    )
    # In one snapshot: every one of them is compared.
    lake.write(
        "BEGIN", *(f"ALTER TABLE t ALTER c{i} SET TYPE {new}" for i, new in enumerate(targets)), "COMMIT"
    )
    lake.write(f"INSERT INTO t VALUES ({', '.join([sample] * len(targets))})")
    assert lake.check("t") > 5


@pytest.mark.parametrize("inlined", [False, True], ids=["files", "inlined"])
def test_promotions_to_json(make_lake: MakeLake, inlined: bool) -> None:
    lake = make_lake(data_inlining_row_limit=10 if inlined else 0)
    lake.write(
        "CREATE TABLE t(a INTEGER, b BOOLEAN, c VARCHAR, d DATE, u UUID)",
        "INSERT INTO t VALUES (1, true, '[1]', '2020-01-01', '550e8400-e29b-41d4-a716-446655440000')",
        *(f"ALTER TABLE t ALTER {name} SET TYPE JSON" for name in "abcdu"),
        "INSERT INTO t VALUES ('1', '2', '3', '4', NULL)",
    )
    lake.check("t")


def test_promotions_twice_and_nested(make_lake: MakeLake) -> None:
    lake = make_lake(data_inlining_row_limit=0)
    lake.write(
        "CREATE TABLE t(a TINYINT, s STRUCT(x INTEGER, l INTEGER[]), m MAP(VARCHAR, DATE))",
        "INSERT INTO t VALUES (1, {'x': 1, 'l': [1, NULL]}, MAP {'k': DATE '2020-01-01'})",
        "ALTER TABLE t ALTER a SET TYPE INTEGER",
        "ALTER TABLE t ALTER s SET TYPE STRUCT(x HUGEINT, l FLOAT[])",
        "INSERT INTO t VALUES (2, {'x': 2, 'l': [2.5]}, NULL), (3, NULL, NULL)",
        "ALTER TABLE t ALTER a SET TYPE FLOAT",
        "ALTER TABLE t ALTER m SET TYPE MAP(VARCHAR, TIMESTAMP)",
        "INSERT INTO t VALUES (2.5, {'x': 3, 'l': NULL}, MAP {'k': TIMESTAMP '2020-01-01 01:00:00'})",
    )
    assert lake.check("t") > 10


@pytest.mark.parametrize("old", ["DECIMAL(5,2)", "DATE", "TIMESTAMP", "BIGINT", "TIMESTAMP_MS"])
def test_columns_that_change_in_the_transaction_of_their_rows(make_lake: MakeLake, old: str) -> None:
    """The files before the change are of the snapshot that has it."""
    lake = make_lake(data_inlining_row_limit=0)
    sample = SAMPLES.get(old, "100")
    names = [f"c{i}" for i in range(len(PROMOTIONS[old]))]
    values = ", ".join([sample] * len(names))
    lake.write(
        f"CREATE TABLE t({', '.join(f'{name} {old}' for name in names)}, s STRUCT(x INTEGER, l {old}[]))",
        f"INSERT INTO t VALUES ({values}, {{'x': 0, 'l': [{sample}]}})",
        "BEGIN",
        f"INSERT INTO t VALUES ({values}, {{'x': 1, 'l': [{sample}, NULL]}})",
        *(
            f"ALTER TABLE t ALTER {name} SET TYPE {new}"
            for name, new in zip(names, PROMOTIONS[old], strict=True)
        ),
        "ALTER TABLE t ADD COLUMN s.y INTEGER DEFAULT 5",
        f"INSERT INTO t VALUES ({values}, {{'x': 2, 'l': [{sample}], 'y': 3}})",
        "ALTER TABLE t ADD COLUMN u UUID DEFAULT '550e8400-e29b-41d4-a716-446655440000'",
        "COMMIT",
        f"INSERT INTO t VALUES ({values}, {{'x': 4, 'l': NULL, 'y': NULL}}, NULL)",
        "DELETE FROM t WHERE s.x = 2",
    )
    assert lake.check("t") > 6
    assert lake.read("t").where("s.y = 5").count() == 2


def test_times_promoted_twice(make_lake: MakeLake) -> None:
    lake = make_lake(data_inlining_row_limit=0)
    steps = {
        "ms": ["TIMESTAMP", "TIMESTAMPTZ"],
        "s": ["TIMESTAMP_MS", "TIMESTAMP", "TIMESTAMPTZ"],
        "n": ["TIMESTAMP", "TIMESTAMP_NS"],
    }
    value = "'2020-02-29 01:02:03'"
    lake.write(
        "CREATE TABLE t(ms TIMESTAMP_MS, s TIMESTAMP_S, n TIMESTAMP_MS)",
        *(
            statement
            for turn in range(3)
            for statement in (
                f"INSERT INTO t VALUES ({value}, {value}, {value}), (NULL, NULL, NULL)",
                *(f"ALTER TABLE t ALTER {name} TYPE {types[turn]}" for name, types in steps.items() if turn < len(types)),
            )
        ),
        f"INSERT INTO t VALUES ({value}, {value}, {value})",
    )  # fmt: skip
    assert lake.check("t") > 10


@pytest.mark.parametrize(("kind", "limit"), [("duckdb", 0), ("duckdb", 10), ("sqlite", 10), ("postgres", 10)])
def test_columns_and_fields_come_and_go(make_lake: MakeLake, kind: str, limit: int) -> None:
    lake = make_lake(kind, data_inlining_row_limit=limit)
    lake.write(
        "CREATE TABLE t(a INTEGER, b VARCHAR, s STRUCT(x INTEGER, y VARCHAR), l STRUCT(q INTEGER)[])",
        "INSERT INTO t VALUES (1, 'one', {'x': 1, 'y': 'y'}, [{'q': 1}, NULL]), (2, NULL, NULL, NULL)",
        "ALTER TABLE t ADD COLUMN c BIGINT DEFAULT 42",
        "ALTER TABLE t ADD COLUMN s.z BIGINT DEFAULT 5",
        "ALTER TABLE t ADD COLUMN l.element.r VARCHAR DEFAULT 'r'",
        "INSERT INTO t VALUES (3, 'three', {'x': 3, 'y': 'y', 'z': NULL}, [{'q': 3, 'r': NULL}], NULL)",
        "ALTER TABLE t DROP COLUMN b",
        "ALTER TABLE t ADD COLUMN b DATE DEFAULT '2020-02-02'",
        "ALTER TABLE t RENAME COLUMN a TO a2",
        "ALTER TABLE t RENAME COLUMN s.x TO x2",
        "ALTER TABLE t DROP COLUMN s.y",
        "ALTER TABLE t ADD COLUMN s.y INTEGER",
        "INSERT INTO t VALUES (4, {'x2': 4, 'z': 4, 'y': 4}, [], 4, NULL)",
        "ALTER TABLE t DROP COLUMN s.x2",
        "ALTER TABLE t DROP COLUMN s.z",
        "INSERT INTO t VALUES (5, {'y': 5}, NULL, 5, NULL)",
    )
    assert lake.check("t") > 30


def test_defaults_of_every_type(make_lake: MakeLake) -> None:
    lake = make_lake(data_inlining_row_limit=0)
    lake.write("CREATE TABLE t(a INTEGER, s STRUCT(x INTEGER))", "INSERT INTO t VALUES (1, {'x': 1})")
    lake.write("BEGIN")
    for i, (type_, text) in enumerate(DEFAULTS.items()):
        lake.write(f"ALTER TABLE t ADD COLUMN c{i} {type_} DEFAULT {text}")
        if type_ not in ("TIMESTAMP_NS", "INTERVAL", "TIMETZ"):
            lake.write(f"ALTER TABLE t ADD COLUMN s.c{i} {type_} DEFAULT {text}")
    lake.write("COMMIT")
    assert lake.check("t") == 2


@pytest.mark.parametrize("kind", ["duckdb", "sqlite"])
def test_columns_of_every_type_over_rows_in_the_catalog(make_lake: MakeLake, kind: str) -> None:
    lake = make_lake(kind)
    lake.write("CREATE TABLE t(a INTEGER)", "INSERT INTO t VALUES (1), (2)", "BEGIN")
    for i, (type_, text) in enumerate(DEFAULTS.items()):
        lake.write(
            f"ALTER TABLE t ADD COLUMN c{i} {type_}", f"ALTER TABLE t ADD COLUMN d{i} {type_} DEFAULT {text}"
        )
    lake.write("ALTER TABLE t ADD COLUMN g GEOMETRY", "COMMIT")
    assert lake.check("t") == 4


def test_a_struct_whose_old_fields_are_all_gone(make_lake: MakeLake) -> None:
    lake = make_lake(data_inlining_row_limit=0)
    lake.write(
        "CREATE TABLE t(a INTEGER, s STRUCT(x INTEGER))",
        "INSERT INTO t VALUES (1, {'x': 1}), (2, NULL)",
        "ALTER TABLE t ADD COLUMN s.y INTEGER",
        "ALTER TABLE t DROP COLUMN s.x",
        "INSERT INTO t VALUES (3, {'y': 3})",
    )
    assert lake.check("t") > 5
