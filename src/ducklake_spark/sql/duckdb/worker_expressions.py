"""The parts of a query that only DuckDB evaluates: the smallest scalar expressions that Spark cannot answer alike.

Each becomes a call of a function of Python's workers, whose body is DuckDB's own text of the expression. Everything
around it stays Spark's: the scan with its pruning, filters, joins, aggregation. What cannot be cut out so is said by
`NotSeparableError`: then DuckDB answers the whole query.
"""

from __future__ import annotations

import functools
import itertools
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import pyspark.sql.types as T
from sqlglot import exp

from ducklake_spark.errors import InvalidInputError
from ducklake_spark.format import duckdb_sql
from ducklake_spark.format.types import fold
from ducklake_spark.scan.projection.types import TypeChoices
from ducklake_spark.sql.duckdb import binder
from ducklake_spark.sql.duckdb.dialect import (
    NODE_NUMBER,
    SAME,
    WORKERS,
    UntranslatedError,
    is_call_known,
    plain_calls,
    translate,
)
from ducklake_spark.sql.duckdb.values import restored, shown

_OTHER = frozenset({"hash", "bar"})
"""Functions that Spark could answer, with other values."""
_OTHER_NODES: tuple[type[exp.Expr], ...] = (
    exp.Getbit, exp.FromJson, exp.JSONArray, exp.JSONExtract, exp.JSONExtractScalar, exp.JSONKeys, exp.JSONObject,
    exp.JSONType, exp.Decode, exp.Encode, exp.Factorial, exp.DateBin, exp.TimeFromParts, exp.CosineDistance,
    exp.EuclideanDistance, exp.JarowinklerSimilarity, exp.RegexpSplit, exp.Levenshtein,
)  # fmt: skip
_ODD = re.compile(
    r"TIMESTAMP_NS|INTERVAL|GEOMETRY|VARIANT|TIME\b(?! ZONE)|TIMETZ|TIME_NS|TIME WITH|HUGEINT|UBIGINT|BIT\b|BIGNUM"
    r"|UNION|ENUM|JSON|UUID|NULL|\[\d+\]|TIMESTAMP_S|TIMESTAMP_MS"
)
"""Types that Spark shows as others."""
_ODD_COLUMNS = re.compile(
    r"TIMESTAMP_NS|INTERVAL|GEOMETRY|VARIANT|TIME\b(?! ZONE)|TIMETZ|TIME_NS|TIME WITH|HUGEINT"
)
_ODD_CASTS = re.compile(r"\b(BIT|BIGNUM|TIME_NS|TIMETZ|TIMESTAMP_NS|VARIANT|GEOMETRY|UNION|ENUM)\b|\[\d+\]")
"""Types that Spark takes for texts or lists, which answer otherwise."""
_SPECIAL = re.compile(r"TIMESTAMP_NS|INTERVAL|GEOMETRY|VARIANT")
"""Types whose form in Spark depends on where a value comes from."""
_ENDS = (
    exp.Query, exp.Alias, exp.Ordered, exp.Order, exp.Where, exp.Having, exp.Qualify, exp.Group, exp.Join, exp.From,
    exp.Table, exp.AggFunc, exp.Window, exp.Distinct, exp.Filter, exp.Unnest, exp.Explode, exp.Values, exp.Tuple,
    exp.Lateral, exp.Aliases, exp.IgnoreNulls, exp.RespectNulls, exp.Limit, exp.Offset, exp.WithinGroup, exp.Star,
)  # fmt: skip
"""What an expression stands in."""
_ROWS = (exp.From, exp.Table, exp.Join, exp.Lateral, exp.Values)
"""Where a function makes rows."""
_WHOLE = (exp.Case, exp.If, exp.Coalesce, exp.Or, exp.TryCast, exp.Lambda, exp.Comprehension, exp.Nullif)
"""What decides whether its parts are evaluated: Spark evaluates functions of workers always."""
_CUT = (
    exp.AggFunc, exp.Window, exp.Query, exp.Exists, exp.CurrentTimestamp, exp.CurrentDate, exp.Filter,
    exp.Localtimestamp, exp.CurrentTime,
)  # fmt: skip
"""What stays Spark's inside of such an expression."""
_NOW = frozenset({"now", "today", "get_current_timestamp", "transaction_timestamp"})
_REFUSED = (
    exp.Placeholder,
    exp.Parameter,
    exp.Star,
    exp.Columns,
    exp.Explode,
    exp.Unnest,
    exp.SessionParameter,
)


class NotSeparableError(InvalidInputError):
    """Only the whole query can be given to DuckDB."""


@dataclass(frozen=True)
class Part:
    """An expression for the workers.

    Args:
        name: The function's name in Spark's SQL.
        said: What EXPLAIN shows.
        sql: A query over the table `ducklake_rows` with the arguments c0, c1 and so on.
        type: Spark's type of the answer.
    """

    name: str
    said: str
    sql: str
    type: T.DataType


_numbers = itertools.count()


def translated(
    tree: exp.Expr,
    schemas: Mapping[str, T.StructType],
    declared: Mapping[str, Mapping[str, str]],
    choices: TypeChoices,
    *,
    every_call: bool = False,
) -> tuple[exp.Expr, list[Part]]:
    """A tree for Spark's generator, and the functions that it calls for what only DuckDB evaluates.

    Args:
        tree: A query in DuckDB's dialect; it is not changed.
        schemas: The columns of its tables, by the names that these have in the tree.
        declared: DuckDB's own types of these columns.
        choices: How the session shows types.
        every_call: Whether no scalar function is left to Spark, as it refused one.

    Raises:
        InvalidInputError: Neither Spark nor functions of the workers can answer it.
    """
    plain = plain_calls(tree.copy())
    for number, node in enumerate(plain.walk()):
        if not _is_aggregate(node):  # Spark has it, or DuckDB answers the whole query
            node.meta[NODE_NUMBER] = number
    binder.annotate(plain, schemas, declared)
    forced = frozenset(_calls(plain)) if every_call else frozenset()
    while True:
        made, parts = separate(plain.copy(), schemas, declared, choices, forced)
        try:
            return translate(made, schemas, declared, is_strict=True), parts
        except UntranslatedError as error:
            if error.number is None or error.number in forced:
                raise
            forced |= {error.number}


def _calls(tree: exp.Expr) -> Iterator[int]:
    for node in tree.find_all(exp.Func, exp.Bracket, exp.Binary):
        if isinstance(node, (*_ENDS, exp.Connector, exp.Exists, exp.PropertyEQ, exp.Kwarg, exp.Dot)):
            continue
        if not _is_aggregate(node) and not isinstance(node.parent, (*_ROWS, exp.Window)):
            yield int(node.meta[NODE_NUMBER])


def separate(
    tree: exp.Expr,
    schemas: Mapping[str, T.StructType],
    declared: Mapping[str, Mapping[str, str]],
    choices: TypeChoices,
    forced: frozenset[int] = frozenset(),
) -> tuple[exp.Expr, list[Part]]:
    """The tree with calls in the places of the expressions that the workers evaluate.

    Args:
        tree: A numbered query in DuckDB's dialect; it is changed.
        schemas: The columns of its tables, by the names that these have in the tree.
        declared: DuckDB's own types of these columns.
        choices: How the session shows types.
        forced: The numbers of nodes that Spark cannot answer, beside those that are known by themselves.

    Raises:
        NotSeparableError: An expression cannot be cut out.
    """
    asked = [node for node in tree.walk() if _has_type(node)]
    types = {id(node): kind for node, kind in binder.kinds(tree, schemas, declared, asked)}
    odd = {
        id(node)
        for node in tree.find_all(exp.Column)
        if _ODD_COLUMNS.search(types.get(id(node), "")) and not _is_plain(node)
    }
    tops: dict[int, exp.Expr] = {}
    for node in list(tree.walk()):
        if id(node) in odd or node.meta.get(NODE_NUMBER) in forced or is_other(node):
            top = _top(node, types, forced, odd)
            tops[id(top)] = top
    outer = [node for node in tops.values() if not any(id(each) in tops for each in _ancestors(node))]
    parts: dict[tuple[str, str], tuple[Part, list[exp.Expr]]] = {}
    for node in outer:
        call = _call(tree, node, types, schemas, choices, parts)
        if node is tree:
            tree = call
        else:
            node.replace(call)
    return tree, [part for part, _ in parts.values()]


def _ancestors(node: exp.Expr) -> Iterator[exp.Expr]:
    above = node.parent
    while above is not None:
        yield above
        above = above.parent


def _has_type(node: exp.Expr) -> bool:
    if isinstance(
        node, (exp.Literal, exp.Identifier, exp.DataType, exp.Star, exp.Lambda, exp.Query, exp.Alias)
    ):
        return False
    if isinstance(node, exp.Column):
        return not isinstance(node.this, exp.Star) and not is_parameter(node)
    return isinstance(
        node,
        (
            exp.Func,
            exp.Binary,
            exp.Unary,
            exp.Bracket,
            exp.In,
            exp.Between,
            exp.Case,
            exp.Window,
            exp.Subquery,
        ),
    ) and not isinstance(node, (exp.PropertyEQ, exp.Kwarg, exp.Columns, exp.Unnest, exp.Explode))


def is_other(node: exp.Expr) -> bool:
    """Whether it is a function whose answers Spark does not have."""
    if isinstance(node, _OTHER_NODES):
        return True
    if isinstance(node, exp.Cast):
        return _ODD_CASTS.search(node.to.sql("duckdb")) is not None
    if not isinstance(node, exp.Anonymous):
        return False
    name = node.name.lower()
    if name in _OTHER:
        return True
    if is_call_known(name) or name in SAME:
        return False
    if name in _listed()[1]:
        return False  # an aggregate: Spark has it, or nobody here
    return name in _listed()[0]


@functools.cache
def _listed() -> tuple[frozenset[str], frozenset[str], frozenset[str]]:
    """DuckDB's functions: all, the aggregates, and those that answer differently each time."""
    rows = duckdb_sql.answers(
        "SELECT lower(function_name), function_type, stability, macro_definition FROM duckdb_functions()"
    )
    aggregates = {str(row[0]) for row in rows if row[1] == "aggregate"}
    macros = {str(row[0]): re.findall(r"(\w+)\(", str(row[3]).lower()) for row in rows if row[1] == "macro"}
    while found := {name for name in macros.keys() - aggregates if not aggregates.isdisjoint(macros[name])}:
        aggregates |= found
    return (
        frozenset(str(row[0]) for row in rows if row[1] in ("scalar", "macro")) - aggregates,
        frozenset(aggregates),
        frozenset(str(row[0]) for row in rows if row[2] == "VOLATILE"),
    )


def _is_aggregate(node: exp.Expr) -> bool:
    """Whether it is an aggregate of DuckDB's that sqlglot does not know."""
    return isinstance(node, exp.Anonymous) and node.name.lower() in _listed()[1]


def _is_plain(column: exp.Expr) -> bool:
    """Whether a column stands in a SELECT as it is, or is only compared with NULL."""
    parent = column.parent
    if isinstance(parent, exp.Alias):
        parent = parent.parent
    return isinstance(parent, exp.Is) or (isinstance(parent, exp.Select) and column.arg_key != "group")


def _top(node: exp.Expr, types: Mapping[int, str], forced: frozenset[int], odd: set[int]) -> exp.Expr:
    """The expression that is given to the workers for the sake of a node in it."""
    top = child = node
    while child.parent is not None and not isinstance(child.parent, _ENDS):
        child = child.parent
        if isinstance(child, _WHOLE) or is_other(child) or child.meta.get(NODE_NUMBER) in forced:
            top = child
    while isinstance(top.parent, exp.Expr) and not isinstance(top.parent, _ENDS):
        if id(top) in types and not _ODD.search(types[id(top)]) and id(top) not in odd:
            break
        top = top.parent
    if not isinstance(top, exp.Expr) or not (isinstance(top.parent, _ENDS) or top.parent is not None):
        raise NotSeparableError("The expression is the whole query.")
    _require_place(top, types.get(id(top)))
    return top


def _require_place(top: exp.Expr, kind: str | None) -> None:
    """Refuses places in which Spark cannot have a function of workers, or not a value of the type."""
    end = top.parent
    if kind is None or isinstance(top, exp.Column) or isinstance(end, (exp.Window, exp.Limit, exp.Offset)):
        raise NotSeparableError(f"{top.sql('duckdb')} cannot be evaluated by itself.")
    if "VARIANT" in kind or "GEOMETRY" in kind:
        raise NotSeparableError(f"A {kind} is made in one task.")  # what it becomes depends on who wants it
    inside: exp.Expr | None = top
    while inside is not None and not isinstance(inside, (exp.Select, exp.Join)):
        if isinstance(inside, (exp.Lambda, exp.Comprehension)):
            raise NotSeparableError("A function of workers cannot stand in a lambda.")
        inside = inside.parent
    if isinstance(inside, exp.Join) and (inside.side or inside.kind not in ("", "INNER", "CROSS")):
        raise NotSeparableError("A function of workers cannot be the condition of an outer join.")
    if _ODD.search(kind) and not _is_answer(top):
        raise NotSeparableError(f"A {kind} can only be the answer.")


def _is_answer(top: exp.Expr) -> bool:
    """Whether an expression is a column of the answer, by which nothing is sorted or grouped."""
    name = top.parent.alias if isinstance(top.parent, exp.Alias) else ""
    holder = top.parent.parent if name and top.parent is not None else top.parent
    if not isinstance(holder, exp.Select) or holder.parent is not None or top.arg_key == "group":
        return False
    if any(holder.args.get(key) for key in ("group", "distinct", "qualify", "having")):
        return False
    order = holder.args.get("order")
    return order is None or all(
        isinstance(each.this, exp.Column) and fold(each.this.name) not in ("all", fold(name))
        for each in order.expressions
    )


def _call(
    tree: exp.Expr,
    top: exp.Expr,
    types: Mapping[int, str],
    schemas: Mapping[str, T.StructType],
    choices: TypeChoices,
    parts: dict[tuple[str, str], tuple[Part, list[exp.Expr]]],
) -> exp.Anonymous:
    kind = types[id(top)]
    if isinstance(top, _CUT) or _is_aggregate(top):
        raise NotSeparableError(f"{top.sql('duckdb')} is no scalar expression.")
    args: list[exp.Expr] = []
    inputs: list[str] = []
    made = top.copy()
    twins = {id(copied): node for node, copied in zip(top.walk(), made.walk(), strict=True)}
    root = exp.Paren(this=made)
    for copied in _leaves(made):
        node = twins[id(copied)]
        found = types.get(id(node))
        if found is None:
            raise NotSeparableError(f"The type of {node.sql('duckdb')} is not known.")
        if has_forms(found) and not _is_of_table(tree, node, schemas):
            raise NotSeparableError(f"A {found} out of a query has more than one form.")
        if node not in args:
            args.append(node)
            inputs.append(found)
        copied.replace(exp.column(f"a{args.index(node)}"))
    _require_plain(root)
    text = root.this.sql("duckdb")
    columns = ", ".join(f"{restored(f'c{i}', each)} AS a{i}" for i, each in enumerate(inputs)) or "c0"
    answer = shown("r", kind, choices)
    sql = f"SELECT {answer.expression} AS r FROM (SELECT {text} AS r FROM (SELECT {columns} FROM ducklake_rows))"
    given = [each.copy() for each in args] or [exp.Literal.number(0)]
    key = (sql, repr([each.sql("duckdb") for each in given]))
    if key not in parts:
        said = f"duckdb: {' '.join(text.split())}"
        parts[key] = (Part(f"{WORKERS}{next(_numbers)}", said, sql, answer.type), given)
    call = exp.Anonymous(this=parts[key][0].name, expressions=given)
    call.meta[binder.TYPE] = kind
    return call


def _leaves(made: exp.Expr) -> list[exp.Expr]:
    """What an expression gets from outside: columns, and what only Spark can compute."""
    found: list[exp.Expr] = []
    waiting = [made]
    while waiting:
        node = waiting.pop()
        name = node.name.lower() if isinstance(node, exp.Anonymous) else ""
        is_cut = node is not made and (isinstance(node, _CUT) or name in _NOW or _is_aggregate(node))
        if is_cut or (isinstance(node, exp.Column) and not is_parameter(node)):
            found.append(node)
        else:
            waiting += list(node.iter_expressions())
    return found


def is_parameter(column: exp.Expr) -> bool:
    """Whether a name is the parameter of a lambda around it."""
    first = column.args["table"].name if column.args.get("table") else column.name
    for above in _ancestors(column):
        if isinstance(above, exp.Lambda) and first in [each.name for each in above.expressions]:
            return True
        if isinstance(above, exp.Comprehension) and above.expression.name == first:
            return True
    return False


def _require_plain(root: exp.Expr) -> None:
    for node in root.walk():
        if isinstance(node, _REFUSED) and node is not root:
            raise NotSeparableError(f"{node.sql('duckdb')} cannot be given to the workers.")
        name = node.name.lower() if isinstance(node, exp.Anonymous) else ""
        if (name and name in _listed()[2]) or isinstance(node, (exp.Rand, exp.Uuid)):
            raise NotSeparableError(f"{name}() answers differently each time.")
        if name == "alias":
            raise NotSeparableError("alias() is about the column as the user's text names it.")


def is_aggregate(node: exp.Expr) -> bool:
    """Whether it is a call of an aggregate."""
    return isinstance(node, exp.AggFunc) or _is_aggregate(node)


def has_forms(kind: str) -> bool:
    """Whether the form of a type's values in Spark depends on where they come from."""
    return _SPECIAL.search(kind) is not None


def _is_of_table(tree: exp.Expr, node: exp.Expr, schemas: Mapping[str, T.StructType]) -> bool:
    """Whether a column surely is one of a table as it is stored."""
    selects = list(tree.find_all(exp.Select))
    return (
        isinstance(node, exp.Column)
        and len(selects) == 1
        and any(fold(field.name) == fold(node.name) for schema in schemas.values() for field in schema.fields)
    )
