"""Macros of the lake in queries: a call is replaced by the macro's own text, with the arguments in their places."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

from sqlglot import exp

from ducklake_spark.errors import InvalidInputError
from ducklake_spark.format.duckdb_sql import CATALOG_TOKEN
from ducklake_spark.format.names import ticked
from ducklake_spark.format.objects import MacroDef, MacroImpl, MacroParameter
from ducklake_spark.format.types import Scalar, duckdb_name, fold, quote
from ducklake_spark.sql.parser.grammar_queries import parse_query_text
from ducklake_spark.sql.parser.outside import require_rows_only
from ducklake_spark.sql.resolve.names import NameResolver
from ducklake_spark.sql.resolve.table_functions import Span, Spans, call_parts, function_name

if TYPE_CHECKING:
    from ducklake_spark.api.lake import Lake

_MAX_CALLS = 1000
"""Macros in macros; more is a circle."""
_ARGUMENT = "__ducklake_argument_"


def expand(resolver: NameResolver, root: exp.Expr, dialect: str, spans: Spans) -> list[tuple[Span, exp.Expr]]:
    """Replaces every call of a macro of the lake.

    Returns:
        The places of calls in the text, with what stands there now.
    """
    made: list[tuple[Span, exp.Expr]] = []
    for _ in range(_MAX_CALLS):
        found = next(_calls(resolver, root), None)
        if found is None:
            return made
        lake, macro, node, called, qualifiers = found
        span = spans.of_call(called, qualifiers)
        fresh = _expanded(lake, macro, called, dialect)
        if macro.is_table and isinstance(fresh, exp.Query):
            fresh = _in_from(node, fresh, macro.name)
        node.replace(fresh)
        if span is not None:
            made.append((span, fresh))
    raise InvalidInputError("A macro of the lake calls itself, which has no end.")


def text_of(node: exp.Expr) -> str:
    """What stands in Spark's text where the call was."""
    if not isinstance(node, exp.Subquery):  # a scalar macro
        return node.sql(dialect="spark")
    text = f"({node.this.sql(dialect='spark')})"
    name = node.meta.get("ducklake_macro")
    return text if name is None else f"({text} AS {ticked(name)})"


def _calls(
    resolver: NameResolver, root: exp.Expr
) -> Iterator[tuple[Lake, MacroDef, exp.Expr, exp.Expr, list[exp.Expr]]]:
    """Calls of macros, outer ones first: the lake, the macro, the node to replace, the call and its qualifiers."""
    for called in root.find_all(exp.Func):
        node: exp.Expr = called
        qualifiers: list[exp.Expr] = []
        parent = called.parent
        in_from = isinstance(parent, exp.Table) and parent.this is called
        if in_from:
            assert parent is not None
            qualifiers = [part for key in ("catalog", "db") if (part := parent.args.get(key)) is not None]
            node = parent
        elif isinstance(parent, exp.Dot) and parent.expression is called:
            qualifiers = list(parent.this.flatten()) if isinstance(parent.this, exp.Dot) else [parent.this]
            node = parent
        lake_macro = _macro(resolver, called, [each.name for each in qualifiers], table=in_from)
        if lake_macro is not None:
            yield *lake_macro, node, called, qualifiers


def _macro(
    resolver: NameResolver, called: exp.Expr, qualifiers: Sequence[str], *, table: bool
) -> tuple[Lake, MacroDef] | None:
    names = [function_name(called)]
    if not isinstance(called, exp.Anonymous) and isinstance(called, exp.Func):
        names += called.sql_names()
    for lake, schema_name, name in resolver.candidates([*qualifiers, names[0]]):
        tx = resolver.tx(lake)
        schema = tx.schema(schema_name)
        if schema is None:
            continue
        wanted = {fold(each) for each in (name, *names)}
        for macro in tx.macros(schema):
            if macro.is_table == table and fold(macro.name) in wanted:
                return lake, macro
    return None


def _expanded(lake: Lake, macro: MacroDef, called: exp.Expr, dialect: str) -> exp.Expr:
    positional: list[exp.Expr] = []
    named: dict[str, exp.Expr] = {}
    for part in call_parts(called):
        if isinstance(part, (exp.Kwarg, exp.PropertyEQ)):
            named[fold(part.this.name)] = part.expression
        else:
            positional.append(part)
    impl = _overload(macro, positional, named)
    values = _values(impl, positional, named)
    for text in (impl.sql, *(each.default_value or "" for each in impl.parameters)):
        require_rows_only(text, "duckdb")
    body = parse_query_text(impl.sql.replace(CATALOG_TOKEN, quote(lake.name)), "duckdb")
    for node in body.walk():
        node.meta.clear()
    body = _substitute(body, {key: exp.column(_ARGUMENT + key, quoted=True) for key in values})
    if dialect != "duckdb" and impl.dialect == "duckdb":
        from ducklake_spark.sql.duckdb.dialect import translate

        body = translate(body)
    body = _substitute(body, {_ARGUMENT + key: value for key, value in values.items()})
    return body if macro.is_table else exp.Paren(this=body)


def _overload(macro: MacroDef, positional: Sequence[exp.Expr], named: Mapping[str, exp.Expr]) -> MacroImpl:
    for impl in macro.impls:
        names = [fold(parameter.name) for parameter in impl.parameters]
        if len(positional) > len(names) or any(name not in names[len(positional) :] for name in named):
            continue
        rest = impl.parameters[len(positional) :]
        if all(fold(each.name) in named or each.default_value is not None for each in rest):
            return impl
    shown = " or ".join(
        f"{macro.name}({', '.join(parameter.name for parameter in impl.parameters)})" for impl in macro.impls
    )
    count = len(positional) + len(named)
    raise InvalidInputError(
        f"The arguments of the macro {macro.name} do not fit: it is {shown}, not with {count}."
    )


def _values(
    impl: MacroImpl, positional: Sequence[exp.Expr], named: Mapping[str, exp.Expr]
) -> dict[str, exp.Expr]:
    values: dict[str, exp.Expr] = {}
    for place, parameter in enumerate(impl.parameters):
        key = fold(parameter.name)
        given = positional[place] if place < len(positional) else named.get(key)
        values[key] = _default(parameter) if given is None else given
    return values


def _default(parameter: MacroParameter) -> exp.Expr:
    value = exp.Literal.string(parameter.default_value or "")
    if parameter.default_value_type in ("varchar", "unknown"):
        return value
    kind = parameter.default_value_type
    # `decimal(2,1)` is a type's name in DuckDB as it is; the format's `int32` is not.
    return exp.cast(value, kind if "(" in kind else duckdb_name(Scalar(kind)), dialect="duckdb")


def _substitute(body: exp.Expr, values: Mapping[str, exp.Expr]) -> exp.Expr:
    def change(node: exp.Expr) -> exp.Expr:
        if isinstance(node, exp.Column) and not node.table:
            value = values.get(fold(node.name))
            if value is not None:
                copied = value.copy()
                plain = isinstance(
                    copied, (exp.Literal, exp.Column, exp.Paren, exp.Func, exp.Boolean, exp.Null)
                )
                return copied if plain else exp.Paren(this=copied)
        return node

    return body.transform(change)


def _in_from(table: exp.Expr, query: exp.Query, name: str) -> exp.Subquery:
    """A table macro's query in the place of its call, with all that followed the call."""
    made = exp.Subquery(this=query)
    alias = table.args.get("alias")
    if alias is None:
        alias = exp.TableAlias(this=exp.to_identifier(name, quoted=True))
        made.meta["ducklake_macro"] = name
    made.set("alias", alias)
    for key in ("joins", "laterals", "pivots", "sample"):
        if table.args.get(key):
            made.set(key, table.args[key])
    return made
