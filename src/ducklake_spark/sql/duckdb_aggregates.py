"""Aggregates as DuckDB has them: lists keep NULLs, every one takes ORDER BY; and ANY / ALL over queries and lists."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING

from sqlglot import exp

from ducklake_spark.sql.duckdb_functions import spark

if TYPE_CHECKING:
    from ducklake_spark.sql.duckdb_types import Types

_COLLECTING = (exp.ArrayAgg, exp.First, exp.Last)


def _collected(call: exp.Expr, around: Callable[[exp.Expr], exp.Expr]) -> exp.Expr:
    """A list of the argument's values, in order, NULLs too; `around` adds FILTER and OVER to the inner aggregate."""
    value, orders, distinct = call.this, [], False
    if isinstance(value, exp.Order):
        orders, value = value.expressions, value.this
    if isinstance(value, exp.Distinct):
        distinct, value = True, value.expressions[0]
    if isinstance(value, exp.Order):
        orders, value = value.expressions, value.this
    pairs: list[exp.Expr] = [exp.Literal.string("v"), value.copy()]
    for place, order in enumerate(orders):
        pairs += [exp.Literal.string(f"k{place}"), order.this.copy()]
    row = exp.Anonymous(this="named_struct", expressions=pairs)
    rows = around(exp.Anonymous(this="collect_set" if distinct else "collect_list", expressions=[row]))
    if orders:
        rows = spark(f"array_sort(_1, (l, r) -> {_comparison(orders)})", rows)
    return spark("CASE WHEN size(_1) > 0 THEN transform(_1, x -> x.v) END", rows)


def _comparison(orders: Sequence[exp.Expr]) -> str:
    text = "0"
    for place in reversed(range(len(orders))):
        order, key = orders[place], f"k{place}"
        down = bool(order.args.get("desc"))
        nulls = -1 if order.args.get("nulls_first") else 1
        before, after = (1, -1) if down else (-1, 1)
        text = (
            f"CASE WHEN l.{key} <=> r.{key} THEN {text} WHEN l.{key} IS NULL THEN {nulls} "
            f"WHEN r.{key} IS NULL THEN {-nulls} WHEN l.{key} < r.{key} THEN {before} ELSE {after} END"
        )
    return text


def _inner(node: exp.Expr) -> exp.Expr:
    found: exp.Expr = node.this if isinstance(node, (exp.Window, exp.Filter)) else node
    return found if found is node else _inner(found)


def _has_more(node: exp.Expr) -> bool:
    """Whether FILTER or OVER follows."""
    parent = node.parent
    return isinstance(parent, (exp.Window, exp.Filter)) and parent.args.get("this") is node


def _aggregate(node: exp.Expr, types: Types) -> exp.Expr:
    call = _inner(node)
    if call is not node and not isinstance(call, _COLLECTING):
        return node
    if _has_more(node):
        return node  # its turn comes with what stands around it
    if not isinstance(call, _COLLECTING):
        return node
    if isinstance(call, (exp.First, exp.Last)) and not isinstance(call.this, exp.Order):
        return node

    def around(fresh: exp.Expr) -> exp.Expr:
        if call is node:
            return fresh
        whole = node.copy()
        _inner(whole).replace(fresh)
        return whole

    made = _collected(call, around)
    if isinstance(call, exp.ArrayAgg):
        return made
    return spark("try_element_at(_1, 1)" if isinstance(call, exp.First) else "try_element_at(_1, -1)", made)


def _extreme(node: exp.Expr, types: Types) -> exp.Expr:
    """`max(x, n)`: the n largest values."""
    count = node.args.get("count")
    if count is None:
        return node
    down = "false" if isinstance(node, exp.Max) else "true"
    return spark(f"slice(sort_array(collect_list(_1), {down}), 1, _2)", node.this, count)


def _count(node: exp.Expr, types: Types) -> exp.Expr:
    return spark("count(*)") if node.this is None and not node.expressions else node


def _percentile(node: exp.Expr, types: Types) -> exp.Expr:
    if node.args.get("expression") is None:
        return node
    if isinstance(node, exp.PercentileDisc):
        return spark("percentile_disc(_2) WITHIN GROUP (ORDER BY _1)", node.this, node.expression)
    return spark("percentile(_1, _2)", node.this, node.expression)


def array_of_query(query: exp.Expr) -> exp.Expr:
    """`ARRAY(SELECT ...)`: the rows of a query with one column as a list, in their order."""
    order = query.args.get("order")
    select = query if isinstance(query, exp.Select) else None
    name = "v"
    if select is not None and len(select.expressions) == 1:
        only = select.expressions[0]
        select.set("expressions", [exp.alias_(only.unalias(), name)])
    keys = order.expressions if order is not None else []
    call: exp.Expr = exp.column(name)
    if keys and select is not None and not query.args.get("limit"):
        for place, each in enumerate(keys):
            select.append("expressions", exp.alias_(each.this.copy(), f"k{place}"))
            each.set("this", exp.column(f"k{place}"))
        select.set("order", None)
        call = exp.Order(this=call, expressions=keys)
    collected = _collected(exp.ArrayAgg(this=call), lambda fresh: fresh)
    collected = spark("coalesce(_1, array())", collected)
    inner = exp.Subquery(this=query.copy(), alias=exp.TableAlias(this=exp.to_identifier("rows_of")))
    return exp.Subquery(this=exp.Select().select(collected).from_(inner))


_NEAREST: Mapping[type, tuple[str, str]] = {  # which of the values decides, for ALL and for ANY
    exp.GT: ("max", "min"),
    exp.GTE: ("max", "min"),
    exp.LT: ("min", "max"),
    exp.LTE: ("min", "max"),
}
_SIGNS: Mapping[type, str] = {
    exp.EQ: "=",
    exp.NEQ: "<>",
    exp.GT: ">",
    exp.GTE: ">=",
    exp.LT: "<",
    exp.LTE: "<=",
}


def quantified(node: exp.Expr) -> exp.Expr:
    """`x > ALL (...)` and `x = ANY (...)`."""
    right = node.expression
    if isinstance(right, exp.Anonymous):
        every, values = right.name.upper() == "ALL", right.expressions[0]
    else:
        every, values = isinstance(right, exp.All), right.this
    while isinstance(values, exp.Paren):
        values = values.this
    sign = _SIGNS[type(node)]
    if not isinstance(values, exp.Query):
        return spark(f"{'forall' if every else 'exists'}(_2, x -> _1 {sign} x)", node.this, values)
    query = values.this if isinstance(values, exp.Subquery) else values
    if isinstance(node, exp.EQ) and not every:
        return exp.In(this=node.this.copy(), query=exp.Subquery(this=query.copy()))
    if isinstance(node, exp.NEQ) and every:
        inside = exp.In(this=node.this.copy(), query=exp.Subquery(this=query.copy()))
        return exp.Not(this=inside)
    lowest, highest, total, known = (
        _over(query, text) for text in ("min(v)", "max(v)", "count(1)", "count(v)")
    )
    if type(node) in _NEAREST:
        nearest = {"min": lowest, "max": highest}[_NEAREST[type(node)][0 if every else 1]]
        test = spark(f"_1 {sign} _2", node.this, nearest)
    else:
        joined = "AND" if every else "OR"
        test = spark(f"(_1 {sign} _2) {joined} (_1 {sign} _3)", node.this, lowest, highest)
    empty, sure = ("true", "true") if every else ("false", "false")
    return spark(
        f"CASE WHEN _2 = 0 THEN {empty} WHEN _2 > _3 THEN nullif(_1, {sure}) ELSE _1 END", test, total, known
    )


def _over(query: exp.Expr, text: str) -> exp.Expr:
    alias = exp.TableAlias(this=exp.to_identifier("q"), columns=[exp.to_identifier("v")])
    inner = exp.Subquery(this=query.copy(), alias=alias)
    return exp.Subquery(this=exp.Select().select(spark(text)).from_(inner))


RULES: Mapping[type, Callable[[exp.Expr, Types], exp.Expr]] = {
    exp.ArrayAgg: _aggregate,
    exp.First: _aggregate,
    exp.Last: _aggregate,
    exp.Filter: _aggregate,
    exp.Window: _aggregate,
    exp.Max: _extreme,
    exp.Min: _extreme,
    exp.Count: _count,
    exp.PercentileCont: _percentile,
    exp.PercentileDisc: _percentile,
}
