"""DuckDB's trees -> Spark's, with DuckDB's answers: division, casts, lists from 1, NULLs in lists, times."""

from __future__ import annotations

import fnmatch
import re
from collections.abc import Callable, Mapping

import pyspark.sql.types as T
from sqlglot import exp
from sqlglot.expressions import apply_index_offset

from ducklake_spark.errors import InvalidInputError
from ducklake_spark.sql import duckdb_aggregates, duckdb_binder, duckdb_select
from ducklake_spark.sql.duckdb_casts import cast
from ducklake_spark.sql.duckdb_functions import (
    KURTOSIS,
    SKEWNESS,
    anonymous,
    part,
    slice_of,
    spark,
    with_pattern,
    wrapped,
)
from ducklake_spark.sql.duckdb_types import Types, is_float, is_integer

Rule = Callable[[exp.Expr, Types], exp.Expr]
_INTERVALS = {
    "SECOND": "make_dt_interval(0, 0, 0, _1)",
    "MINUTE": "make_dt_interval(0, 0, _1)",
    "HOUR": "make_dt_interval(0, _1)",
    "DAY": "make_dt_interval(_1)",
    "WEEK": "make_dt_interval(_1 * 7)",
    "MONTH": "make_ym_interval(0, _1)",
    "QUARTER": "make_ym_interval(0, _1 * 3)",
    "YEAR": "make_ym_interval(_1)",
}


def translate(
    tree: exp.Expr,
    schemas: Mapping[str, T.StructType] | None = None,
    declared: Mapping[str, Mapping[str, str]] | None = None,
) -> exp.Expr:
    """A tree that Spark's generator prints as SQL with DuckDB's meaning.

    Args:
        tree: A query or an expression in DuckDB's dialect; it is not changed.
        schemas: The columns of tables, by the names that they have in the tree.
        declared: DuckDB's own types of these columns, where they are known.

    Raises:
        InvalidInputError: Something that Spark cannot do, by its name.
    """
    known = schemas or {}
    tree = _plain(tree.copy())
    duckdb_binder.annotate(tree, known, declared)
    for bracket in tree.find_all(exp.Bracket):
        # sqlglot counts from 0 as soon as it reads; here lists begin with 1 until Spark's text is made.
        bracket.set("expressions", apply_index_offset(bracket.this, bracket.expressions, 1, dialect="duckdb"))
    for found in list(tree.find_all(exp.ToMap)):
        _bind_map(found)
    duckdb_select.refuse(tree)
    tree = duckdb_select.rewrite(tree, Types(known), lambda: Types(known))
    types = Types(known)
    nodes = list(tree.walk())
    for node in nodes:
        types.of(node)
    for node in reversed(nodes):
        made = _translated(node, types)
        if made is node:
            continue
        types.put(made, types.of(node))
        if node is tree:
            tree = made
        else:
            node.replace(made)
    return tree


def _plain(tree: exp.Expr) -> exp.Expr:
    """Functions as people write them: DuckDB prints some with their schema, as `main.sum(x)`."""

    def change(node: exp.Expr) -> exp.Expr:
        while isinstance(node, exp.Dot) and node.this.name in ("main", "pg_catalog", "system"):
            called = node.expression
            if not isinstance(called, exp.Func):
                break
            node = called
        return node

    return tree.transform(change, copy=False)


def _bind_map(node: exp.ToMap) -> None:
    """`MAP {...}[key]` looks up in the map; sqlglot reads it as the map of a lookup."""
    top = inner = node.this
    while isinstance(inner, exp.Bracket):
        inner = inner.this
    if inner is not top:
        parent = inner.parent
        assert parent is not None
        node.replace(top)
        parent.set("this", exp.ToMap(this=inner))


def _translated(node: exp.Expr, types: Types) -> exp.Expr:
    for kind in type(node).__mro__:
        rule = _RULES.get(kind)
        if rule is not None:
            return rule(node, types)
    return node


# Numbers.


def _div(node: exp.Expr, types: Types) -> exp.Expr:
    """Always a floating-point number; by zero gives infinity, as IEEE says."""
    left, right = node.this, node.expression
    if isinstance(types.of(left), T.DayTimeIntervalType):
        return node
    if isinstance(right, exp.Literal) and float(right.this or 0) != 0:
        return exp.Paren(this=spark("CAST(_1 AS DOUBLE) / _2", left, right))
    return spark(
        "coalesce(try_divide(CAST(_1 AS DOUBLE), CAST(_2 AS DOUBLE)), CAST(_1 AS DOUBLE) * power(_2, -1))",
        left,
        right,
    )


def _int_div(node: exp.Expr, types: Types) -> exp.Expr:
    left, right = node.this, node.expression
    if any(is_float(kind) or isinstance(kind, T.DecimalType) for kind in (types.of(left), types.of(right))):
        return _div(node, types)
    return exp.Paren(this=spark("_1 DIV nullif(_2, 0)", left, right))


def _mod(node: exp.Expr, types: Types) -> exp.Expr:
    right = node.expression
    if isinstance(right, exp.Literal) and not right.is_string and float(right.this or 0) != 0:
        return node
    return exp.Paren(this=spark("_1 % nullif(_2, 0)", node.this, right))


def _log(node: exp.Expr, types: Types) -> exp.Expr:
    return spark("log10(_1)", node.this) if node.args.get("expression") is None else node


def _arithmetic(node: exp.Expr, types: Types) -> exp.Expr:
    left, right = types.of(node.this), types.of(node.expression)
    if isinstance(left, T.DateType) and isinstance(right, T.DateType) and isinstance(node, exp.Sub):
        return spark("CAST(datediff(_1, _2) AS BIGINT)", node.this, node.expression)
    if isinstance(left, T.DateType) and isinstance(right, T.DayTimeIntervalType):
        sign = "+" if isinstance(node, exp.Add) else "-"
        return spark(f"CAST(_1 AS TIMESTAMP_NTZ) {sign} _2", node.this, node.expression)
    return node


def _compare(node: exp.Expr, types: Types) -> exp.Expr:
    """`ANY` and `ALL`, and booleans beside numbers."""
    right = node.expression
    is_call = isinstance(right, exp.Anonymous) and right.name.upper() in ("ALL", "ANY")
    if is_call or isinstance(right, (exp.Any, exp.All)):
        return duckdb_aggregates.quantified(node)
    pair = (types.of(node.this), types.of(right))
    for place, kind in enumerate(pair):
        if isinstance(kind, T.BooleanType) and is_integer(pair[1 - place]):
            key = ("this", "expression")[place]
            node.set(key, spark("CAST(_1 AS INT)", node.args[key]))
    return node


# Lists, maps and structs.


def _bracket(node: exp.Expr, types: Types) -> exp.Expr:
    inner, index = node.this, node.expressions[0] if node.expressions else None
    kind = types.of(inner)
    if isinstance(index, exp.Slice):
        return slice_of(inner, index, kind)
    if index is None or (isinstance(index, exp.Literal) and index.is_string):
        return node
    if isinstance(kind, T.MapType):
        return node if not is_integer(kind.keyType) else spark("try_element_at(_1, _2)", inner, index)
    if isinstance(index, exp.Null):
        return spark("try_element_at(_1, CAST(NULL AS INT))", inner)
    if isinstance(kind, T.StringType):
        return spark("substring(_1, _2, if(_2 = 0, 0, 1))", inner, index)
    if isinstance(kind, T.StructType):
        return _field_at(inner, kind, index)
    if isinstance(index, exp.Literal) and index.name != "0":
        return spark("try_element_at(_1, _2)", inner, index)
    if kind is None and isinstance(types.of(index), T.StringType):
        return node  # the key of a map
    if kind is None:  # a map may have the key 0
        return spark("try_element_at(_1, if(typeof(_1) LIKE 'map%', _2, nullif(_2, 0)))", inner, index)
    return spark("try_element_at(_1, nullif(_2, 0))", inner, index)


def _field_at(inner: exp.Expr, kind: T.StructType, index: exp.Expr) -> exp.Expr:
    if not isinstance(index, exp.Literal) or not 1 <= int(index.name) <= len(kind.fields):
        raise InvalidInputError("A struct has fields by name, or by a number that is written out.")
    name = kind.fields[int(index.name) - 1].name
    return exp.Dot(this=wrapped(inner.copy()), expression=exp.to_identifier(name, quoted=True))


def _to_map(node: exp.Expr, types: Types) -> exp.Expr:
    pairs = node.this.expressions
    return exp.Anonymous(
        this="map", expressions=[side for pair in pairs for side in (pair.this, pair.expression)]
    )


def _map(node: exp.Expr, types: Types) -> exp.Expr:
    keys, values = node.args.get("keys"), node.args.get("values")
    if keys is None or values is None:
        return exp.Anonymous(this="map", expressions=[])
    return spark("map_from_arrays(_1, _2)", keys, values)


def _array(node: exp.Expr, types: Types) -> exp.Expr:
    parts = node.expressions
    if len(parts) == 1 and isinstance(parts[0], exp.Comprehension):
        found = parts[0]
        name = found.expression
        items = found.args["iterator"]
        if found.args.get("condition") is not None:
            items = exp.Anonymous(this="filter", expressions=[items, _lambda(name, found.args["condition"])])
        return exp.Anonymous(this="transform", expressions=[items, _lambda(name, found.this)])
    if len(parts) == 1 and isinstance(parts[0], (exp.Select, exp.SetOperation)):
        return duckdb_aggregates.array_of_query(parts[0])
    return node


def _lambda(name: exp.Expr, body: exp.Expr) -> exp.Lambda:
    return exp.Lambda(this=body.copy(), expressions=[exp.to_identifier(name.name)])


def _pairwise(text: str) -> Rule:
    return lambda node, types: wrapped(spark(text, node.this, node.expression))


def _one(text: str) -> Rule:
    return lambda node, types: wrapped(spark(text, node.this))


def _array_size(node: exp.Expr, types: Types) -> exp.Expr:
    return anonymous(exp.Anonymous(this="len", expressions=[_known(node.this, types)]), types)


def _known(node: exp.Expr, types: Types) -> exp.Expr:
    """A copy whose type is as well known."""
    copied = node.copy()
    types.put(copied, types.of(node))
    return copied


def _contains(node: exp.Expr, types: Types) -> exp.Expr:
    made = anonymous(
        exp.Anonymous(this="contains", expressions=[_known(node.this, types), node.expression]), types
    )
    return node if isinstance(made, exp.Anonymous) else made


# Texts.


def _like(node: exp.Expr, types: Types) -> exp.Expr:
    """Without ESCAPE a backslash is a backslash."""
    pattern = node.expression
    if isinstance(node.parent, exp.Escape):
        return node
    if isinstance(pattern, exp.Literal):
        node.set("expression", exp.Literal.string(pattern.name.replace("\\", "\\\\")))
    elif not isinstance(pattern, (exp.Any, exp.All)):
        node.set("expression", spark("replace(_1, '\\\\', '\\\\\\\\')", pattern))
    return node


def _substring(node: exp.Expr, types: Types) -> exp.Expr:
    start, length = node.args.get("start"), node.args.get("length")
    if length is None or (isinstance(start, exp.Literal) and start.name != "0"):
        return node
    assert start is not None
    return spark(
        "if(_2 = 0, substring(_1, 1, greatest(_3 - 1, 0)), substring(_1, _2, _3))", node.this, start, length
    )


def _side(text: str) -> Rule:
    """`left` and `right`, which leave out as many from the other side when the number is negative."""

    def rule(node: exp.Expr, types: Types) -> exp.Expr:
        count = node.expression
        plain = isinstance(count, exp.Literal)
        return node if plain else spark(text, node.this, count)

    return rule


def _split(node: exp.Expr, types: Types) -> exp.Expr:
    separator = node.expression
    if isinstance(separator, exp.Literal) and not separator.name:
        return spark("filter(split(_1, ''), x -> x <> '')", node.this)
    return node


def _regexp_like(node: exp.Expr, types: Types) -> exp.Expr:
    flag = node.args.get("flag")
    if isinstance(flag, exp.Literal) and "i" in flag.name:
        return exp.Paren(this=spark("_1 RLIKE concat('(?i)', _2)", node.this, node.expression))
    return exp.Paren(this=spark("_1 RLIKE _2", node.this, node.expression))


def _typeof(node: exp.Expr, types: Types) -> exp.Expr:
    name = node.meta.get(duckdb_binder.TYPE)
    if name is None:
        raise InvalidInputError(f"The type in {node.sql('duckdb')} cannot be told here: it depends on Spark.")
    text = exp.Literal.string(name)
    if any(each.find_ancestor(exp.Window) is None for each in node.this.find_all(exp.AggFunc)):
        return spark("if(count(1) IS NULL, NULL, _1)", text)  # still one row for each group
    return text


def _lambda_index(node: exp.Expr, types: Types) -> exp.Expr:
    """The second parameter of a lambda counts from 1."""
    parent = node.parent
    name = parent.name.lower() if isinstance(parent, exp.Anonymous) else ""
    if len(node.expressions) != 2 or "reduce" in name or isinstance(parent, exp.Reduce):
        return node
    index = node.expressions[1].name
    for each in list(node.this.find_all(exp.Identifier, exp.Column)):
        inside = each.parent
        if each.name == index and not isinstance(inside, (exp.Column, exp.Dot)):
            each.replace(exp.Paren(this=exp.Add(this=each.copy(), expression=exp.Literal.number(1))))
    return node


# Times.


def _extract(node: exp.Expr, types: Types) -> exp.Expr:
    return part(node.this.name, node.expression) or node


def _trunc(node: exp.Expr, types: Types) -> exp.Expr:
    unit = node.args.get("unit")
    source = types.of(node.this)
    if unit is None:
        return node
    kind = "TIMESTAMP" if isinstance(source, T.TimestampType) else "TIMESTAMP_NTZ"
    return spark(f"CAST(date_trunc('{_unit(unit)}', _1) AS {kind})", node.this)


def _unit(node: exp.Expr) -> str:
    name = node.name.upper()
    if not name.isalpha():
        raise InvalidInputError(f"{name} is no unit of time.")
    return name


def _date_diff(node: exp.Expr, types: Types) -> exp.Expr:
    """How many limits between two units lie between two times."""
    unit = node.args.get("unit")
    name = _unit(unit).rstrip("S") if unit is not None else "DAY"
    if name == "WEEK":
        return node
    cut = [spark(f"date_trunc('{name}', _1)", each) for each in (node.expression, node.this)]
    return exp.Anonymous(this="timestampdiff", expressions=[exp.var(name), *cut])


def _time_text(node: exp.Expr, types: Types) -> exp.Expr:
    """`strftime`, in either order of its arguments."""
    value, form = node.this, node.args.get("format")
    if isinstance(value, exp.Literal) and not isinstance(form, exp.Literal):
        value, form = form, value
    if not isinstance(form, exp.Literal) or value is None:
        raise InvalidInputError("strftime() and strptime() take a format that is written out.")
    if isinstance(node, exp.StrToTime):
        read = with_pattern("to_timestamp", value, form.name, to_read=True)
        return spark("CAST(_1 AS TIMESTAMP_NTZ)", read)
    return with_pattern("date_format", value, form.name)


def _epoch(node: exp.Expr, types: Types) -> exp.Expr:
    """`epoch_ms`, which goes both ways, and `to_timestamp`."""
    scale = node.args.get("scale")
    name = {"3": "epoch_ms", "6": "make_timestamp"}.get(
        scale.name if scale is not None else "", "to_timestamp"
    )
    return anonymous(exp.Anonymous(this=name, expressions=[_known(node.this, types)]), types)


def _series(node: exp.Expr, types: Types) -> exp.Expr:
    """`range` over dates: sqlglot does the numbers."""
    start, end, step = (node.args.get(key) for key in ("start", "end", "step"))
    if not isinstance(types.of(step), T.DayTimeIntervalType) or isinstance(node.parent, exp.Table):
        return node
    assert start is not None and end is not None and step is not None
    whole = "sequence(CAST(_1 AS TIMESTAMP_NTZ), CAST(_2 AS TIMESTAMP_NTZ), _3)"
    if not node.args.get("is_end_exclusive"):
        return spark(whole, start, end, step)
    return spark(f"filter({whole}, x -> x < _2)", start, end, step)


def _glob(node: exp.Expr, types: Types) -> exp.Expr:
    pattern = node.expression
    if not isinstance(pattern, exp.Literal):
        raise InvalidInputError("GLOB takes a pattern that is written out.")
    regex = fnmatch.translate(pattern.name).replace("\\Z", "").replace("\\z", "")
    return spark("_1 RLIKE concat('^', _2, '$')", node.this, exp.Literal.string(regex))


def _format(node: exp.Expr, types: Types) -> exp.Expr:
    return anonymous(exp.Anonymous(this="format", expressions=[node.this, *node.expressions]), types)


def _regexp_replace(node: exp.Expr, types: Types) -> exp.Expr:
    """DuckDB replaces the first match, unless told to go on, and writes groups as `\\1`."""
    modifiers = node.args.get("modifiers")
    flags = modifiers.name if isinstance(modifiers, exp.Literal) else ""
    once = "g" not in flags and bool(node.args.get("single_replace", True))
    text, pattern, new = node.this, node.expression, node.args.get("replacement") or exp.Literal.string("")
    if "i" in flags:
        pattern = spark("concat('(?i)', _1)", pattern)
    if isinstance(new, exp.Literal):
        shift = 1 if once else 0
        parts = re.split(r"\\(\d)", new.name.replace("$", "\\$"))
        new = exp.Literal.string(
            "".join(part if place % 2 == 0 else f"${int(part) + shift}" for place, part in enumerate(parts))
        )
    if not once:
        return spark("regexp_replace(_1, _2, _3)", text, pattern, new)
    return spark("regexp_replace(_1, concat('(?s)^(.*?)(?:', _2, ')'), concat('$1', _3))", text, pattern, new)


def _interval(node: exp.Expr, types: Types) -> exp.Expr:
    unit, value = node.args.get("unit"), node.this
    if unit is None or isinstance(value, exp.Literal) or value is None:
        return node
    text = _INTERVALS.get(unit.name.upper().rstrip("S"))
    return node if text is None else spark(text, value)


def _date_add(node: exp.Expr, types: Types) -> exp.Expr:
    if isinstance(node.expression, exp.Interval):
        return spark("CAST(_1 AS TIMESTAMP_NTZ) + _2", node.this, node.expression)
    return node


def _anonymous(node: exp.Expr, types: Types) -> exp.Expr:
    assert isinstance(node, exp.Anonymous)
    return anonymous(node, types)


_RULES: Mapping[type, Rule] = {
    exp.Div: _div,
    exp.IntDiv: _int_div,
    exp.Mod: _mod,
    exp.Log: _log,
    exp.Add: _arithmetic,
    exp.Sub: _arithmetic,
    exp.EQ: _compare,
    exp.NEQ: _compare,
    exp.GT: _compare,
    exp.GTE: _compare,
    exp.LT: _compare,
    exp.LTE: _compare,
    exp.Cast: cast,
    exp.Bracket: _bracket,
    exp.ToMap: _to_map,
    exp.Map: _map,
    exp.Array: _array,
    exp.ArraySize: _array_size,
    exp.Length: _array_size,
    exp.Contains: _contains,
    exp.ArrayOverlaps: _pairwise("arrays_overlap(_1, _2)"),
    exp.ArrayContainsAll: _pairwise("size(array_except(_2, _1)) = 0"),
    exp.ArrayContainedBy: _pairwise("size(array_except(_1, _2)) = 0"),
    exp.SimilarTo: _pairwise("_1 RLIKE concat('^(?:', _2, ')$')"),
    exp.RegexpFullMatch: _pairwise("_1 RLIKE concat('^(?:', _2, ')$')"),
    exp.RegexpLike: _regexp_like,
    exp.Like: _like,
    exp.ILike: _like,
    exp.Substring: _substring,
    exp.Left: _side("if(_2 < 0, substring(_1, 1, greatest(length(_1) + _2, 0)), left(_1, _2))"),
    exp.Right: _side("if(_2 < 0, substring(_1, 1 - _2), right(_1, _2))"),
    exp.Split: _split,
    exp.Lambda: _lambda_index,
    exp.Typeof: _typeof,
    exp.Kurtosis: _one(KURTOSIS),
    exp.Skewness: _one(SKEWNESS),
    exp.Glob: _glob,
    exp.Format: _format,
    exp.RegexpReplace: _regexp_replace,
    exp.ArrayContains: _pairwise(
        "if(_1 IS NULL OR _2 IS NULL, NULL, coalesce(array_contains(_1, _2), false))"
    ),
    exp.ArrayDistinct: _one("array_distinct(array_compact(_1))"),
    exp.Week: _one("weekofyear(_1)"),
    exp.ToDays: _one("make_dt_interval(_1)"),
    exp.DayOfWeek: _one("dayofweek(_1) - 1"),
    exp.DayOfWeekIso: _one("weekday(_1) + 1"),
    exp.Monthname: _one("date_format(_1, 'MMMM')"),
    exp.Dayname: _one("date_format(_1, 'EEEE')"),
    exp.TimeToUnix: _one("unix_micros(CAST(_1 AS TIMESTAMP)) / 1000000D"),
    exp.UnixToTime: _epoch,
    exp.TimeToStr: _time_text,
    exp.StrToTime: _time_text,
    exp.DateDiff: _date_diff,
    exp.GenerateSeries: _series,
    exp.IsInf: _one("abs(_1) = double('Infinity')"),
    exp.Extract: _extract,
    exp.DateTrunc: _trunc,
    exp.TimestampTrunc: _trunc,
    exp.Interval: _interval,
    exp.DateAdd: _date_add,
    exp.Anonymous: _anonymous,
    **duckdb_aggregates.RULES,
}
