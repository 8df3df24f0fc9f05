"""DuckDB's functions that Spark has under another name, with other arguments, or not at all: each as Spark's SQL.

In a text, `_1` is the first argument. What is not listed here is the same in both, or sqlglot knows it.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Mapping

import pyspark.sql.types as T
import sqlglot
from pyspark.sql import functions as F
from sqlglot import exp

from ducklake_spark.errors import InvalidInputError
from ducklake_spark.sql.duckdb.types import Types, is_float

HAS_FIRST = "k" in inspect.signature(F.max_by).parameters
"""Whether Spark has `max_by(x, y, k)`, which keeps the first of equal values: since 4.2. Without it any is taken."""
_SUM = (
    "CASE WHEN size(array_compact(_1)) > 0 THEN aggregate(array_compact(_1), CAST({zero} AS {type}), "
    "(acc, x) -> CAST(acc {op} x AS {type})) END"
)
_SELECT = "if(_1 IS NULL, NULL, transform(_2, i -> if(i > 0, try_element_at(_1, nullif(i, 0)), NULL)))"
_WHERE = (
    "if(_1 IS NULL, NULL, transform(filter(transform(_2, (x, i) -> if(x, i + 1, 0)), i -> i > 0), "
    "i -> try_element_at(_1, i)))"
)

KURTOSIS = (
    "CASE WHEN count(_1) > 3 THEN (count(_1) - 1) / ((count(_1) - 2D) * (count(_1) - 3)) "
    "* ((count(_1) + 1) * kurtosis(_1) + 6) END"
)
SKEWNESS = (
    "CASE WHEN count(_1) > 2 THEN coalesce(skewness(_1), double('NaN')) "
    "* sqrt(count(_1) * (count(_1) - 1D)) / (count(_1) - 2) END"
)

TEXTS: Mapping[str, str] = {
    # numbers
    "mod": "_1 % nullif(_2, 0)",
    "even": "if(_1 >= 0, ceil(_1 / 2), floor(_1 / 2)) * 2",
    "isfinite": "NOT isnan(_1) AND abs(_1) < double('Infinity')",
    "isinf": "abs(_1) = double('Infinity')",
    "log": "log10(_1)",
    "gamma": "gamma(_1)",
    # texts
    "suffix": "endswith(_1, _2)",
    "prefix": "startswith(_1, _2)",
    "strlen": "octet_length(_1)",
    "ord": "if(_1 = '', -1, ascii(_1))",
    "url_encode": "replace(replace(replace(url_encode(_1), '+', '%20'), '*', '%2A'), '%7E', '~')",
    "url_decode": "url_decode(replace(_1, '+', '%2B'))",
    "regexp_full_match": "_1 RLIKE concat('^(?:', _2, ')$')",
    "regexp_matches": "_1 RLIKE _2",
    "regexp_split_to_array": "split(_1, _2)",
    "string_split_regex": "split(_1, _2)",
    "str_split_regex": "split(_1, _2)",
    "to_hex": "hex(_1)",
    "array_to_string": "array_join(_1, _2)",
    "list_string_agg": "if(size(array_compact(_1)) > 0, array_join(_1, ','), NULL)",
    "to_base64": "base64(_1)",
    "from_base64": "unbase64(_1)",
    "string_split": "split(_1, concat('\\\\Q', _2, '\\\\E'))",
    "chr": "decode(unhex(lpad(hex(_1), 8, '0')), 'UTF-32')",
    # lists
    "list_cat/2": "concat(coalesce(_1, slice(_2, 1, 0)), coalesce(_2, slice(_1, 1, 0)))",
    "array_cat/2": "concat(coalesce(_1, slice(_2, 1, 0)), coalesce(_2, slice(_1, 1, 0)))",
    "list_reverse": "reverse(_1)",
    "array_reverse": "reverse(_1)",
    "list_unique": "size(array_distinct(array_compact(_1)))",
    "list_distinct": "array_distinct(array_compact(_1))",
    "list_contains": "if(_1 IS NULL OR _2 IS NULL, NULL, coalesce(array_contains(_1, _2), false))",
    "list_has": "if(_1 IS NULL OR _2 IS NULL, NULL, coalesce(array_contains(_1, _2), false))",
    "list_position": "nullif(array_position(transform(_1, x -> x <=> _2), true), 0)",
    "list_indexof": "nullif(array_position(transform(_1, x -> x <=> _2), true), 0)",
    "list_min": "array_min(_1)",
    "list_max": "array_max(_1)",
    "list_count": "size(array_compact(_1))",
    "list_avg": "CASE WHEN size(array_compact(_1)) > 0 THEN aggregate(array_compact(_1), 0D, (acc, x) -> acc + x)"
    " / size(array_compact(_1)) END",
    "list_product": _SUM.format(zero=1, type="DOUBLE", op="*"),
    "list_first": "try_element_at(_1, 1)",
    "list_last": "try_element_at(_1, -1)",
    "list_any_value": "try_element_at(array_compact(_1), 1)",
    "list_has_any": "arrays_overlap(array_compact(_1), array_compact(_2))",
    "list_has_all": "size(array_except(array_compact(_2), _1)) = 0",
    "list_intersect": "array_intersect(array_compact(_1), _2)",
    "list_resize/2": "slice(concat(_1, array_repeat(NULL, greatest(_2 - size(_1), 0))), 1, _2)",
    "list_resize": "slice(concat(_1, array_repeat(_3, greatest(_2 - size(_1), 0))), 1, _2)",
    "list_select": _SELECT,
    "array_select": _SELECT,
    "list_where": _WHERE,
    "array_where": _WHERE,
    "list_reduce/3": "aggregate(_1, _3, _2)",
    "list_reduce": "aggregate(slice(_1, 2, greatest(size(_1) - 1, 0)), try_element_at(_1, 1), _2)",
    "list_filter": "filter(_1, _2)",
    "list_transform": "transform(_1, _2)",
    "list_apply": "transform(_1, _2)",
    "array_apply": "transform(_1, _2)",
    "list_reverse_sort": "sort_array(_1, false)",
    # maps and structs
    "map_contains": "map_contains_key(_1, _2)",
    "map_extract": "if(_1 IS NULL, NULL, if(map_contains_key(_1, _2), array(_1[_2]), array()))",
    "map_extract_value": "_1[_2]",
    # times
    "monthname": "date_format(_1, 'MMMM')",
    "dayname": "date_format(_1, 'EEEE')",
    "to_timestamp": "timestamp_micros(CAST(_1 * 1000000 AS BIGINT))",
    "make_timestamp": "make_timestamp_ntz(_1, _2, _3, _4, _5, _6)",
    "today": "current_date()",
    "get_current_timestamp": "current_timestamp()",
    "transaction_timestamp": "current_timestamp()",
    "to_microseconds": "make_dt_interval(0, 0, 0, CAST(_1 / 1000000 AS DECIMAL(18, 6)))",
    "to_milliseconds": "make_dt_interval(0, 0, 0, CAST(_1 / 1000 AS DECIMAL(18, 6)))",
    "to_seconds": "make_dt_interval(0, 0, 0, _1)",
    "to_minutes": "make_dt_interval(0, 0, _1)",
    "to_hours": "make_dt_interval(0, _1)",
    "to_days": "make_dt_interval(_1)",
    "to_weeks": "make_dt_interval(_1 * 7)",
    "to_months": "make_ym_interval(0, _1)",
    "to_quarters": "make_ym_interval(0, _1 * 3)",
    "to_years": "make_ym_interval(_1)",
    # aggregates
    "product": "aggregate(collect_list(_1), 1D, (acc, x) -> acc * x)",
    "count_star": "count(*)",
    "kurtosis": KURTOSIS,
    "kurtosis_pop": "kurtosis(_1)",
    "skewness": SKEWNESS,
    "favg": "avg(_1)",
    "sem": "stddev_pop(_1) / sqrt(count(_1))",
    "arbitrary": "first(_1, true)",
    "arg_min_null": "try_element_at(min_by(_1, _2, 1), 1)" if HAS_FIRST else "min_by(_1, _2)",
    "arg_max_null": "try_element_at(max_by(_1, _2, 1), 1)" if HAS_FIRST else "max_by(_1, _2)",
    "fsum": "sum(_1)",
    # others
    "ifnull": "coalesce(_1, _2)",
    "hash": "xxhash64(_1)",
    "gen_random_uuid": "uuid()",
    "current_schema": "'main'",
}

_VARIADIC = {"row": "struct", "list_value": "array", "list_pack": "array"}
_SYNONYMS = {
    "array_append": "list_append", "array_prepend": "list_prepend", "array_contains": "list_contains",
    "array_has": "list_contains", "array_position": "list_position", "array_indexof": "list_position",
    "array_distinct": "list_distinct", "array_unique": "list_unique", "array_has_any": "list_has_any",
    "array_has_all": "list_has_all", "array_intersect": "list_intersect", "array_filter": "list_filter",
    "array_transform": "list_transform", "list_concat": "list_cat", "array_concat": "list_cat",
    "array_reverse_sort": "list_reverse_sort", "array_resize": "list_resize", "list_aggr": "list_aggregate",
    "array_aggregate": "list_aggregate", "array_aggr": "list_aggregate", "aggregate": "list_aggregate",
    "array_slice": "list_slice", "reduce": "list_reduce", "array_reduce": "list_reduce",
    "array_extract": "list_extract", "list_element": "list_extract", "str_split": "string_split",
    "string_to_array": "string_split", "uuid": "gen_random_uuid",
}  # fmt: skip


@functools.lru_cache(maxsize=1024)
def _parsed(text: str) -> exp.Expr:
    root = sqlglot.parse_one(f"SELECT {text}", read="spark")
    for node in list(root.find_all(exp.ArgMax, exp.ArgMin)):
        if node.args.get("count") is not None:  # sqlglot does not print it for Spark
            name = "max_by" if isinstance(node, exp.ArgMax) else "min_by"
            parts = [node.this, node.expression, node.args["count"]]
            node.replace(exp.Anonymous(this=name, expressions=parts))
    found: exp.Expr = root.expressions[0]
    return found


def spark(text: str, *args: exp.Expr) -> exp.Expr:
    """The tree of a piece of Spark's SQL with arguments in it.

    >>> spark("_1 + coalesce(_2, 0)", exp.column("a"), exp.column("b")).sql("spark")
    'a + COALESCE(b, 0)'
    """
    tree = exp.Paren(this=_parsed(text).copy())
    for column in list(tree.find_all(exp.Column)):
        name = column.name
        if not column.table and name.startswith("_") and name[1:].isdigit() and int(name[1:]) <= len(args):
            value = args[int(name[1:]) - 1].copy()
            loose = isinstance(value, (exp.Binary, exp.Unary, exp.Between, exp.In)) and not isinstance(
                value, (exp.Paren, exp.Dot)
            )
            column.replace(exp.Paren(this=value) if loose else value)
    made: exp.Expr = tree.this
    return made


def wrapped(node: exp.Expr) -> exp.Expr:
    """In parentheses, if something around it could bind closer."""
    return exp.Paren(this=node) if isinstance(node, (exp.Binary, exp.Unary, exp.Case)) else node


def anonymous(node: exp.Anonymous, types: Types) -> exp.Expr:
    """A function that sqlglot does not know."""
    name = node.name.lower()
    name = _SYNONYMS.get(name, name)
    args = list(node.expressions)
    special = _SPECIAL.get(name)
    if special is not None:
        made = special(args, types)
        if made is not None:
            return made
    if name in _VARIADIC:
        return exp.Anonymous(this=_VARIADIC[name], expressions=args)
    text = TEXTS.get(f"{name}/{len(args)}") or TEXTS.get(name)
    if text is None:
        return node
    return wrapped(spark(text, *args))


def _list_sum(args: list[exp.Expr], types: Types) -> exp.Expr:
    kind = types.of(args[0])
    element = kind.elementType if isinstance(kind, T.ArrayType) else None
    made = (
        "DOUBLE"
        if is_float(element)
        else "DECIMAL(38, 6)"
        if isinstance(element, T.DecimalType)
        else "BIGINT"
    )
    return spark(_SUM.format(zero=0, type=made, op="+"), args[0])


def _length(args: list[exp.Expr], types: Types) -> exp.Expr:
    kind = types.of(args[0])
    if isinstance(kind, (T.ArrayType, T.MapType)):
        return spark("CAST(if(_1 IS NULL, NULL, size(_1)) AS BIGINT)", args[0])
    return spark("CAST(length(_1) AS BIGINT)", args[0])


def _list_aggregate(args: list[exp.Expr], types: Types) -> exp.Expr | None:
    if len(args) < 2 or not isinstance(args[1], exp.Literal):
        return None
    name = args[1].name.lower()
    if name == "string_agg" and len(args) == 3:
        return spark("array_join(_1, _2)", args[0], args[2])
    made = anonymous(exp.Anonymous(this=f"list_{name}", expressions=[args[0]]), types)
    return None if isinstance(made, exp.Anonymous) and made.name == f"list_{name}" else made


def _contains(args: list[exp.Expr], types: Types) -> exp.Expr | None:
    kind = types.of(args[0])
    if isinstance(kind, T.ArrayType):
        return spark(TEXTS["list_contains"], *args)
    return spark("map_contains_key(_1, _2)", *args) if isinstance(kind, T.MapType) else None


def _element_at(args: list[exp.Expr], types: Types) -> exp.Expr | None:
    if isinstance(types.of(args[0]), T.MapType):
        return spark(TEXTS["map_extract"], *args)
    return spark("try_element_at(_1, nullif(_2, 0))", *args)


def _struct_extract(args: list[exp.Expr], _types: Types) -> exp.Expr | None:
    if len(args) == 2 and isinstance(args[1], exp.Literal) and args[1].is_string:
        return exp.Dot(this=wrapped(args[0]), expression=exp.to_identifier(args[1].name, quoted=True))
    return None


def _struct_extract_at(args: list[exp.Expr], types: Types) -> exp.Expr | None:
    kind = types.of(args[0]) if len(args) == 2 else None
    if not isinstance(kind, T.StructType) or not isinstance(args[1], exp.Literal):
        return None
    place = int(args[1].name)
    if not 1 <= place <= len(kind.fields):
        raise InvalidInputError(
            f"The struct has {len(kind.fields)} fields, and none with the number {place}."
        )
    return exp.Dot(
        this=wrapped(args[0]), expression=exp.to_identifier(kind.fields[place - 1].name, quoted=True)
    )


def _struct_keys(args: list[exp.Expr], types: Types) -> exp.Expr | None:
    kind = types.of(args[0]) if len(args) == 1 else None
    if not isinstance(kind, T.StructType):
        return None
    names = exp.Anonymous(this="array", expressions=[exp.Literal.string(name) for name in kind.names])
    return spark("if(_1 IS NULL, NULL, _2)", args[0], names)


def _struct_insert(args: list[exp.Expr], types: Types) -> exp.Expr | None:
    kind = types.of(args[0]) if args else None
    if not isinstance(kind, T.StructType):
        return None
    pairs: list[exp.Expr] = []
    for field in kind.fields:
        access = exp.Dot(this=wrapped(args[0]), expression=exp.to_identifier(field.name, quoted=True))
        pairs += [exp.Literal.string(field.name), access.copy()]
    for each in args[1:]:
        if not isinstance(each, (exp.PropertyEQ, exp.Kwarg)):
            return None
        pairs += [exp.Literal.string(each.this.name), each.expression]
    return exp.Anonymous(this="named_struct", expressions=pairs)


def _slice(args: list[exp.Expr], types: Types) -> exp.Expr | None:
    """As in `l[a:b]` and `l[a:b:c]`."""
    if len(args) not in (3, 4):
        return None
    step = args[3] if len(args) == 4 else None
    return slice_of(args[0], exp.Slice(this=args[1], expression=args[2], step=step), types.of(args[0]))


def slice_of(inner: exp.Expr, bounds: exp.Slice, kind: T.DataType | None) -> exp.Expr:
    """A part of a list or a text: both ends belong to it, and negative ones count from the end.

    Raises:
        InvalidInputError: A step that is not written out, or one for a text.
    """
    first, last, step = (bounds.args.get(key) for key in ("this", "expression", "step"))
    if isinstance(step, exp.Neg):
        first, last = last, first
    if any(isinstance(each, exp.Null) for each in (first, last)):
        return spark("if(true, NULL, _1)", inner)
    size = "length(_1)" if isinstance(kind, T.StringType) else "size(_1)"
    start = f"greatest(if(_2 < 0, {size} + _2 + 1, _2), 1)"
    end = f"if(_3 < 0, {size} + _3 + 1, _3)"
    cut = "substring" if isinstance(kind, T.StringType) else "slice"
    part = spark(
        f"{cut}(_1, {start}, greatest({end} - {start} + 1, 0))",
        inner,
        exp.Literal.number(1) if first is None else first,
        exp.Literal.number(-1) if last is None else last,
    )
    return part if step is None else _every(part, step, kind)


def _every(part: exp.Expr, step: exp.Expr, kind: T.DataType | None) -> exp.Expr:
    """Each so-manieth element; backwards, if the step is negative."""
    down = isinstance(step, exp.Neg)
    count = step.this if isinstance(step, exp.Neg) else step
    if (
        not isinstance(count, exp.Literal)
        or count.is_string
        or count.name == "0"
        or isinstance(kind, T.StringType)
    ):
        raise InvalidInputError("A step is for lists only, and is a number that is written out.")
    text = f"filter({'reverse(_1)' if down else '_1'}, (x, i) -> i % _2 = 0)"
    return spark(text, part, count)


_SPECIAL: Mapping[str, Callable[[list[exp.Expr], Types], exp.Expr | None]] = {
    "list_sum": _list_sum,
    "len": _length,
    "length": _length,
    "array_length": _length,
    "list_aggregate": _list_aggregate,
    "contains": _contains,
    "element_at": _element_at,
    "list_extract": _element_at,
    "struct_extract": _struct_extract,
    "struct_insert": _struct_insert,
    "struct_extract_at": _struct_extract_at,
    "struct_keys": _struct_keys,
    "list_slice": _slice,
}


def is_known(name: str) -> bool:
    """Whether there is a rule here for a function that sqlglot does not know."""
    name = _SYNONYMS.get(name, name)
    return name in _RULED or name in _VARIADIC or name in _SPECIAL


_RULED = frozenset(name.split("/")[0] for name in TEXTS)
