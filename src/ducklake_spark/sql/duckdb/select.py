"""What DuckDB's SELECT has and Spark's lacks: COLUMNS, REPLACE, aliases in WHERE, UNION BY NAME, range() in FROM."""

from __future__ import annotations

import fnmatch
import functools
import re
from collections.abc import Callable

from sqlglot import exp

from ducklake_spark.errors import DuckLakeError, InvalidInputError
from ducklake_spark.format import duckdb_sql
from ducklake_spark.format.types import fold
from ducklake_spark.sql.duckdb import from_clause as duckdb_from
from ducklake_spark.sql.duckdb.functions import spark
from ducklake_spark.sql.duckdb.types import OutColumn, Types
from ducklake_spark.sql.parser.grammar_queries import ODD_TREES, first_line

_NAMED = (exp.Alias, exp.Aliases, exp.Column, exp.Star, exp.Dot)


def refuse(tree: exp.Expr) -> None:
    """Raises for what Spark cannot do, with its name.

    Raises:
        InvalidInputError: The construct, and the other way if there is one.
    """
    if tree.find(exp.Into):
        raise InvalidInputError("DuckDB has no SELECT ... INTO: use CREATE TABLE ... AS.")
    for join in tree.find_all(exp.Join):
        if join.method == "POSITIONAL":
            raise InvalidInputError(
                "POSITIONAL JOIN cannot be said in Spark's SQL, where rows have no order: number the rows with "
                "row_number() OVER (ORDER BY ...) and join on that."
            )
    for node in tree.find_all(exp.LimitOptions):
        if node.args.get("percent"):
            raise InvalidInputError(
                "LIMIT with a percentage cannot be said in Spark's SQL: give a number of rows."
            )


def rewrite(tree: exp.Expr, types: Types, fresh: Callable[[], Types]) -> exp.Expr:
    """Rewrites every SELECT of a tree.

    Args:
        tree: The tree, which is changed.
        types: Tells the columns of tables.
        fresh: Makes such an object anew, after changes.
    """
    for union in reversed(list(tree.find_all(exp.SetOperation))):
        if union.args.get("by_name"):
            _by_name(union, types)
    types = fresh()
    for cte in tree.find_all(exp.CTE):
        cte.set("materialized", None)
    for select in reversed(list(tree.find_all(exp.Select))):
        _expand(select, types)
    types = fresh()
    for select in list(tree.find_all(exp.Select)):
        _aliases_in_where(select, types)
        duckdb_from.asof_joins(select, types)
        duckdb_from.several_unnests(select)
    for sample in list(tree.find_all(exp.TableSample)):
        duckdb_from.sample(sample)
    for select in reversed(list(tree.find_all(exp.Select))):
        tree = _distinct_on(select, tree)
    for values in list(tree.find_all(exp.Values)):
        tree = _name_values(values, tree)
    for table in list(tree.find_all(exp.Table)):
        if isinstance(table.this, exp.GenerateSeries):
            table.replace(_series(table, table.this))
    for unnest in tree.find_all(exp.Unnest):
        _name_unnest(unnest)
    return tree


def name_columns(tree: exp.Expr, text: str | None) -> None:
    """Gives columns without a name the one that DuckDB gives: the text of the expression, as DuckDB prints it."""
    for select in tree.find_all(exp.Select):
        _name_columns(select, text)


# Stars.


def _expand(select: exp.Select, types: Types) -> None:
    if not any(_needs_columns(each) for each in select.expressions):
        return
    columns = types.columns_of_from(select)
    if columns is None:
        raise InvalidInputError(
            f"The columns behind {next(each for each in select.expressions if _needs_columns(each)).sql('duckdb')} are "
            "not known here: name them."
        )
    made: list[exp.Expr] = []
    for each in select.expressions:
        made += _expanded(each, columns) if _needs_columns(each) else [each]
    select.set("expressions", made)


def _needs_columns(node: exp.Expr) -> bool:
    if node.find(exp.Columns):
        return True
    if isinstance(node, (exp.Like, exp.ILike, exp.Glob, exp.SimilarTo, exp.Not)):
        return isinstance(_star(node.this), exp.Star) or (
            isinstance(node, exp.Not) and _needs_columns(node.this)
        )
    star = _star(node)
    return star is not None and bool(star.args.get("replace") or star.args.get("rename"))


def _star(node: exp.Expr) -> exp.Star | None:
    if isinstance(node, exp.Column) and isinstance(node.this, exp.Star):
        return node.this
    return node if isinstance(node, exp.Star) else None


def _expanded(node: exp.Expr, columns: list[OutColumn]) -> list[exp.Expr]:
    star = _star(node)
    if star is not None:
        return [_replaced(star, column) for column in _chosen(node, star, columns)]
    if not node.find(exp.Columns):
        keep = _pattern(node)
        inner = node.this if not isinstance(node, exp.Not) else node.this.this
        starred = _star(inner)
        assert starred is not None
        return [_column(column) for column in _chosen(inner, starred, columns) if keep(column.name)]
    found = next(iter(node.find_all(exp.Columns)))
    chosen = columns_of(found, columns)
    if not chosen:
        raise InvalidInputError(f"No column fits {found.sql('duckdb')}.")
    made = []
    for column in chosen:
        one = node.copy()
        for place in list(one.find_all(exp.Columns)):
            if place is one:
                one = _column(column)
            else:
                place.replace(_column(column))
        is_plain = isinstance(one, (exp.Column, exp.Alias))
        made.append(one if is_plain else exp.alias_(one, column.name, quoted=True))
    return made


def columns_of(node: exp.Columns, columns: list[OutColumn]) -> list[OutColumn]:
    """The columns that `COLUMNS(...)` means."""
    what = node.this
    star = _star(what)
    if star is not None:
        return _chosen(what, star, columns)
    if isinstance(what, exp.Literal):
        return [column for column in columns if re.search(what.name, column.name)]
    if isinstance(what, exp.Array):
        wanted = [fold(each.name) for each in what.expressions]
        return [column for name in wanted for column in columns if fold(column.name) == name]
    if isinstance(what, exp.Lambda):
        keep = _pattern(what.this)
        return [column for column in columns if keep(column.name)]
    raise InvalidInputError(
        f"{node.sql('duckdb')} cannot be read: give COLUMNS a star, a pattern or a list of names."
    )


def _pattern(node: exp.Expr) -> Callable[[str], bool]:
    """A condition on names, such as `LIKE 'a%'`."""
    if isinstance(node, exp.Paren):
        return _pattern(node.this)
    if isinstance(node, exp.Not):
        inner = _pattern(node.this)
        return lambda name: not inner(name)
    text = node.expression.name if isinstance(node, exp.Binary) else ""
    if isinstance(node, (exp.Like, exp.ILike)):
        parts = [".*" if c == "%" else "." if c == "_" else re.escape(c) for c in text]
        flags = re.IGNORECASE if isinstance(node, exp.ILike) else 0
        regex = re.compile("".join(parts), flags | re.DOTALL)
        return lambda name: regex.fullmatch(name) is not None
    if isinstance(node, exp.Glob):
        return lambda name: fnmatch.fnmatchcase(name, text)
    if isinstance(node, (exp.SimilarTo, exp.RegexpFullMatch)):
        return lambda name: re.fullmatch(text, name) is not None
    if isinstance(node, exp.EQ):
        return lambda name: name == text
    if isinstance(node, exp.NEQ):
        return lambda name: name != text
    raise InvalidInputError(
        f"Columns cannot be chosen by {node.sql('duckdb')}: use LIKE, ILIKE, GLOB or a pattern."
    )


def _chosen(node: exp.Expr, star: exp.Star, columns: list[OutColumn]) -> list[OutColumn]:
    table = node.table if isinstance(node, exp.Column) else ""
    left_out = {fold(each.name) for each in star.args.get("except_") or []}
    return [
        column
        for column in columns
        if (not table or fold(column.table) == fold(table)) and fold(column.name) not in left_out
    ]


def _replaced(star: exp.Star, column: OutColumn) -> exp.Expr:
    for each in star.args.get("replace") or []:
        if fold(each.alias) == fold(column.name):
            return exp.alias_(each.this.copy(), column.name, quoted=True)
    for each in star.args.get("rename") or []:
        if fold(each.this.name) == fold(column.name):
            return exp.alias_(_column(column), each.alias, quoted=True)
    return _column(column)


def _column(column: OutColumn) -> exp.Expr:
    return exp.column(column.name, table=column.table or None, quoted=True)


# Other clauses.


def _aliases_in_where(select: exp.Select, types: Types) -> None:
    """WHERE may use the names that SELECT gives, unless a table has a column of that name."""
    where = select.args.get("where")
    named = {fold(each.alias): each.this for each in select.expressions if isinstance(each, exp.Alias)}
    if where is None or not named:
        return
    columns = types.columns_of_from(select)
    if columns is None:
        return
    own = {fold(column.name) for column in columns}
    for column in list(where.find_all(exp.Column)):
        name = fold(column.name)
        if (
            not column.table
            and name in named
            and name not in own
            and column.find_ancestor(exp.Select) is select
        ):
            column.replace(exp.Paren(this=named[name].copy()))


def _distinct_on(select: exp.Select, tree: exp.Expr) -> exp.Expr:
    """`DISTINCT ON (keys)`: the first row for each, in the order of the query, which the result keeps."""
    distinct = select.args.get("distinct")
    keys = distinct.args.get("on") if distinct is not None else None
    if keys is None:
        return tree
    named = {fold(each.alias): each.this for each in select.expressions if isinstance(each, exp.Alias)}

    def meant(node: exp.Expr) -> exp.Expr:
        found: exp.Expr = node
        if isinstance(node, exp.Literal) and node.is_int:
            found = select.expressions[int(node.name) - 1].unalias()
        elif isinstance(node, exp.Column) and not node.table and fold(node.name) in named:
            found = named[fold(node.name)]
        return found.copy()

    order = select.args.get("order")
    orders = [each.copy() for each in order.expressions] if order is not None else []
    for each in orders:
        each.set("this", meant(each.this))
    parts = keys.expressions if isinstance(keys, exp.Tuple) else [keys.unnest()]
    over = exp.Window(
        this=exp.RowNumber(),
        partition_by=[meant(each) for each in parts],
        order=exp.Order(expressions=[each.copy() for each in orders] or [exp.Ordered(this=meant(parts[0]))]),
    )
    hidden = ["ducklake_row", *(f"ducklake_key{place}" for place in range(len(orders)))]
    inner = select.copy()
    for key in ("distinct", "order", "limit", "offset", "with_"):
        inner.set(key, None)
    for name, value in zip(hidden, [over, *(each.this.copy() for each in orders)], strict=True):
        inner.append("expressions", exp.alias_(value, name))
    alias = exp.TableAlias(this=exp.to_identifier("distinct_on"))
    star = exp.Star(except_=[exp.to_identifier(name) for name in hidden])
    outer = exp.Select().select(star).from_(exp.Subquery(this=inner, alias=alias))
    outer = outer.where(exp.EQ(this=exp.column("ducklake_row"), expression=exp.Literal.number(1)))
    for place, each in enumerate(orders):
        each.set("this", exp.column(f"ducklake_key{place}"))
    if orders:
        outer.set("order", exp.Order(expressions=orders))
    for key in ("limit", "offset", "with_"):
        outer.set(key, select.args.get(key))
    if select is tree:
        return outer
    select.replace(outer)
    return tree


def _by_name(union: exp.SetOperation, types: Types) -> None:
    left, right = types.columns_of_query(union.this), types.columns_of_query(union.expression)
    if left is None or right is None:
        raise InvalidInputError(
            "The columns of a UNION BY NAME are not known here: name them in both SELECTs."
        )
    names = [column.name for column in left]
    names += [column.name for column in right if fold(column.name) not in {fold(name) for name in names}]

    def arranged(query: exp.Expr, own: list[OutColumn]) -> exp.Select:
        have = {fold(column.name) for column in own}
        select = exp.Select()
        for name in names:
            value = exp.column(name, quoted=True) if fold(name) in have else exp.null()
            select = select.select(exp.alias_(value, name, quoted=True), copy=False)
        inner = query if isinstance(query, exp.Subquery) else exp.Subquery(this=query)
        inner.set("alias", exp.TableAlias(this=exp.to_identifier("by_name")))
        return select.from_(inner, copy=False)

    union.set("this", arranged(union.this, left))
    union.set("expression", arranged(union.expression, right))
    union.set("by_name", False)


def _series(table: exp.Table, call: exp.GenerateSeries) -> exp.Expr:
    """`range(3)` in FROM: Spark's own range, when its arguments are numbers."""
    start, end, step = (call.args.get(key) for key in ("start", "end", "step"))
    exclusive = bool(call.args.get("is_end_exclusive"))
    name = "range" if exclusive else "generate_series"
    down = isinstance(step, exp.Neg)
    numbers = all(each is None or _is_number(each) for each in (start, end, step))
    made: exp.Expr
    if numbers and not (isinstance(step, exp.Literal) and step.name == "0"):
        assert end is not None
        last = end if exclusive else spark("_1 - 1" if down else "_1 + 1", end)
        arguments = [start or exp.Literal.number(0), last, step or exp.Literal.number(1)]
        source = exp.Table(this=exp.Anonymous(this="range", expressions=arguments))
        made = exp.Select().select(exp.alias_(exp.column("id"), name, quoted=True)).from_(source)
    else:
        fresh = call.copy()
        made = exp.Select().select(exp.alias_(exp.Explode(this=fresh), name, quoted=True))
    subquery = exp.Subquery(this=made)
    alias = table.args.get("alias") or exp.TableAlias(this=exp.to_identifier(name, quoted=True))
    columns = alias.args.get("columns")
    if columns:
        made.expressions[0].set("alias", exp.to_identifier(columns[0].name, quoted=True))
        alias.set("columns", None)
    subquery.set("alias", alias)
    if table.args.get("joins"):
        subquery.set("joins", table.args["joins"])
    return subquery


def _is_number(node: exp.Expr) -> bool:
    if isinstance(node, (exp.Neg, exp.Paren)):
        return _is_number(node.this)
    return isinstance(node, exp.Literal) and not node.is_string


def _name_values(values: exp.Values, tree: exp.Expr) -> exp.Expr:
    """The columns of VALUES are col0, col1 and so on."""
    if not values.expressions or isinstance(values.parent, exp.Insert):
        return tree
    first = values.expressions[0]
    width = len(first.expressions) if isinstance(first, exp.Tuple) else 1
    alias = values.args.get("alias")
    if alias is not None and alias.args.get("columns"):
        return tree
    columns = [exp.to_identifier(f"col{place}") for place in range(width)]
    own = alias.this if alias is not None and alias.this is not None else exp.to_identifier("valueslist")
    values.set("alias", exp.TableAlias(this=own, columns=columns))
    return exp.Select().select(exp.Star()).from_(values) if values is tree else tree


def _name_unnest(unnest: exp.Unnest) -> None:
    alias = unnest.args.get("alias") or exp.TableAlias(this=exp.to_identifier("unnest"))
    if not alias.args.get("columns"):
        alias.set("columns", [exp.to_identifier("unnest", quoted=True)])
        unnest.set("alias", alias)


def _name_columns(select: exp.Select, text: str | None) -> None:
    if isinstance(select.parent, (exp.In, exp.Exists, exp.Any, exp.Array)):
        return
    made = []
    for each in select.expressions:
        if isinstance(each, _NAMED) or _needs_columns(each):
            made.append(each)
            continue
        span = each.meta.get("expression_span")
        name = _duckdb_name(text[slice(*span)] if text is not None and span is not None else _text(each))
        made.append(each if name is None else exp.alias_(each, name, quoted=True))
    select.set("expressions", made)


def _text(node: exp.Expr) -> str:
    try:
        return node.sql(dialect="duckdb")
    except ODD_TREES as error:
        raise InvalidInputError(f"This is no expression of DuckDB: {first_line(error)}") from error


@functools.lru_cache(maxsize=4096)
def _duckdb_name(text: str) -> str | None:
    try:
        return duckdb_sql.canonical_expression(text)
    except DuckLakeError:
        return None
