"""What names in FROM mean: tables and views of this lake or another, and tables about tables. The rest is Spark's."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from sqlglot import exp

from ducklake_spark.catalog import ddl
from ducklake_spark.catalog.tables import tables_of
from ducklake_spark.catalog.transaction import Transaction
from ducklake_spark.engine import info
from ducklake_spark.engine.reads import read
from ducklake_spark.engine.scope import scope_of
from ducklake_spark.errors import InvalidInputError, NotFoundError, SnapshotNotFoundError, did_you_mean
from ducklake_spark.format.objects import SchemaDef, TableDef, ViewDef
from ducklake_spark.format.types import duckdb_name, fold
from ducklake_spark.scan.read import VIRTUAL_COLUMNS
from ducklake_spark.sql.execute.session import session_of
from ducklake_spark.sql.resolve.column_stats import column_stats

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from ducklake_spark.api.lake import Lake
    from ducklake_spark.scan.projection.types import TimestampNs

INLINED = "ducklake_inlined_"
METADATA_PREFIX = "__ducklake_metadata_"
MAX_DEPTH = 50
"""Views of views; more is a circle."""


@dataclass(frozen=True)
class Relation:
    """What a name in FROM stands for.

    Args:
        full_name: The lake's name, the schema and the table: what columns may be qualified with.
        virtual: The virtual columns that it can have.
        frame: Its rows, with some of the virtual columns behind them.
    """

    full_name: tuple[str, ...]
    virtual: frozenset[str]
    frame: Callable[[Sequence[str]], DataFrame]
    types: Mapping[str, str] = field(default_factory=dict)
    """DuckDB's names of the types of its columns, where the lake says them."""
    stats: Callable[[Sequence[str]], str | None] = lambda _: None
    """What `stats()` says of a column by the catalog's statistics, where it says anything."""


class NameResolver:
    """The lakes as one statement sees them: each at one snapshot, looked at once.

    Args:
        lake: The lake whose names need no lake in front.
        tx: What the lake looks like; without it, its running transaction or newest snapshot.
        schemas: Where names without a schema are looked for; by default the lake's default schema.
        depth: How many views deep this is.
        timestamp_ns: How nanosecond timestamps are shown.
    """

    def __init__(
        self,
        lake: Lake,
        tx: Transaction | None = None,
        schemas: Sequence[str] = (),
        depth: int = 0,
        timestamp_ns: TimestampNs = "long",
    ) -> None:
        self.lake, self.depth, self._timestamp_ns = lake, depth, timestamp_ns
        # As in DuckDB, what the schema in use does not have is looked for in `main`.
        self.schemas = tuple(schemas) or tuple(dict.fromkeys((lake.default_schema, "main")))
        self._views: dict[int, Transaction] = {} if tx is None else {id(lake): tx}
        if depth > MAX_DEPTH:
            raise InvalidInputError(f"Views are nested more than {MAX_DEPTH} deep: one of them reads itself.")

    def tx(self, lake: Lake) -> Transaction:
        """The one snapshot of a lake that the statement sees."""
        if id(lake) not in self._views:
            self._views[id(lake)] = scope_of(lake).read_transaction()
        return self._views[id(lake)]

    def lake_named(self, name: str) -> Lake | None:
        """This lake or another attached one."""
        return self.lake if fold(name) == fold(self.lake.name) else session_of(self.lake).named(name)

    def at(self, relation_lake: Lake, version: int | None, micros: int | None) -> Lake:
        """A lake at a snapshot, with its own look at it."""
        from datetime import timedelta

        from ducklake_spark.format.objects import EPOCH

        if version is not None:
            return relation_lake.at(version=version)
        assert micros is not None
        return relation_lake.at(timestamp=EPOCH + timedelta(microseconds=micros))

    def candidates(self, parts: Sequence[str]) -> list[tuple[Lake, str, str]]:
        """Lake, schema and name that a name with one, two or three parts can mean, the nearest first."""
        own = self.lake
        if len(parts) == 1:
            found = [(own, schema, parts[0]) for schema in self.schemas]
            temporary = session_of(own).temporary()
            return found if temporary is None else [(temporary, "main", parts[0]), *found]
        if len(parts) == 2:
            found = [(own, parts[0], parts[1])]
            other = self.lake_named(parts[0])
            if other is not None and self.depth == 0 and self.tx(own).schema(parts[0]) is not None:
                raise InvalidInputError(
                    f'"{parts[0]}" is the name of a lake and of a schema. Write all parts: '
                    f'"{own.name}.{parts[0]}.{parts[1]}" or "{parts[0]}.main.{parts[1]}".'
                )
            schemas = self.schemas if other is own else () if other is None else (other.default_schema,)
            return found + [(other, schema, parts[1]) for schema in schemas if other is not None]
        if len(parts) == 3:
            other = self.lake_named(parts[0])
            return [] if other is None else [(other, parts[1], parts[2])]
        return []

    def relation(
        self, parts: Sequence[str], version: int | None = None, micros: int | None = None
    ) -> Relation | None:
        """What a name means, or None when no lake has it.

        Args:
            parts: The parts of the name.
            version: The snapshot to read, if one is given.
            micros: The time to read at, in microseconds since 1970.
        """
        timed = version is not None or micros is not None
        never: SnapshotNotFoundError | None = None
        for lake, schema_name, name in self.candidates(parts):
            try:
                seen = self.at(lake, version, micros) if timed else lake
            except SnapshotNotFoundError as error:
                never = error  # the name may be one of another lake
                continue
            found = self._table_or_view(seen, schema_name, name)
            if found is not None:
                return found
        if never is not None:
            raise never
        if timed:
            return None
        return self._catalog_table(parts) or self._about_table(parts)

    def _table_or_view(self, lake: Lake, schema_name: str, name: str) -> Relation | None:
        tx = self.tx(lake)
        schema = tx.schema(schema_name)
        if schema is None:
            return None
        tx.look_up(schema, name)
        table = tx.table(schema, name)
        full_name = (lake.name, schema.name, name)
        if table is not None:
            own = frozenset(fold(column.name) for column in table.columns)
            frame = self._reader(lake, tx, table)
            types = {column.name: duckdb_name(column.data_type) for column in table.columns}
            if "file_index" not in own:
                types["file_index"] = "UBIGINT"
            stats = functools.partial(column_stats, tx, table)
            return Relation(full_name, frozenset(VIRTUAL_COLUMNS) - own, frame, types, stats)
        view = tx.view(schema, name)
        if view is None:
            return None
        return Relation(full_name, frozenset(), lambda _: self._view_frame(lake, tx, schema.name, view))

    def _reader(self, lake: Lake, tx: Transaction, table: TableDef) -> Callable[[Sequence[str]], DataFrame]:
        return lambda virtual: read(scope_of(lake), tx, table, virtual, self._timestamp_ns)

    def _view_frame(self, lake: Lake, tx: Transaction, schema_name: str, view: ViewDef) -> DataFrame:
        from ducklake_spark.sql.resolve.views import read_view

        return read_view(lake, tx, schema_name, view, self._timestamp_ns, self.depth + 1)

    def _catalog_table(self, parts: Sequence[str]) -> Relation | None:
        """`__ducklake_metadata_lake.ducklake_table`, with or without a schema between."""
        if len(parts) not in (2, 3):
            return None
        for lake in self.lakes_with_metadata(parts[0]):
            known = tables_of(scope_of(lake).store.format)
            if fold(parts[-1]).startswith(INLINED) and fold(parts[-1]) not in known:
                inlined = functools.partial(info.inlined_table, scope_of(lake), parts[-1])
                return Relation((parts[0], parts[-1]), frozenset(), _fixed(inlined))
            if fold(parts[-1]) not in known:
                raise NotFoundError(
                    f'The catalog of lake "{lake.name}" has no table "{parts[-1]}".'
                    f"{did_you_mean(parts[-1], known)}"
                )
            name = fold(parts[-1])
            return Relation((parts[0], name), frozenset(), _fixed(functools.partial(lake.metadata, name)))
        return None

    def lakes_with_metadata(self, catalog: str) -> list[Lake]:
        """The lake whose catalog has this name; none, or one."""
        for each in (self.lake, *session_of(self.lake).lakes()):
            given = scope_of(each).config.metadata_catalog
            if given is not None and fold(given) == fold(catalog):
                return [each]
        if not fold(catalog).startswith(METADATA_PREFIX):
            return []
        lake = self.lake_named(catalog[len(METADATA_PREFIX) :])
        return [] if lake is None else [lake]

    def _about_table(self, parts: Sequence[str]) -> Relation | None:
        """`t.files`, `schema.t.history` and their like."""
        from ducklake_spark.sql.resolve.about import ABOUT

        make = ABOUT.get(fold(parts[-1]))
        if make is None or len(parts) < 2:
            return None
        for lake, schema_name, name in self.candidates(parts[:-1]):
            schema = self.tx(lake).schema(schema_name)
            table = None if schema is None else self.tx(lake).table(schema, name)
            if schema is not None and table is not None:
                tx = self.tx(lake)
                made = functools.partial(make, scope_of(lake), tx, schema, table)
                return Relation(tuple(parts), frozenset(), _fixed(made))
        return None

    def not_found(self, parts: Sequence[str]) -> NotFoundError:
        """The error for a name that neither a lake nor Spark knows, with near names."""
        candidates = self.candidates(parts)
        lake = candidates[0][0] if candidates else self.lake
        tx = self.tx(lake)
        name = ".".join(parts)
        near = self.other_times(parts) or did_you_mean(parts[-1], _names(tx, tx.schemas()))
        return NotFoundError(
            f'There is no table or view "{name}" in the lake "{lake.name}" or in the Spark session.{near}'
        )

    def other_times(self, parts: Sequence[str], version: int | None = None, micros: int | None = None) -> str:
        """Since when or until when a lake has what it does not have at a snapshot."""
        for lake, schema_name, name in self.candidates(parts):
            timed = version is not None or micros is not None
            seen = scope_of(self.at(lake, version, micros)).read_transaction() if timed else self.tx(lake)
            schema = seen.schema(schema_name) or self.tx(lake).schema(schema_name)
            for kind in ("table", "view") if schema is not None else ():
                found = ddl.other_times(seen, kind, name, schema)
                if found:
                    return found
        return ""


def _fixed(make: Callable[[], DataFrame]) -> Callable[[Sequence[str]], DataFrame]:
    return lambda _: make()


def _names(tx: Transaction, schemas: Sequence[SchemaDef]) -> list[str]:
    return [name for schema in schemas for name in (*tx.table_names(schema), *tx.view_names(schema))]


def parts_of(table: exp.Table) -> tuple[str, ...]:
    """The names of a table reference; none for functions and the like."""
    parts: list[exp.Expr] = []
    for part in table.parts:
        parts.extend(_flat(part))
    if not all(isinstance(part, exp.Identifier) for part in parts):
        return ()
    return tuple(part.name for part in parts)


def identifiers_of(table: exp.Table) -> list[exp.Expr]:
    """The identifiers of a table reference in their order."""
    return [each for part in table.parts for each in _flat(part)]


def _flat(part: exp.Expr) -> list[exp.Expr]:
    return [*_flat(part.this), *_flat(part.expression)] if isinstance(part, exp.Dot) else [part]


def cte_of(table: exp.Table) -> exp.CTE | None:
    """The common table expression that a name means: one before it, or itself when recursive."""
    if table.args.get("db") or not isinstance(table.this, exp.Identifier):
        return None
    child: exp.Expr = table
    scope = table.parent
    while scope is not None:
        clause = scope.args.get("with_")
        if isinstance(clause, exp.With):
            inside = child is clause
            for cte in clause.expressions:
                holds = inside and _is_within(table, cte)
                if holds and not clause.args.get("recursive"):
                    break
                if fold(cte.alias) == fold(table.name):
                    assert isinstance(cte, exp.CTE)
                    return cte
                if holds:
                    break
        child, scope = scope, scope.parent
    return None


def _is_within(node: exp.Expr, ancestor: exp.Expr) -> bool:
    current: exp.Expr | None = node
    while current is not None:
        if current is ancestor:
            return True
        current = current.parent
    return False
