"""What DuckDB's FROM has and Spark's lacks: ASOF JOIN, samples, and several `unnest` side by side."""

from __future__ import annotations

from collections.abc import Sequence

from sqlglot import exp

from ducklake_spark.errors import InvalidInputError
from ducklake_spark.format.types import fold
from ducklake_spark.sql.duckdb.functions import spark
from ducklake_spark.sql.duckdb.types import OutColumn, Types

_ROW = "ducklake_row"
_LIMIT = "ducklake_limit"
_ZIPPED = "ducklake_zipped"
_MIRRORED: dict[type, type[exp.Binary]] = {exp.GT: exp.LT, exp.LT: exp.GT, exp.GTE: exp.LTE, exp.LTE: exp.GTE}


# ASOF JOIN.


def asof_joins(select: exp.Select, types: Types) -> None:
    """Turns each ASOF JOIN into a join with the time until which a row of the right side is the latest.

    Raises:
        InvalidInputError: A condition that is none of DuckDB's either.
    """
    for join in select.args.get("joins") or []:
        if join.method != "ASOF":
            continue
        if join.side not in ("", "LEFT"):
            raise InvalidInputError(
                f"ASOF {join.side} JOIN is not available: ASOF JOIN and ASOF LEFT JOIN are."
            )
        columns = types.columns_of_from(select)
        if join.args.get("using"):
            _use_on(select, join)
        _asof(select, join, columns or [])


def _use_on(select: exp.Select, join: exp.Join) -> None:
    """USING as ON: the last column is compared, and `*` shows the columns of the left side."""
    names = [each.name for each in join.args["using"]]
    left, right = select.args["from_"].this.alias_or_name, join.this.alias_or_name
    for column in list(select.find_all(exp.Column)):
        is_own = column.find_ancestor(exp.Select) is select
        if is_own and not column.table and fold(column.name) in map(fold, names):
            column.set("table", exp.to_identifier(left, quoted=True))
    pairs = [
        (exp.column(name, table=left, quoted=True), exp.column(name, table=right, quoted=True))
        for name in names
    ]
    tests: list[exp.Expr] = [exp.EQ(this=one, expression=other) for one, other in pairs[:-1]]
    tests.append(exp.GTE(this=pairs[-1][0], expression=pairs[-1][1]))
    join.set("using", None)
    join.set("on", exp.and_(*tests))
    _hide(select, right, names)


def _asof(select: exp.Select, join: exp.Join, columns: Sequence[OutColumn]) -> None:
    right = join.this
    name = right.alias_or_name
    on = join.args.get("on")
    if on is None or not name or not isinstance(right, (exp.Table, exp.Subquery)):
        raise InvalidInputError("An ASOF JOIN needs a table or a subquery with a name, and ON or USING.")
    own = {fold(column.name) for column in columns if fold(column.table) == fold(name)}
    others = {fold(column.name) for column in columns if fold(column.table) != fold(name)}

    def is_right(node: exp.Expr) -> bool:
        found = list(node.find_all(exp.Column))
        return bool(found) and all(
            fold(each.table) == fold(name) if each.table else fold(each.name) in own - others
            for each in found
        )

    keys: list[exp.Expr] = []
    inequality: exp.Expr | None = None
    for test in on.unnest().flatten() if isinstance(on.unnest(), exp.And) else [on.unnest()]:
        test = test.unnest()
        sides = (test.this, test.expression) if isinstance(test, exp.Binary) else (None, None)
        if isinstance(test, exp.EQ) and any(side is not None and is_right(side) for side in sides):
            keys.append(next(side for side in sides if side is not None and is_right(side)))
        elif type(test) in _MIRRORED and inequality is None and is_right(test.expression):
            inequality = test
        elif type(test) in _MIRRORED and inequality is None and is_right(test.this):
            inequality = _MIRRORED[type(test)](this=test.expression, expression=test.this)
        else:
            raise InvalidInputError(
                f"An ASOF JOIN has equalities and one of >=, >, <= and <, with tables' names: not {test.sql('duckdb')}."
            )
    if inequality is None:
        raise InvalidInputError("An ASOF JOIN needs one of >=, >, <= and <.")
    _with_limits(join, keys, inequality)
    _hide(select, name, [_ROW, _LIMIT])


def _with_limits(join: exp.Join, keys: Sequence[exp.Expr], inequality: exp.Expr) -> None:
    """Each row of the right side knows the next value, at which it is no longer the nearest."""
    right, name = join.this, join.this.alias_or_name
    at = inequality.expression
    back = isinstance(inequality, (exp.GT, exp.GTE))  # the nearest is the latest before

    def window(call: exp.Expr, parts: Sequence[exp.Expr], *orders: exp.Expr) -> exp.Window:
        order = exp.Order(expressions=[exp.Ordered(this=each.copy()) for each in orders])
        return exp.Window(this=call, partition_by=[each.copy() for each in parts], order=order)

    source = right.copy()
    source.set("joins", None)
    first = exp.alias_(window(exp.RowNumber(), [*keys, at], at), _ROW)
    once = exp.Select(expressions=[exp.column(exp.Star(), table=name), first]).from_(source)
    once = once.where(exp.Not(this=exp.Is(this=at.copy(), expression=exp.null())))
    alias = exp.TableAlias(this=exp.to_identifier(name, quoted=True))
    nearest = exp.Lead(this=at.copy()) if back else exp.Lag(this=at.copy())
    limit = exp.alias_(window(nearest, keys, at), _LIMIT)
    made = exp.Select(expressions=[exp.Star(), limit]).from_(exp.Subquery(this=once, alias=alias.copy()))
    made = made.where(exp.EQ(this=exp.column(_ROW), expression=exp.Literal.number(1)))
    end = exp.column(_LIMIT, table=name)
    strict = isinstance(inequality, (exp.GTE, exp.LTE))
    kind = {(True, True): exp.LT, (True, False): exp.LTE, (False, True): exp.GT, (False, False): exp.GTE}
    before = kind[back, strict](this=inequality.this.copy(), expression=end)
    open_end = exp.Is(this=end.copy(), expression=exp.null())
    join.set("on", exp.and_(join.args["on"].copy(), exp.Paren(this=exp.or_(open_end, before))))
    join.set("this", exp.Subquery(this=made, alias=alias, joins=right.args.get("joins")))
    join.set("method", None)


def _hide(select: exp.Select, table: str, names: Sequence[str]) -> None:
    """`*` does not show these columns."""
    for each in select.expressions:
        star = each.this if isinstance(each, exp.Column) else each
        owner = each.table if isinstance(each, exp.Column) else ""
        if isinstance(star, exp.Star) and (not owner or fold(owner) == fold(table)):
            hidden = [exp.column(name, table=table, quoted=True) for name in names]
            star.set("except_", [*(star.args.get("except_") or []), *hidden])


# Samples.


def sample(node: exp.TableSample) -> None:
    """`TABLESAMPLE` of a table and `USING SAMPLE` of a SELECT: a share of the rows, or so many of them."""
    owner = node.parent
    if owner is None:
        return
    if isinstance(owner, exp.Select):
        start = owner.args.get("from_")
        owner.set("sample", None)
        if start is None:
            raise InvalidInputError("USING SAMPLE needs FROM.")
        if node.args.get("percent") is not None:  # it comes before WHERE, and any row has the same chance
            owner.where(_chosen(node), copy=False)
            return
        if owner.args.get("joins") or start.this.args.get("joins"):
            raise InvalidInputError("USING SAMPLE with a number of rows and a join: join in a subquery.")
        start.set("this", _sampled(start.this, node))
        return
    owner.set("sample", None)
    owner.replace(_sampled(owner, node))


def _sampled(source: exp.Expr, node: exp.TableSample) -> exp.Expr:
    name = source.alias_or_name or "sampled"
    inner, joins = source.copy(), source.args.get("joins")
    inner.set("joins", None)
    select = exp.Select(expressions=[exp.Star()]).from_(inner)
    if node.args.get("percent") is not None:
        select = select.where(_chosen(node))
    else:
        size = node.args.get("size")
        if size is None:
            raise InvalidInputError("A sample has a percentage or a number of rows.")
        select.set("order", exp.Order(expressions=[exp.Ordered(this=_random(node))]))
        select.set("limit", exp.Limit(expression=size.copy()))
    alias = exp.TableAlias(this=exp.to_identifier(name, quoted=True))
    return exp.Subquery(this=select, alias=alias, joins=joins)


def _random(node: exp.TableSample) -> exp.Expr:
    seed = node.args.get("seed")
    return exp.Anonymous(this="rand", expressions=[] if seed is None else [seed.copy()])


def _chosen(node: exp.TableSample) -> exp.Expr:
    return spark("_1 * 100 < _2", _random(node), node.args["percent"])


# Several unnest().


def several_unnests(select: exp.Select) -> None:
    """`SELECT unnest(a), unnest(b)`: side by side, and NULLs where the shorter list ends.

    Raises:
        InvalidInputError: Beside aggregates or windows, whose rows they would multiply too early.
    """
    calls = [
        each.unalias() for each in select.expressions if isinstance(each.unalias(), (exp.Explode, exp.Unnest))
    ]
    if len(calls) < 2:
        return
    if select.args.get("group") or any(each.find(exp.AggFunc, exp.Window) for each in select.expressions):
        raise InvalidInputError("Several unnest() beside aggregates or windows: unnest in a query around it.")
    lists = [call.this if isinstance(call, exp.Explode) else call.expressions[0] for call in calls]
    if any(call.args.get("expressions") and isinstance(call, exp.Explode) for call in calls):
        raise InvalidInputError("Several unnest() take one argument each.")
    full = [spark("coalesce(_1, array())", each) for each in lists]
    zipped = exp.Explode(this=exp.Anonymous(this="arrays_zip", expressions=full))
    alias = exp.TableAlias(this=exp.to_identifier(f"{_ZIPPED}_rows"), columns=[exp.to_identifier(_ZIPPED)])
    select.append("laterals", exp.Lateral(this=zipped, view=True, alias=alias))
    if select.args.get("from_") is None:
        one = exp.Select(expressions=[exp.alias_(exp.Literal.number(1), "ducklake_one")])
        table = exp.TableAlias(this=exp.to_identifier("ducklake_ones"))
        select.set("from_", exp.From(this=exp.Subquery(this=one, alias=table)))
    for place, call in enumerate(calls):
        field = exp.Dot(this=exp.column(_ZIPPED), expression=exp.to_identifier(str(place), quoted=True))
        call.replace(field)
    for each in select.expressions:
        star = each.this if isinstance(each, exp.Column) else each
        if isinstance(star, exp.Star) and not (isinstance(each, exp.Column) and each.table):
            hidden = exp.column(_ZIPPED)
            star.set("except_", [*(star.args.get("except_") or []), hidden])
