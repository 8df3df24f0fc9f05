"""Nested columns over rows in the catalog: added, changed, dropped and added again, as the extension reads them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from tests.interop import catalogs
from tests.interop.oracle import Oracle
from tests.scan.lakes import in_order, plain
from tests.write.lakes import WrittenLake

pytestmark = [pytest.mark.spark, pytest.mark.usefixtures("interpreted")]

KINDS = ["duckdb", "sqlite", "postgres"]


@dataclass(frozen=True)
class Shape:
    """A type as a tree: a scalar, or the parts of a container by name."""

    kind: str
    parts: tuple[tuple[str, Shape], ...] = ()

    @property
    def sql(self) -> str:
        parts = [part.sql for _, part in self.parts]
        if self.kind == "list":
            return f"{parts[0]}[]"
        if self.kind == "map":
            return f"MAP({', '.join(parts)})"
        if self.kind == "struct":
            return f"STRUCT({', '.join(f'{name} {part.sql}' for name, part in self.parts)})"
        return self.kind

    def value(self, seed: int) -> str:
        """A value; some seeds give NULL and empty ones at some depth."""
        if seed % 7 == 3:
            return "NULL"
        parts = [part.value(seed * 3 + place) for place, (_, part) in enumerate(self.parts)]
        if self.kind == "list":
            return "[]" if seed % 5 == 4 else f"[{parts[0]}, {self.parts[0][1].value(seed + 2)}]"
        if self.kind == "map":
            return "MAP {}" if seed % 5 == 4 else f"MAP {{{SCALARS[self.parts[0][1].kind][0]}: {parts[1]}}}"
        if self.kind == "struct":
            named = (f"'{name}': {part}" for (name, _), part in zip(self.parts, parts, strict=True))
            return f"{{{', '.join(named)}}}"
        samples = SCALARS[self.kind]
        return samples[seed % len(samples)]

    def structs(self, path: str) -> Iterator[tuple[str, Shape]]:
        """The structs inside and their paths, outermost first."""
        if self.kind == "struct":
            yield path, self
        for name, part in self.parts:
            inner = {"list": "element"}.get(self.kind, name)
            yield from part.structs(f"{path}.{inner}")

    def changed(self, change: Callable[[Shape], Shape]) -> Shape:
        """The same tree with each node changed, innermost first."""
        return change(replace(self, parts=tuple((name, part.changed(change)) for name, part in self.parts)))


SCALARS = {
    "TINYINT": ["1", "-2"],
    "INTEGER": ["1", "-70000"],
    "BIGINT": ["1", "-70000"],
    "VARCHAR": ["'a'", "'a, b {\"x\"}'", "''", "'NULL'"],
    "DECIMAL(9,2)": ["1.25", "-0.5"],
    "UBIGINT": ["18446744073709551615"],
    "HUGEINT": ["170141183460469231731687303715884"],
    "BOOLEAN": ["true", "false"],
    "DOUBLE": ["1.5", "-2e300"],
    "TIMESTAMP": ["TIMESTAMP '2020-02-29 01:02:03.5'"],
    "DATE": ["DATE '2020-02-29'"],
    "UUID": ["UUID '550e8400-e29b-41d4-a716-446655440000'"],
    "BLOB": ["'\\xAA\\x00b'::BLOB"],
    "TIME": ["TIME '12:34:56.5'"],
    "JSON": ["'{\"a\": [1, 2]}'::JSON"],
}


def scalar(kind: str) -> Shape:
    return Shape(kind)


def struct(**parts: Shape | str) -> Shape:
    return Shape("struct", tuple((n, Shape(p) if isinstance(p, str) else p) for n, p in parts.items()))


def list_of(part: Shape | str) -> Shape:
    return Shape("list", (("element", Shape(part) if isinstance(part, str) else part),))


def map_of(key: str, value: Shape | str) -> Shape:
    return Shape("map", (("key", Shape(key)), ("value", Shape(value) if isinstance(value, str) else value)))


SHAPES = [
    struct(i="INTEGER", j=struct(c1="TINYINT", c2=list_of("INTEGER")), k="INTEGER"),
    list_of("INTEGER"),
    list_of(list_of("VARCHAR")),
    list_of(struct(a="VARCHAR", b="INTEGER")),
    map_of("VARCHAR", "INTEGER"),
    map_of("INTEGER", struct(a="INTEGER", b=list_of("INTEGER"))),
    map_of("VARCHAR", map_of("INTEGER", "UBIGINT")),
    list_of(map_of("VARCHAR", list_of("INTEGER"))),
    struct(a=map_of("VARCHAR", "INTEGER"), b=struct(x=struct(y="INTEGER", z="DECIMAL(9,2)"))),
    struct(a="UBIGINT", b="HUGEINT", e="BOOLEAN", g="DOUBLE"),
]
RICH = [
    struct(a="DATE", b="UUID", c="BLOB", d="TIME", e="TIMESTAMP"),
    list_of(struct(a="UUID", b=list_of(struct(x="UBIGINT", y="DATE")))),
    map_of("DATE", struct(a="BLOB", b="JSON")),
]
"""Types whose values in structs the extension can write to its own DuckDB files only: elsewhere it cannot read them."""


FEW = [SHAPES[0], SHAPES[3], SHAPES[5]]


def with_fields(node: Shape) -> Shape:
    return replace(node, parts=(*node.parts, *ADDED)) if node.kind == "struct" else node


def without_second(node: Shape) -> Shape:
    if node.kind != "struct":
        return node
    (name, first), *rest = node.parts
    return replace(node, parts=((f"{name}_renamed", first), *rest[1:]))


def promoted(node: Shape) -> Shape:
    return replace(node, kind={"INTEGER": "BIGINT", "DATE": "TIMESTAMP"}.get(node.kind, node.kind))


def grown(node: Shape) -> Shape:
    if node.kind != "struct":
        return node
    # No stored field: of structs that have none left, the extension takes some NULLs for structs and the other way round.
    kept = [(name, part) for name, part in node.parts if name != "new_m"]
    return replace(node, parts=(*kept, ("late", list_of(struct(q="VARCHAR")))))


ADDED = (
    ("new_d", scalar("VARCHAR")),
    ("new_n", struct(p="INTEGER", q=list_of("INTEGER"))),
    ("new_m", map_of("VARCHAR", "INTEGER")),
)


def steps(given: Sequence[Shape]) -> Iterator[list[str]]:
    """Transactions, one list of statements each."""
    old = {f"o{i}": shape for i, shape in enumerate(given)}
    new = {f"n{i}": shape for i, shape in enumerate(given)}
    shapes = dict(old)
    key = 0

    def insert() -> list[str]:
        nonlocal key
        rows = []
        for _ in range(4):
            key += 1
            rows.append(
                f"({', '.join([str(key), *(shape.value(key + i) for i, shape in enumerate(shapes.values()))])})"
            )
        return [f"INSERT INTO t VALUES {', '.join(rows)}"]

    def alter(change: Callable[[Shape], Shape], statements: Callable[[str, Shape], list[str]]) -> list[str]:
        made = [text for name, shape in shapes.items() for text in statements(name, shape)]
        shapes.update({name: shape.changed(change) for name, shape in shapes.items()})
        return [f"ALTER TABLE t {text}" for text in made]

    yield [f"CREATE TABLE t(k INTEGER, {', '.join(f'{name} {shape.sql}' for name, shape in old.items())})"]
    yield insert()
    yield [f"ALTER TABLE t ADD COLUMN {name} {shape.sql}" for name, shape in new.items()]
    shapes.update(new)
    yield insert()
    yield alter(
        with_fields,
        lambda name, shape: [
            f"ADD COLUMN {path}.{field} {part.sql}" + (" DEFAULT 'it''s'" if part.kind == "VARCHAR" else "")
            for path, _ in shape.structs(name)
            for field, part in ADDED
        ],
    )
    yield insert()
    yield alter(
        without_second,
        lambda name, shape: [
            text
            for path, node in reversed(list(shape.structs(name)))
            for text in (
                f"RENAME COLUMN {path}.{node.parts[0][0]} TO {node.parts[0][0]}_renamed",
                f"DROP COLUMN {path}.{node.parts[1][0]}",
            )
        ],
    )
    yield [*insert(), "DELETE FROM t WHERE k % 4 = 1 AND k < 8"]
    yield alter(promoted, lambda name, shape: [f"ALTER {name} SET TYPE {shape.changed(promoted).sql}"])
    yield [*insert(), f"UPDATE t SET n0 = {shapes['n0'].value(1)}, o2 = NULL WHERE k IN (2, 6, 10)"]
    yield alter(grown, lambda name, shape: [f"ALTER {name} SET TYPE {shape.changed(grown).sql}"])
    yield insert()
    yield [f"ALTER TABLE t DROP COLUMN {name}" for name in new]
    for name in new:
        del shapes[name]
    turned = dict(zip(new, [*given[1:], given[0]], strict=True))
    yield [f"ALTER TABLE t ADD COLUMN {name} {shape.sql}" for name, shape in turned.items()]
    shapes.update(turned)
    yield insert()


def in_pairs(given: Sequence[Shape]) -> list[list[str]]:
    """The same with two steps to a transaction: rows whose columns change before they are committed."""
    first, *rest = steps(given)
    return [first, *(one + other for one, other in zip(rest[::2], rest[1::2], strict=True))]


class NestedLake(WrittenLake):
    def check_versions(self, pending: Mapping[int, list[str]] | None = None) -> int:
        """Both sides read the same rows at every snapshot, and those of ours before the commit. Returns how many."""
        found = self.ask(
            "SELECT snapshot_id FROM ducklake_snapshots('lake') WHERE snapshot_id > 0 ORDER BY 1"
        )
        versions = [row[0] for row in found]
        theirs = {v: self.ask(f"SELECT * FROM t AT (VERSION => {v}) ORDER BY k") for v in versions}
        for version, rows in theirs.items():
            frame = self.ours.table("t", version=version).orderBy("k")
            mine = frame.collect()
            if pending:
                assert in_order(mine) == pending[version], f"before version {version} was committed"
            assert [row.k for row in mine] == [row[0] for row in rows], f"at version {version}"
            for place, name in enumerate(frame.columns):
                ours = {row.k: repr(plain(row[place])) for row in mine}
                assert ours == {row[0]: repr(plain(row[place])) for row in rows}, f"{name} at {version}"
        return sum(map(len, theirs.values()))

    def check_feed(self) -> int:
        """Both sides show the same changes in all snapshots. Returns how many."""
        last = self.ours.version
        theirs = in_order(self.ask(f"FROM ducklake_table_changes('lake', 'main', 't', 1, {last})"))
        assert in_order(self.ours.table_changes("t", 1, last).collect()) == theirs
        return len(theirs)


@pytest.fixture
def make_nested(
    oracle: Oracle, spark: SparkSession, make_location: Callable[[str], str], tmp_path: Path
) -> Iterator[Callable[[str, str], NestedLake]]:
    made: list[NestedLake] = []

    def make(kind: str, name: str) -> NestedLake:
        uri = make_location(kind) if kind == "postgres" else f"ducklake:{kind}:{tmp_path / f'{name}.{kind}'}"
        made.append(NestedLake(oracle, spark, uri, tmp_path / "data"))
        return made[-1]

    yield make
    for lake in made:
        lake.close()


@pytest.mark.parametrize("kind", KINDS)
def test_nested_columns_over_rows_of_the_extension(
    make_nested: Callable[[str, str], NestedLake], kind: str
) -> None:
    lake = make_nested(kind, "theirs")
    for statements in steps([*SHAPES, *RICH] if kind == "duckdb" else SHAPES):
        lake.ask("; ".join(["BEGIN", *statements, "COMMIT"]))
    assert lake.check_versions() > 50
    assert lake.check_feed() > 20


@pytest.mark.parametrize("kind", KINDS)
def test_nested_columns_over_rows_of_ours(make_nested: Callable[[str, str], NestedLake], kind: str) -> None:
    lake = make_nested(kind, "ours")
    pending = {}
    for statements in in_pairs([*FEW, RICH[1]]):
        with lake.ours.transaction():
            for statement in statements:
                lake.ours.sql(statement, dialect="duckdb")
            rows = in_order(lake.ours.table("t").collect())
        pending[lake.ours.version] = rows
    assert lake.check_versions(pending) > 50
    assert lake.check_feed() > 20


def test_nested_columns_leave_the_catalog_of_the_extension(
    make_nested: Callable[[str, str], NestedLake],
) -> None:
    # Elsewhere the texts of structs differ in quotes that mean nothing.
    ours, theirs = make_nested("duckdb", "ours"), make_nested("duckdb", "theirs")
    for statements in steps(FEW):
        theirs.ask("; ".join(["BEGIN", *statements, "COMMIT"]))
    theirs.close()
    for statements in steps(FEW):
        with ours.ours.transaction():
            for statement in statements:
                ours.ours.sql(statement, dialect="duckdb")
    catalogs.assert_same(ours.catalog(), theirs.catalog())
