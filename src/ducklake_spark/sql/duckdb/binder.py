"""DuckDB itself says the types in a query: it binds the query's expressions over tables that have columns but no rows.

Some of DuckDB's answers depend on types that no table of functions could tell completely. What DuckDB cannot bind here
(parameters, names that only Spark knows) stays unknown.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import pyspark.sql.types as T
import sqlglot
from sqlglot import exp

from ducklake_spark.errors import DuckLakeError
from ducklake_spark.format import duckdb_sql
from ducklake_spark.format.types import DataType, Decimal, List, Map, Scalar, Struct, parse_type, quote
from ducklake_spark.sql.parser.grammar_queries import ODD_TREES

TYPE = "ducklake_type"
"""The key under which a node's meta has its type, as DuckDB writes it."""
_TYPED = (
    exp.Func,
    exp.Binary,
    exp.Unary,
    exp.Ordered,
    exp.Bracket,
    exp.In,
    exp.Between,
    exp.Alias,
    exp.Case,
    exp.If,
)
_NOT_TYPED = (
    exp.Literal, exp.Star, exp.Identifier, exp.DataType, exp.Query, exp.Lambda, exp.Order, exp.Distinct, exp.Window,
    exp.Filter, exp.Var, exp.Slice, exp.Table, exp.PropertyEQ, exp.Kwarg, exp.Columns, exp.Tuple, exp.IgnoreNulls,
    exp.Interval, exp.Boolean, exp.Null, exp.Placeholder, exp.Parameter, exp.Connector, exp.Predicate, exp.Values,
    exp.Comprehension, exp.Unnest, exp.Explode, exp.If, exp.Dot,
)  # fmt: skip
_KEPT = ("from_", "joins", "laterals", "windows")
_SCALARS: dict[str, T.DataType] = {
    "boolean": T.BooleanType(), "int8": T.ByteType(), "int16": T.ShortType(), "int32": T.IntegerType(),
    "int64": T.LongType(), "uint8": T.ShortType(), "uint16": T.IntegerType(), "uint32": T.LongType(),
    "uint64": T.LongType(), "int128": T.LongType(), "uint128": T.LongType(), "float32": T.FloatType(),
    "float64": T.DoubleType(), "date": T.DateType(), "timestamp": T.TimestampNTZType(),
    "timestamp_s": T.TimestampNTZType(), "timestamp_ms": T.TimestampNTZType(), "timestamptz": T.TimestampType(),
    "varchar": T.StringType(), "json": T.StringType(), "uuid": T.StringType(), "time": T.StringType(),
    "blob": T.BinaryType(), "interval": T.DayTimeIntervalType(),
}  # fmt: skip
_NAMES: Mapping[type[T.DataType], str] = {
    T.BooleanType: "BOOLEAN", T.ByteType: "TINYINT", T.ShortType: "SMALLINT", T.IntegerType: "INTEGER",
    T.LongType: "BIGINT", T.FloatType: "FLOAT", T.DoubleType: "DOUBLE", T.StringType: "VARCHAR",
    T.BinaryType: "BLOB", T.DateType: "DATE", T.TimestampType: "TIMESTAMP WITH TIME ZONE",
    T.TimestampNTZType: "TIMESTAMP", T.NullType: "INTEGER", T.DayTimeIntervalType: "INTERVAL",
    T.YearMonthIntervalType: "INTERVAL",
}  # fmt: skip


def annotate(
    tree: exp.Expr,
    schemas: Mapping[str, T.StructType],
    declared: Mapping[str, Mapping[str, str]] | None = None,
) -> None:
    """Puts the types of arguments and operands into their nodes' meta.

    Args:
        tree: A query in DuckDB's dialect.
        schemas: The columns of its tables, by the names that these have in the tree.
        declared: DuckDB's own types of columns, where they are known, by table and column.
    """
    for node, kind in kinds(tree, schemas, declared, [node for node in tree.walk() if _is_wanted(node)]):
        node.meta[TYPE] = kind
    copies = _bound(tree, schemas, declared)
    for call in tree.find_all(exp.Typeof):
        name = _name_of_type(copies[id(call)])
        if name is not None:
            call.meta[TYPE] = name


def kinds(
    tree: exp.Expr,
    schemas: Mapping[str, T.StructType],
    declared: Mapping[str, Mapping[str, str]] | None,
    nodes: Sequence[exp.Expr],
) -> Iterator[tuple[exp.Expr, str]]:
    """The types of nodes of a tree, as DuckDB writes them; those that it can bind.

    Args:
        tree: A query in DuckDB's dialect.
        schemas: The columns of its tables, by the names that these have in the tree.
        declared: DuckDB's own types of columns, where they are known, by table and column.
        nodes: Expressions in it.
    """
    copies = _bound(tree, schemas, declared)
    by_select: dict[int, tuple[exp.Expr | None, list[exp.Expr]]] = {}
    for node in nodes:
        select = copies[id(node)].find_ancestor(exp.Select)
        by_select.setdefault(id(select), (select, []))[1].append(node)
    for scope, own in by_select.values():
        for node, kind in zip(own, _types(scope, [copies[id(node)] for node in own]), strict=True):
            if kind is not None:
                yield node, kind


def _bound(
    tree: exp.Expr, schemas: Mapping[str, T.StructType], declared: Mapping[str, Mapping[str, str]] | None
) -> dict[int, exp.Expr]:
    """The nodes of a copy of the tree by the ids of the originals; there tables are rows of the right types."""
    bound = tree.copy()
    copies = {id(node): copied for node, copied in zip(tree.walk(), bound.walk(), strict=True)}
    for table in list(bound.find_all(exp.Table)):
        schema = schemas.get(table.name)
        if schema is not None and not table.args.get("db"):
            rows = sqlglot.parse_one(_empty(schema, (declared or {}).get(table.name, {})), read="duckdb")
            alias = table.args.get("alias") or exp.TableAlias(this=exp.to_identifier(table.name))
            table.replace(exp.Subquery(this=rows, alias=alias, joins=table.args.get("joins")))
    return copies


def _is_wanted(node: exp.Expr) -> bool:
    parent = node.parent
    if not isinstance(parent, _TYPED) or node.arg_key == "alias":
        return False
    if isinstance(node, exp.Identifier):  # a parameter of a lambda
        return not isinstance(parent, exp.Dot)
    return not isinstance(node, _NOT_TYPED)


def _empty(schema: T.StructType, declared: Mapping[str, str]) -> str:
    parts = [
        f"NULL::{kind} AS {quote(field.name)}"
        for field in schema.fields
        if (kind := declared.get(field.name) or duckdb_type(field.dataType)) is not None
    ]
    return f"SELECT {', '.join(parts) or 'NULL AS ducklake_nothing'}"


def duckdb_type(kind: T.DataType) -> str | None:
    """DuckDB's name of a type of Spark; None where there is none."""
    if isinstance(kind, T.DecimalType):
        return f"DECIMAL({kind.precision},{kind.scale})"
    if isinstance(kind, T.ArrayType):
        element = duckdb_type(kind.elementType)
        return None if element is None else f"{element}[]"
    if isinstance(kind, T.MapType):
        key, value = duckdb_type(kind.keyType), duckdb_type(kind.valueType)
        return None if key is None or value is None else f"MAP({key}, {value})"
    if isinstance(kind, T.StructType):
        fields = [(field.name, duckdb_type(field.dataType)) for field in kind.fields]
        if not fields or any(part is None for _, part in fields):
            return None
        return f"STRUCT({', '.join(f'{quote(name)} {part}' for name, part in fields)})"
    return _NAMES.get(type(kind))


def spark_type(name: str) -> T.DataType | None:
    """The type of Spark that stands for one of DuckDB; None for what has none."""
    try:
        return _spark(parse_type(name))
    except DuckLakeError:
        return None


def _spark(kind: DataType) -> T.DataType | None:
    match kind:
        case Decimal(precision, scale):
            return T.DecimalType(precision, scale)
        case List(element):
            return T.ArrayType(_spark(element) or T.NullType())
        case Map(key, value):
            return T.MapType(_spark(key) or T.NullType(), _spark(value) or T.NullType())
        case Struct(fields):
            return T.StructType([T.StructField(name, _spark(part) or T.NullType()) for name, part in fields])
        case Scalar(name):
            return _SCALARS.get(name)


# Questions to DuckDB.


@dataclass(frozen=True)
class _Open:
    """An expression out of lambdas, whose parameters are columns now, with the types of these."""

    value: exp.Expr
    parameters: Mapping[str, str]


def _types(scope: exp.Expr | None, nodes: Sequence[exp.Expr]) -> Iterator[str | None]:
    plain = [_Open(node, {}) for node in nodes if _lambda_of(node) is None]
    found = _described(scope, plain) if scope is None or not scope.find(exp.AggFunc) else None
    together = dict(zip((id(each.value) for each in plain), found or (), strict=False))
    for node in nodes:
        if id(node) in together:
            yield together[id(node)]
        else:
            alone = _described(scope, [_opened(node)])
            yield alone[0] if alone else None


def _described(scope: exp.Expr | None, values: Sequence[_Open]) -> list[str] | None:
    if not values:
        return []
    named = [exp.alias_(each.value.copy(), "ducklake_value") for each in values]
    rows = _ask(scope, named, {key: kind for each in values for key, kind in each.parameters.items()})
    return None if rows is None else [str(row[1]) for row in rows[-len(values) :]]


def _name_of_type(call: exp.Expr) -> str | None:
    """What `typeof()` answers."""
    value = call.this
    if value.find(exp.Null, exp.Array, exp.ToMap) and not value.find(exp.Column, exp.Subquery, exp.Lambda):
        try:  # DESCRIBE calls a NULL an INTEGER
            return str(duckdb_sql.answers(f"SELECT typeof({value.sql('duckdb')})")[0][0])
        except (DuckLakeError, *ODD_TREES):
            return None
    found = _described(call.find_ancestor(exp.Select), [_opened(value)])
    return found[0] if found else None


def _ask(
    scope: exp.Expr | None, values: Sequence[exp.Expr], parameters: Mapping[str, str]
) -> list[tuple[object, ...]] | None:
    """What DuckDB says about values where `scope` selects; None if it cannot bind them.

    First with the names that the SELECT gives, which the values may use.
    """
    named = [each for each in scope.expressions if isinstance(each, exp.Alias)] if scope is not None else []
    for others in (named, []) if named else ([],):
        select = exp.Select(expressions=[each.copy() for each in (*others, *values)])
        for key in _KEPT if scope is not None else ():
            part = scope.args.get(key) if scope is not None else None
            if part is not None:
                select.set(key, [each.copy() for each in part] if isinstance(part, list) else part.copy())
        if parameters:
            columns = ", ".join(f"NULL::{kind} AS {quote(name)}" for name, kind in parameters.items())
            select = _beside(select, f"(SELECT {columns}) AS ducklake_parameters")
        try:
            return duckdb_sql.answers(f"DESCRIBE {_with(scope)}{select.sql('duckdb')}")
        except (DuckLakeError, *ODD_TREES):
            continue
    return None


def _beside(select: exp.Select, rows: str) -> exp.Select:
    if select.args.get("from_") is None:
        return select.from_(rows, dialect="duckdb", copy=False)
    return select.join(rows, join_type="cross", dialect="duckdb", copy=False)


def _with(scope: exp.Expr | None) -> str:
    """The common table expressions that a SELECT sees."""
    found: list[exp.Expr] = []
    while scope is not None:
        clause = scope.args.get("with_")
        found = [*(clause.expressions if clause is not None else ()), *found]
        scope = scope.parent
    return f"WITH RECURSIVE {', '.join(each.sql('duckdb') for each in found)} " if found else ""


# Lambdas.


def _lambda_of(node: exp.Expr) -> exp.Expr | None:
    """What gives names to the elements of a list around the node."""
    child, above = node, node.parent
    while above is not None:
        if isinstance(above, exp.Lambda) or (
            isinstance(above, exp.Comprehension) and child.arg_key != "iterator"
        ):
            return above
        child, above = above, above.parent
    return None


def _opened(node: exp.Expr) -> _Open:
    made, around = node.copy(), _lambda_of(node)
    found: dict[str, str] = {}
    while around is not None:
        for name, kind in _parameters(around):
            key = f"ducklake_parameter{len(found)}"
            found[key] = kind
            for each in list(made.find_all(exp.Identifier)):
                top = each.parent if isinstance(each.parent, exp.Column) else each
                first = not isinstance(top.parent, exp.Dot) or top.arg_key == "this"
                if each.name != name or not first or (isinstance(top, exp.Column) and top.table):
                    continue
                if top is made:
                    made = exp.column(key)
                else:
                    top.replace(exp.column(key))
        around = _lambda_of(around)
    return _Open(made, found)


def _parameters(around: exp.Expr) -> Iterator[tuple[str, str]]:
    call = around.parent
    if isinstance(around, exp.Comprehension):
        items, names = around.args["iterator"], [around.expression.name]
    elif call is not None:
        items = call.expressions[0] if isinstance(call, exp.Anonymous) else call.this
        names = [each.name for each in around.expressions]
    if call is None or not isinstance(items, exp.Expr):
        return
    found = _described(items.find_ancestor(exp.Select), [_opened(items)])
    if not found or not found[0].endswith("[]"):
        return
    element = found[0][:-2]
    folds = isinstance(call, exp.Reduce) or (
        isinstance(call, exp.Anonymous) and "reduce" in call.name.lower()
    )
    yield from zip(names, [element, element, "BIGINT"] if folds else [element, "BIGINT"], strict=False)
