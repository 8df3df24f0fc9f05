"""Aggregates of groups that only DuckDB computes: Spark brings the rows of each group together, DuckDB aggregates them.

A query is taken apart into its rows, which Spark reads, filters and joins; the groups, which DuckDB makes in every task
of those that it got; and their order, which is Spark's again. Nothing here runs a query.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import pyspark.sql.types as T
from sqlglot import exp

from ducklake_spark.format.types import fold
from ducklake_spark.sql.duckdb.worker_expressions import is_aggregate, is_parameter

ROWS = "ducklake_rows_of_groups"
GROUPS = "ducklake_groups"
"""The names of the tables between the parts."""
_KEYS = (
    T.IntegralType,
    T.StringType,
    T.DateType,
    T.TimestampType,
    T.TimestampNTZType,
    T.BooleanType,
    T.DecimalType,
)
"""Types whose equal values Spark surely sends to the same task."""
_PARTS = frozenset(
    {"expressions", "from_", "joins", "where", "group", "having", "order", "limit", "offset", "with_"}
)
_REFUSED = (
    exp.Query, exp.Window, exp.Star, exp.Columns, exp.Unnest, exp.Explode, exp.Placeholder, exp.Parameter, exp.Rollup,
    exp.Cube, exp.GroupingSets,
)  # fmt: skip


@dataclass(frozen=True)
class Grouped:
    """A query in parts.

    Args:
        rows: The query for the rows.
        keys: Its columns by whose values rows belong together.
        sql: DuckDB's query over the table `ROWS`, for the rows of one task.
        last: The query over the table `GROUPS` that puts its rows into order; None where they have none.
    """

    rows: exp.Select
    keys: tuple[str, ...]
    sql: str
    last: exp.Select | None


def are_keys(types: Sequence[T.DataType]) -> bool:
    """Whether rows can be brought together by columns of these types."""
    return all(isinstance(each, _KEYS) for each in types)


def split(tree: exp.Expr, schemas: Mapping[str, T.StructType]) -> Grouped | None:
    """The parts of a query; None if it has no groups, or is more than rows, groups and their order.

    Args:
        tree: The query in DuckDB's dialect; it is not changed.
        schemas: The columns of its tables, by the names that these have in the tree.
    """
    group = tree.args.get("group") if isinstance(tree, exp.Select) else None
    if not isinstance(tree, exp.Select) or group is None:
        return None
    if any(value for key, value in tree.args.items() if key not in _PARTS):
        return None
    if any(value for key, value in group.args.items() if key not in ("expressions", "all")):
        return None
    holder = tree.copy()
    if any(node for part in _said(holder) for node in part.find_all(*_REFUSED) if not _is_count(node)):
        return None
    try:
        return _Splitter(holder, schemas).made()
    except _UnclearError:
        return None


def _said(tree: exp.Select) -> list[exp.Expr]:
    clauses = (tree.args.get(key) for key in ("group", "having", "order"))
    return [*tree.expressions, *(clause for clause in clauses if clause is not None)]


def _is_count(node: exp.Expr) -> bool:
    return isinstance(node, exp.Star) and isinstance(node.parent, exp.Count)


class _UnclearError(Exception):
    """What a name means, or which are the keys, is not told by the tree."""


@dataclass
class _Splitter:
    tree: exp.Select
    schemas: Mapping[str, T.StructType]
    columns: dict[str, exp.Expr] = field(default_factory=dict)

    def made(self) -> Grouped:
        own = self._own_names()
        aliases = {
            fold(each.alias): each.this for each in self.tree.expressions if isinstance(each, exp.Alias)
        }
        self.meant = {name: value for name, value in aliases.items() if name not in own} if own else {}
        if not own and any(not each.table and fold(each.name) in aliases for each in self._mentioned()):
            raise _UnclearError
        selected = [self._over_rows(each.unalias()) for each in self.tree.expressions]
        keys = [self._key(each) for each in self._key_nodes()]
        having = self.tree.args.get("having")
        groups = exp.Select(
            expressions=[exp.alias_(each.copy(), f"s{place}") for place, each in enumerate(selected)]
        ).from_(exp.to_table(ROWS))
        groups.set("group", exp.Group(expressions=[self._over_rows(each) for each in keys]))
        if having is not None:
            groups.set("having", exp.Having(this=self._over_rows(having.this)))
        last = self._last(groups, aliases)
        rows = exp.Select(
            expressions=[
                *(exp.alias_(key.copy(), f"g{place}") for place, key in enumerate(keys)),
                *(
                    exp.alias_(column.copy(), f"c{place}")
                    for place, column in enumerate(self.columns.values())
                ),
            ]
        )
        for part in ("from_", "joins", "where", "with_"):
            rows.set(part, self.tree.args.get(part))
        names = tuple(f"g{place}" for place in range(len(keys)))
        return Grouped(rows, names, groups.sql("duckdb"), last)

    def _own_names(self) -> frozenset[str]:
        """The columns of the tables; none where there is more than tables."""
        sources = [self.tree.args.get("from_"), *self.tree.args.get("joins", ())]
        tables = [each.this for each in sources if each is not None]
        if not all(isinstance(table, exp.Table) and table.name in self.schemas for table in tables):
            return frozenset()
        return frozenset(fold(name) for table in tables for name in self.schemas[table.name].names)

    def _mentioned(self) -> list[exp.Column]:
        return [
            each for part in _said(self.tree) for each in part.find_all(exp.Column) if not is_parameter(each)
        ]

    def _key_nodes(self) -> list[exp.Expr]:
        group = self.tree.args["group"]
        if not group.args.get("all"):
            return list(group.expressions)
        return [
            each.unalias()
            for each in self.tree.expressions
            if not any(map(is_aggregate, each.find_all(exp.Func)))
        ]

    def _key(self, node: exp.Expr) -> exp.Expr:
        while isinstance(node, exp.Paren):
            node = node.this
        if isinstance(node, exp.Literal):
            node = self._numbered(node).unalias()
        if isinstance(node, exp.Column) and not node.table and fold(node.name) in self.meant:
            node = self.meant[fold(node.name)]
        if node.find(exp.AggFunc, exp.Tuple) or not node.find(exp.Column):
            raise _UnclearError
        if any(not each.table and fold(each.name) in self.meant for each in node.find_all(exp.Column)):
            raise _UnclearError
        return node

    def _numbered(self, node: exp.Literal) -> exp.Expr:
        if node.is_string or not node.name.isdigit() or not 1 <= int(node.name) <= len(self.tree.expressions):
            raise _UnclearError
        found: exp.Expr = self.tree.expressions[int(node.name) - 1]
        return found

    def _over_rows(self, node: exp.Expr, depth: int = 0) -> exp.Expr:
        """An expression with the columns of the rows."""
        if depth > 10:
            raise _UnclearError
        root = exp.Paren(this=node.copy())
        for column in list(root.find_all(exp.Column)):
            if is_parameter(column):
                continue
            if not column.table and fold(column.name) in self.meant:
                column.replace(
                    exp.paren(self._over_rows(self.meant[fold(column.name)], depth + 1), copy=False)
                )
                continue
            key = column.sql("duckdb")
            self.columns.setdefault(key, column.copy())
            column.replace(exp.column(f"c{list(self.columns).index(key)}"))
        found: exp.Expr = root.this
        return found

    def _last(self, groups: exp.Select, aliases: Mapping[str, exp.Expr]) -> exp.Select | None:
        order, limit, offset = (self.tree.args.get(key) for key in ("order", "limit", "offset"))
        if order is None and limit is None and offset is None:
            return None
        outputs = [f"s{place}" for place in range(len(self.tree.expressions))]
        last = exp.Select(expressions=[exp.column(name) for name in outputs]).from_(exp.to_table(GROUPS))
        ordered: list[exp.Expr] = []
        for each in order.expressions if order is not None else ():
            for name in self._places(each, groups, aliases, outputs):
                made = each.copy()
                made.set("this", exp.column(name))
                ordered.append(made)
        if ordered:
            last.set("order", exp.Order(expressions=ordered))
        last.set("limit", limit)
        last.set("offset", offset)
        return last

    def _places(
        self, each: exp.Expr, groups: exp.Select, aliases: Mapping[str, exp.Expr], outputs: Sequence[str]
    ) -> list[str]:
        """The columns of the groups that one item of ORDER BY means."""
        node = each.this
        if isinstance(node, exp.Var) and node.name.upper() == "ALL":
            return list(outputs)
        if isinstance(node, exp.Literal):
            return [outputs[self.tree.expressions.index(self._numbered(node))]]
        if isinstance(node, exp.Column) and not node.table and fold(node.name) in aliases:
            names = [fold(selected.alias) for selected in self.tree.expressions]
            return [outputs[names.index(fold(node.name))]]
        name = f"k{len(groups.expressions) - len(outputs)}"
        groups.append("expressions", exp.alias_(self._over_rows(node), name))
        return [name]
