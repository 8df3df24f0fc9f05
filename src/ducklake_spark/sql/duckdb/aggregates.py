"""Aggregates as DuckDB has them: lists keep NULLs, every one takes ORDER BY; and ANY / ALL over queries and lists."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING

import pyspark.sql.types as T
from sqlglot import exp

from ducklake_spark.sql.duckdb import order as duckdb_order
from ducklake_spark.sql.duckdb import times as duckdb_times
from ducklake_spark.sql.duckdb.functions import HAS_FIRST, spark

if TYPE_CHECKING:
    from ducklake_spark.sql.duckdb.types import Types

_EXACT = 6
"""So many digits of a decimal survive as a floating-point number of any use."""
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


def _aggregate(node: exp.Expr, _types: Types) -> exp.Expr:
    call = _inner(node)
    if call is not node and not isinstance(call, (*_COLLECTING, exp.ArgMax, exp.ArgMin)):
        return node
    if _has_more(node):
        return node  # its turn comes with what stands around it
    if isinstance(call, (exp.ArgMax, exp.ArgMin)) and call is not node:
        return _first_extreme(node, call, _types)
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
        key = duckdb_order.key(node.this, types.of(node.this))
        if key is None or isinstance(node.this, exp.Distinct):
            return node
        return spark(f"{'max_by' if isinstance(node, exp.Max) else 'min_by'}(_1, _2)", node.this, key)
    down = "false" if isinstance(node, exp.Max) else "true"
    return spark(f"slice(sort_array(collect_list(_1), {down}), 1, _2)", node.this, count)


def _count(node: exp.Expr, _types: Types) -> exp.Expr:
    return spark("count(*)") if node.this is None and not node.expressions else node


def _percentile(node: exp.Expr, types: Types) -> exp.Expr:
    """`median`, `quantile_cont` and `quantile_disc`."""
    value = node.this
    share = node.args.get("expression") or node.args.get("quantile")
    if isinstance(node, exp.Median):
        share = exp.Literal.number("0.5")
    if share is None or isinstance(value, exp.Distinct):
        return node
    kind = types.of(value)
    if isinstance(node, (exp.PercentileDisc, exp.Quantile)):
        if isinstance(kind, T.NumericType) or kind is None:
            return spark("percentile_disc(_2) WITHIN GROUP (ORDER BY _1)", value, share)
        place = "greatest(1, CAST(ceil(_2 * count(_1)) AS INT))"
        return spark(f"try_element_at(sort_array(collect_list(_1)), {place})", value, share)
    several = isinstance(share, exp.Array)
    if isinstance(kind, T.DecimalType) and kind.scale <= _EXACT and not several:
        # The answer is such a decimal again, and never more than the number between.
        scale = f"1{'0' * kind.scale}D"
        made = f"floor(percentile(CAST(_1 AS DOUBLE) * {scale}, _2)) / {scale}"
        return spark(f"CAST({made} AS DECIMAL({kind.precision}, {kind.scale}))", value, share)
    if isinstance(kind, (T.DateType, T.TimestampNTZType)) and not several:
        epoch = "TIMESTAMP_NTZ'1970-01-01 00:00:00'"
        micros = duckdb_times.MICROS
        return spark(
            f"{epoch} + make_dt_interval(0, 0, 0, CAST(floor(percentile({micros}, _2)) / 1000000BD AS DECIMAL(18, 6)))",
            value,
            share,
        )
    return spark("percentile(_1, _2)", value, share)


def _by(node: exp.Expr, types: Types) -> exp.Expr:
    """`arg_max` and `arg_min`: rows whose value is NULL do not count, and of equal ones the first does."""
    value, by, count = node.this, node.expression, node.args.get("count")
    if by is None or isinstance(value, (exp.Distinct, exp.Order)):
        return node
    if count is None:
        return node if _has_more(node) else _first_extreme(node, node, types)
    by = duckdb_order.key(by, types.of(by)) or by
    pairs = "collect_list(if(_1 IS NULL OR _2 IS NULL, NULL, named_struct('k', _2, 'v', _1)))"
    most = f"slice(sort_array({pairs}, {'false' if isinstance(node, exp.ArgMax) else 'true'}), 1, _3)"
    return spark(f"transform({most}, x -> x.v)", value, by, count)


def _first_extreme(node: exp.Expr, call: exp.Expr, types: Types) -> exp.Expr:
    """`arg_max` or `arg_min` of one value, with the FILTER and OVER that stand around the call."""
    value, by = call.this, call.expression
    if by is None or call.args.get("count") is not None or isinstance(value, (exp.Distinct, exp.Order)):
        return node
    by = duckdb_order.key(by, types.of(by)) or by
    name = "max_by" if isinstance(call, exp.ArgMax) else "min_by"
    key = "if(_1 IS NULL, NULL, _2)"
    made = spark(f"{name}(_1, {key}, 1)" if HAS_FIRST else f"{name}(_1, {key})", value, by)
    if call is not node:
        whole = node.copy()
        _inner(whole).replace(made)
        made = whole
    return spark("try_element_at(_1, 1)", made) if HAS_FIRST else made


def _paired(name: str) -> Callable[[exp.Expr, Types], exp.Expr]:
    """Statistics of pairs: where there are too few different ones, the answer is no number."""

    def rule(node: exp.Expr, _types: Types) -> exp.Expr:
        if _has_more(node):
            return node
        rows = "count(if(_1 IS NULL, NULL, _2)) > 0"
        made = f"CASE WHEN {rows} THEN coalesce({name}(_1, _2), double('NaN')) END"
        return spark(made, node.this, node.expression)

    return rule


def _any_value(node: exp.Expr, _types: Types) -> exp.Expr:
    """`any_value(x ORDER BY y)`: the first that is not NULL."""
    call = node.this
    if not isinstance(call, exp.AnyValue) or not isinstance(call.this, exp.Order) or _has_more(node):
        return node
    return spark("try_element_at(array_compact(_1), 1)", _collected(call, lambda fresh: fresh))


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
    exp.Quantile: _percentile,
    exp.Median: _percentile,
    exp.ArgMax: _by,
    exp.ArgMin: _by,
    exp.IgnoreNulls: _any_value,
    exp.Corr: _paired("corr"),
    exp.RegrSlope: _paired("regr_slope"),
}
