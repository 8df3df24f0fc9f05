"""PIVOT and UNPIVOT, as statements and in FROM, as plain SELECTs of DuckDB's dialect.

Knows how to ask for the columns of a source and for the values of an expression; nothing else of the resolver.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence

from sqlglot import exp

from ducklake_spark.errors import InvalidInputError
from ducklake_spark.format.types import fold
from ducklake_spark.sql.duckdb import select as duckdb_select
from ducklake_spark.sql.duckdb.types import OutColumn

MOST_COLUMNS = 10_000
"""As Spark limits its own pivot."""
Columns = Callable[[exp.Expr], list[str]]
Values = Callable[[exp.Expr], list[str]]


def expand(tree: exp.Expr, columns: Columns, values: Values) -> exp.Expr:
    """The tree without PIVOT and UNPIVOT.

    Args:
        tree: A query, which is changed.
        columns: Tells the names of a query's columns.
        values: Tells the values of a query's first column, as texts.
    """
    for pivot in reversed(list(tree.find_all(exp.Pivot))):
        if pivot.this is not None:
            made: exp.Expr = _select(pivot, _source(pivot.this), columns, values)
            _bring(pivot, made)
            if pivot is tree:
                tree = made
            else:
                pivot.replace(
                    made if isinstance(pivot.parent, (exp.Subquery, exp.CTE)) else exp.Subquery(this=made)
                )
    for table in list(tree.find_all(exp.Table, exp.Subquery)):
        pivots = table.args.get("pivots")
        if not pivots:
            continue
        source = table.copy()
        source.set("pivots", None)
        source.set("joins", None)
        alias = pivots[-1].args.get("alias") or exp.TableAlias(
            this=exp.to_identifier(table.alias_or_name or "pivot")
        )
        for pivot in pivots:
            select = _select(_statement(pivot), _source(source), columns, values, table)
            source = exp.Subquery(this=select, alias=exp.TableAlias(this=exp.to_identifier("pivoted")))
        source.set("alias", alias.copy())
        source.set("joins", table.args.get("joins"))
        table.replace(source)
    return tree


def _bring(pivot: exp.Pivot, made: exp.Expr) -> None:
    for key in ("with_", "order", "limit", "offset"):
        if pivot.args.get(key) is not None:
            made.set(key, pivot.args[key])


def _statement(pivot: exp.Pivot) -> exp.Pivot:
    """The form in FROM as the one of statements."""
    fields = pivot.args.get("fields") or []
    if not pivot.args.get("unpivot"):
        return exp.Pivot(expressions=fields, using=pivot.expressions, group=pivot.args.get("group"))
    field, names = fields[0], pivot.expressions
    values = names[0].expressions if isinstance(names[0], exp.Tuple) else names
    return exp.Pivot(
        expressions=field.expressions,
        unpivot=True,
        include_nulls=pivot.args.get("include_nulls"),
        into=exp.UnpivotColumns(this=field.this, expressions=values),
    )


def _source(node: exp.Expr) -> exp.Expr:
    if isinstance(node, exp.Query) and not isinstance(node, exp.Subquery):
        node = exp.Subquery(this=node.copy())
    found = node.copy()
    if isinstance(found, exp.Subquery) and not found.alias:
        found.set("alias", exp.TableAlias(this=exp.to_identifier("pivot_source")))
    return found


def _select(
    pivot: exp.Pivot, source: exp.Expr, columns: Columns, values: Values, place: exp.Expr | None = None
) -> exp.Select:
    asked = _within(exp.Select().select(exp.Star()).from_(source.copy()), place or pivot)
    names = columns(asked)
    if pivot.args.get("unpivot"):
        return _unpivoted(pivot, source, names)
    return _pivoted(pivot, source, names, lambda query: values(_within(query, place or pivot)))


def _within(query: exp.Expr, place: exp.Expr) -> exp.Expr:
    """The query with the common table expressions that can be seen at a place."""
    assert isinstance(query, exp.Select)
    above: exp.Expr | None = place
    while above is not None:
        clause = above.args.get("with_")
        for cte in clause.expressions if clause is not None else ():
            if not any(inner is place for inner in cte.walk()):
                query = query.with_(cte.args["alias"].copy(), as_=cte.this.copy(), append=True, copy=False)
        above = above.parent
    return query


# PIVOT.


def _pivoted(pivot: exp.Pivot, source: exp.Expr, names: Sequence[str], values: Values) -> exp.Select:
    using = pivot.args.get("using") or [exp.Count(this=exp.Star())]
    group = pivot.args.get("group")
    used = {
        fold(column.name) for each in (*pivot.expressions, *using) for column in each.find_all(exp.Column)
    }
    if group is not None:
        keys = [each.copy() for each in group.expressions]
    else:
        keys = [exp.column(name, quoted=True) for name in names if fold(name) not in used]
    choices = [_choices(each, source, values) for each in pivot.expressions]
    made: list[exp.Expr] = [each.copy() for each in keys]
    plain = len(using) == 1 and not isinstance(using[0], exp.Alias)
    combined = list(itertools.product(*choices))
    if len(combined) * len(using) > MOST_COLUMNS:
        raise InvalidInputError(f"PIVOT would give more than {MOST_COLUMNS} columns: choose values with IN.")
    for parts in combined:
        name = "_".join(part[0] for part in parts)
        for aggregate in using:
            shown = (
                name if plain else f"{name}_{aggregate.alias or aggregate.unalias().sql('duckdb').lower()}"
            )
            condition = exp.and_(*(part[1].copy() for part in parts))
            value = exp.Filter(this=aggregate.unalias().copy(), expression=exp.Where(this=condition))
            made.append(exp.alias_(value, shown, quoted=True))
    select = exp.Select(expressions=made).from_(source.copy())
    if keys:
        select.set("group", exp.Group(expressions=[each.unalias().copy() for each in keys]))
    return select


def _choices(on: exp.Expr, source: exp.Expr, values: Values) -> list[tuple[str, exp.Expr]]:
    """Names of columns with what is true for their rows."""
    if isinstance(on, exp.In) and on.expressions:
        return [
            (each.alias or each.unalias().name, exp.EQ(this=on.this.copy(), expression=each.unalias().copy()))
            for each in on.expressions
        ]
    value = on.this if isinstance(on, exp.In) else on
    # Values by their own order, as texts: these are the names of the columns.
    text = exp.cast(value.copy(), "VARCHAR", dialect="duckdb")
    query = exp.Select().select(exp.alias_(text, "v"), exp.alias_(value.copy(), "k")).from_(source.copy())
    query = query.where(exp.Not(this=exp.Is(this=value.copy(), expression=exp.null())))
    query.set("distinct", exp.Distinct())
    query.set("order", exp.Order(expressions=[exp.Ordered(this=exp.column("k"))]))
    return [
        (
            each,
            exp.EQ(
                this=exp.cast(value.copy(), "VARCHAR", dialect="duckdb"), expression=exp.Literal.string(each)
            ),
        )
        for each in values(query)
    ]


# UNPIVOT.


def _unpivoted(pivot: exp.Pivot, source: exp.Expr, names: Sequence[str]) -> exp.Select:
    into = pivot.args.get("into")
    name = into.this.name if into is not None else "name"
    outs = [each.name for each in into.expressions] if into is not None else ["value"]
    groups: list[tuple[str, list[exp.Expr]]] = []
    offered = [OutColumn("", each, None) for each in names]
    for on in pivot.expressions:
        value = on.unalias()
        if isinstance(value, (exp.Columns, exp.Star)):
            chosen = value if isinstance(value, exp.Columns) else exp.Columns(this=value.copy())
            found = duckdb_select.columns_of(chosen, offered)
            groups += [(each.name, [exp.column(each.name, quoted=True)]) for each in found]
            continue
        parts = value.expressions if isinstance(value, exp.Tuple) else [value]
        groups.append((on.alias or "_".join(part.name for part in parts), [part.copy() for part in parts]))
    if any(len(parts) != len(outs) for _, parts in groups) or not groups:
        raise InvalidInputError("UNPIVOT has another number of columns than of names for values.")
    used = {
        fold(column.name) for _, parts in groups for part in parts for column in part.find_all(exp.Column)
    }
    kept = [each for each in names if fold(each) not in used]
    fields = ["n", *(f"v{place}" for place in range(len(outs)))]
    rows = exp.Array(
        expressions=[_struct(fields, [exp.Literal.string(shown), *parts]) for shown, parts in groups]
    )
    inner = exp.Select(
        expressions=[
            *(exp.column(each, quoted=True) for each in kept),
            exp.alias_(exp.Explode(this=rows), "ducklake_unpivoted"),
        ]
    ).from_(source.copy())
    select = exp.Select(
        expressions=[
            *(exp.column(each, quoted=True) for each in kept),
            exp.alias_(_part("n"), name, quoted=True),
            *(exp.alias_(_part(f"v{place}"), out, quoted=True) for place, out in enumerate(outs)),
        ]
    ).from_(exp.Subquery(this=inner, alias=exp.TableAlias(this=exp.to_identifier("unpivoted"))))
    if pivot.args.get("include_nulls"):
        return select
    known = [
        exp.Not(this=exp.Is(this=_part(f"v{place}"), expression=exp.null())) for place in range(len(outs))
    ]
    return select.where(exp.and_(*known), copy=False)


def _part(field: str) -> exp.Column:
    return exp.column(field, table="ducklake_unpivoted")


def _struct(names: Sequence[str], values: Sequence[exp.Expr]) -> exp.Struct:
    return exp.Struct(
        expressions=[
            exp.PropertyEQ(this=exp.to_identifier(name, quoted=True), expression=value)
            for name, value in zip(names, values, strict=True)
        ]
    )
