"""DuckDB's trees -> Spark's, with DuckDB's answers: division, casts, lists from 1, NULLs in lists, times."""

from __future__ import annotations

import fnmatch
import functools
import re
from collections.abc import Callable, Mapping

import pyspark.sql.types as T
from sqlglot import exp
from sqlglot.expressions import apply_index_offset

from ducklake_spark.errors import InvalidInputError
from ducklake_spark.format import duckdb_sql
from ducklake_spark.sql.duckdb import aggregates as duckdb_aggregates
from ducklake_spark.sql.duckdb import binder as duckdb_binder
from ducklake_spark.sql.duckdb import formats as duckdb_formats
from ducklake_spark.sql.duckdb import numbers as duckdb_numbers
from ducklake_spark.sql.duckdb import order as duckdb_order
from ducklake_spark.sql.duckdb import select as duckdb_select
from ducklake_spark.sql.duckdb import times as duckdb_times
from ducklake_spark.sql.duckdb.casts import cast, text_of
from ducklake_spark.sql.duckdb.functions import (
    KURTOSIS,
    SKEWNESS,
    TEXTS,
    anonymous,
    is_known,
    slice_of,
    spark,
    wrapped,
)
from ducklake_spark.sql.duckdb.types import Types, is_integer

Rule = Callable[[exp.Expr, Types], exp.Expr]
NODE_NUMBER = "ducklake_node_number"
"""The key under which a node's meta has its number, so that copies of it can be told."""


class UntranslatedError(InvalidInputError):
    """An expression that Spark's SQL lacks; `number` is its node's, where the tree has numbers."""

    def __init__(self, message: str, number: int | None) -> None:
        super().__init__(message)
        self.number = number


def translate(
    tree: exp.Expr,
    schemas: Mapping[str, T.StructType] | None = None,
    declared: Mapping[str, Mapping[str, str]] | None = None,
    *,
    is_strict: bool = False,
) -> exp.Expr:
    """A tree that Spark's generator prints as SQL with DuckDB's meaning.

    Args:
        tree: A query or an expression in DuckDB's dialect; it is not changed.
        schemas: The columns of tables, by the names that they have in the tree.
        declared: DuckDB's own types of these columns, where they are known.
        is_strict: Whether the nodes have their types and numbers already, and every function has to be known here.

    Raises:
        InvalidInputError: Something that Spark cannot do, by its name.
    """
    known = schemas or {}
    tree = plain_calls(tree.copy())
    if not is_strict:
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
        try:
            made = _translated(node, types)
        except InvalidInputError as error:
            raise UntranslatedError(str(error), node.meta.get(NODE_NUMBER)) from None
        if is_strict:
            _require_whole(node, made)
        if made is node:
            continue
        types.put(made, types.of(node))
        if node is tree:
            tree = made
        else:
            node.replace(made)
    return tree


SAME = frozenset(
    {"octet_length", "now", "map_values", "map_entries", "map_keys", "cardinality", "uuid", "random"}
)
"""Functions that sqlglot does not know, and that Spark has with DuckDB's answers."""
WORKERS = "ducklake_duckdb_"
"""How the names of functions begin that DuckDB answers in the workers."""


_LIMITED = ("Spark cannot ", "The type is not known in time")
"""How the errors begin that rules raise while Spark computes, where DuckDB would have an answer."""


def _require_whole(node: exp.Expr, made: exp.Expr) -> None:
    """Refuses what is no function of Spark's, and what has no answer for some values.

    Raises:
        UntranslatedError: It is for DuckDB.
    """
    number = node.meta.get(NODE_NUMBER)
    if isinstance(made, exp.Anonymous) and not _is_known(node, made):
        raise UntranslatedError(f"Spark has no function {made.name}.", number)
    if made is not node and number is not None:
        for text in made.find_all(exp.Literal):
            if text.is_string and text.name.startswith(_LIMITED):
                raise UntranslatedError(text.name, number)


def _is_known(node: exp.Expr, made: exp.Anonymous) -> bool:
    if node.meta.get(NODE_NUMBER) is None:
        return True  # none of the user's
    name = made.name.lower()
    is_as_before = isinstance(node, exp.Anonymous) and node.name.lower() == name
    return not is_as_before or name in SAME or name.startswith(WORKERS) or name in TEXTS


def is_call_known(name: str) -> bool:
    """Whether there is a rule for a function that sqlglot does not know."""
    return name in _CALLS or is_known(name)


def plain_calls(tree: exp.Expr) -> exp.Expr:
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


# Operators.


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
    if isinstance(node, (exp.LT, exp.LTE, exp.GT, exp.GTE)):
        node = duckdb_order.compared(node, *pair)
    return duckdb_numbers.compared_with_text(node, types)


def _ordered(node: exp.Expr, types: Types) -> exp.Expr:
    made = duckdb_order.key(node.this, types.of(node.this))
    if made is not None and not isinstance(node.this, exp.Literal):
        node.set("this", made)
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
    if isinstance(kind, T.StringType):
        return spark("substring(_1, _2, if(_2 = 0, 0, 1))", inner, index)
    if isinstance(index, exp.Null):
        return spark("try_element_at(_1, CAST(NULL AS INT))", inner)
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


def _to_map(node: exp.Expr, _types: Types) -> exp.Expr:
    pairs = node.this.expressions
    return exp.Anonymous(
        this="map", expressions=[side for pair in pairs for side in (pair.this, pair.expression)]
    )


def _map(node: exp.Expr, _types: Types) -> exp.Expr:
    keys, values = node.args.get("keys"), node.args.get("values")
    if keys is None or values is None:
        return exp.Anonymous(this="map", expressions=[])
    return spark("map_from_arrays(_1, _2)", keys, values)


def _array(node: exp.Expr, _types: Types) -> exp.Expr:
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
    return lambda node, _types: wrapped(spark(text, node.this, node.expression))


def _one(text: str) -> Rule:
    return lambda node, _types: wrapped(spark(text, node.this))


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


def _like(node: exp.Expr, _types: Types) -> exp.Expr:
    """Without ESCAPE a backslash is a backslash."""
    pattern = node.expression
    if isinstance(node.parent, exp.Escape):
        return node
    if isinstance(pattern, exp.Literal):
        node.set("expression", exp.Literal.string(pattern.name.replace("\\", "\\\\")))
    elif not isinstance(pattern, (exp.Any, exp.All)):
        node.set("expression", spark("replace(_1, '\\\\', '\\\\\\\\')", pattern))
    return node


def _substring(node: exp.Expr, _types: Types) -> exp.Expr:
    """A negative length goes to the left."""
    start, length = node.args.get("start"), node.args.get("length")
    if length is None or start is None:
        return node
    if isinstance(length, exp.Literal) and isinstance(start, exp.Literal) and start.name != "0":
        return node
    first = "if(_2 < 0, greatest(length(_1) + _2 + 1, 1), _2)"
    left = f"greatest({first} + _3, 1)"
    return spark(
        f"CASE WHEN _3 < 0 THEN substring(_1, {left}, greatest({first} - {left}, 0)) "
        "WHEN _2 = 0 THEN substring(_1, 1, greatest(_3 - 1, 0)) ELSE substring(_1, _2, _3) END",
        node.this,
        start,
        length,
    )


def _split_part(node: exp.Expr, _types: Types) -> exp.Expr:
    text, separator, place = (node.args[key] for key in ("this", "delimiter", "part_index"))
    if isinstance(separator, exp.Literal) and not separator.name:
        return spark(
            "coalesce(try_element_at(regexp_extract_all(_1, '(?s).', 0), nullif(_2, 0)), '')", text, place
        )
    if isinstance(place, exp.Literal) and place.name != "0":
        return node
    return spark(
        "if(_3 = 0, left(concat(_1, _2), 0), split_part(_1, _2, nullif(_3, 0)))", text, separator, place
    )


def _shown(value: exp.Expr, types: Types) -> exp.Expr:
    """A value that becomes part of a text, as DuckDB prints it."""
    kind = types.of(value)
    if isinstance(value, exp.Literal) or isinstance(kind, (T.StringType, T.NullType)):
        return value
    text = text_of(value, kind)
    return spark("CAST(_1 AS STRING)", value) if text is None else text


def _concat_ws(node: exp.Expr, types: Types) -> exp.Expr:
    first, *values = node.expressions
    return exp.Anonymous(this="concat_ws", expressions=[first, *(_shown(each, types) for each in values)])


def _concat(node: exp.Expr, types: Types) -> exp.Expr:
    """A NULL is nothing; lists make a list."""
    values = [each for each in node.expressions if not isinstance(each, exp.Null)]
    lists = [each for each in values if isinstance(types.of(each), T.ArrayType)]
    if lists and len(lists) == len(values):
        one = exp.Anonymous(this="coalesce", expressions=[each.copy() for each in lists])
        empty = spark("slice(_1, 1, 0)", one)
        return exp.Anonymous(
            this="concat", expressions=[spark("coalesce(_1, _2)", each, empty) for each in lists]
        )
    texts = [spark("coalesce(_1, '')", _shown(each, types)) for each in values]
    return exp.Anonymous(this="concat", expressions=texts or [exp.Literal.string("")])


def _array_concat(node: exp.Expr, types: Types) -> exp.Expr:
    """`list_concat`, for which a NULL is an empty list."""
    made = exp.Concat(expressions=[node.this, *node.expressions])
    return spark("coalesce(_1, array())", _concat(made, types))


def _hex(node: exp.Expr, types: Types) -> exp.Expr:
    if isinstance(types.of(node.this), (T.LongType, T.DecimalType)):  # which may be unsigned
        raise InvalidInputError("Spark's hex() takes no numbers of more than 63 bits.")
    return node


def _version(_node: exp.Expr, _types: Types) -> exp.Expr:
    """That of the DuckDB which is here, as its own `version()` says it."""
    return exp.Literal.string(str(duckdb_sql.answers("SELECT version()")[0][0]))


def _pipes(node: exp.Expr, types: Types) -> exp.Expr:
    kinds = [types.of(each) for each in (node.this, node.expression)]
    if any(isinstance(kind, (T.ArrayType, T.BinaryType)) for kind in kinds):
        return node
    for key, kind in zip(("this", "expression"), kinds, strict=True):
        value = node.args[key]
        if kind is not None and not isinstance(value, exp.Null):
            node.set(key, _shown(value, types))
    return node


def _chr(node: exp.Expr, _types: Types) -> exp.Expr:
    return spark(TEXTS["chr"], node.expressions[0])


def _array_contains(node: exp.Expr, _types: Types) -> exp.Expr:
    if isinstance(node.expression, exp.Null):
        return spark("CAST(NULL AS BOOLEAN)")
    return spark(TEXTS["list_contains"], node.this, node.expression)


def _side(text: str) -> Rule:
    """`left` and `right`, which leave out as many from the other side when the number is negative."""

    def rule(node: exp.Expr, _types: Types) -> exp.Expr:
        count = node.expression
        plain = isinstance(count, exp.Literal)
        return node if plain else spark(text, node.this, count)

    return rule


def _split(node: exp.Expr, _types: Types) -> exp.Expr:
    separator = node.expression
    if isinstance(separator, exp.Literal) and not separator.name:
        return spark("filter(split(_1, ''), x -> x <> '')", node.this)
    return node


def _regexp_like(node: exp.Expr, _types: Types) -> exp.Expr:
    flag = node.args.get("flag")
    if isinstance(flag, exp.Literal) and "i" in flag.name:
        return exp.Paren(this=spark("_1 RLIKE concat('(?i)', _2)", node.this, node.expression))
    return exp.Paren(this=spark("_1 RLIKE _2", node.this, node.expression))


def _upper(node: exp.Expr, _types: Types) -> exp.Expr:
    """Character by character, where Java would make two of one: "ẞ" of "ß", and "ŉ" stays."""
    if isinstance(node.this, exp.Literal) and node.this.name.isascii():
        return node
    odd, made = _odd_cases()
    return spark(
        f"if(_1 RLIKE '[{odd}]', array_join(transform(regexp_extract_all(_1, '(?s).', 0), "
        f"x -> if(x RLIKE '[{odd}]', translate(x, '{odd}', '{made}'), upper(x))), ''), upper(_1))",
        node.this,
    )


@functools.cache
def _odd_cases() -> tuple[str, str]:
    """Characters whose upper case is more than one, and what DuckDB makes of each."""
    odd = [chr(code) for code in range(0x80, 0xFB20) if len(chr(code).upper()) > 1]
    titles = {char: "ẞ" if char == "ß" else char.title() for char in odd}
    return "".join(odd), "".join(title if len(title) == 1 else char for char, title in titles.items())


def _lower(node: exp.Expr, _types: Types) -> exp.Expr:
    """Without regard to what stands around: a Σ at the end of a word is no other letter."""
    if isinstance(node.this, exp.Literal) and node.this.name.isascii():
        return node
    return spark("lower(translate(_1, 'İΣ', 'iσ'))", node.this)


def _typeof(node: exp.Expr, _types: Types) -> exp.Expr:
    name = node.meta.get(duckdb_binder.TYPE)
    if name is None:
        raise InvalidInputError(f"The type in {node.sql('duckdb')} cannot be told here: it depends on Spark.")
    text = exp.Literal.string(name)
    if any(each.find_ancestor(exp.Window) is None for each in node.this.find_all(exp.AggFunc)):
        return spark("if(count(1) IS NULL, NULL, _1)", text)  # still one row for each group
    return text


def _lambda_index(node: exp.Expr, _types: Types) -> exp.Expr:
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


# Others.


def _glob(node: exp.Expr, _types: Types) -> exp.Expr:
    pattern = node.expression
    if not isinstance(pattern, exp.Literal):
        raise InvalidInputError("GLOB takes a pattern that is written out.")
    regex = fnmatch.translate(pattern.name).replace("\\Z", "").replace("\\z", "")
    return spark("_1 RLIKE concat('^', _2, '$')", node.this, exp.Literal.string(regex))


def _format(node: exp.Expr, types: Types) -> exp.Expr:
    return duckdb_formats.format_([node.this, *node.expressions], types)


def _regexp_replace(node: exp.Expr, _types: Types) -> exp.Expr:
    """DuckDB replaces the first match, unless told to go on, and writes groups as `\\1`."""
    modifiers = node.args.get("modifiers")
    flags = modifiers.name if isinstance(modifiers, exp.Literal) else ""
    once = "g" not in flags and bool(node.args.get("single_replace", True))
    text, pattern, new = node.this, node.expression, node.args.get("replacement") or exp.Literal.string("")
    if "i" in flags:
        pattern = spark("concat('(?i)', _1)", pattern)
    if isinstance(new, exp.Literal):
        shift = 2 if once else 0
        parts = re.split(r"\\(\d)", new.name.replace("$", "\\$"))
        new = exp.Literal.string(
            "".join(part if place % 2 == 0 else f"${int(part) + shift}" for place, part in enumerate(parts))
        )
    if not once:
        return spark("regexp_replace(_1, _2, _3)", text, pattern, new)
    return spark("regexp_replace(_1, concat('(?s)^(.*?)(', _2, ')'), concat('$1', _3))", text, pattern, new)


def _anonymous(node: exp.Expr, types: Types) -> exp.Expr:
    assert isinstance(node, exp.Anonymous)
    make = _CALLS.get(node.name.lower())
    made = make(list(node.expressions), types) if make is not None else None
    return anonymous(node, types) if made is None else made


_CALLS: Mapping[str, Callable[[list[exp.Expr], Types], exp.Expr | None]] = {
    "printf": duckdb_formats.printf,
    "format": duckdb_formats.format_,
    **duckdb_times.CALLS,
    **duckdb_numbers.CALLS,
}
_RULES: Mapping[type, Rule] = {
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
    exp.ArrayOverlaps: _pairwise(TEXTS["list_has_any"]),
    exp.ArrayContainsAll: _pairwise(TEXTS["list_has_all"]),
    exp.ArrayContainedBy: _pairwise("size(array_except(array_compact(_1), _2)) = 0"),
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
    exp.Upper: _upper,
    exp.Lower: _lower,
    exp.Kurtosis: _one(KURTOSIS),
    exp.Skewness: _one(SKEWNESS),
    exp.Glob: _glob,
    exp.Format: _format,
    exp.RegexpReplace: _regexp_replace,
    exp.ArrayContains: _array_contains,
    exp.ArrayDistinct: _one("array_distinct(array_compact(_1))"),
    exp.Week: _one("weekofyear(_1)"),
    exp.ToDays: _one("make_dt_interval(_1)"),
    exp.DayOfWeek: _one("dayofweek(_1) - 1"),
    exp.DayOfWeekIso: _one("weekday(_1) + 1"),
    exp.Monthname: _one("date_format(_1, 'MMMM')"),
    exp.Dayname: _one("date_format(_1, 'EEEE')"),
    exp.TimeToUnix: duckdb_times.epoch,
    exp.UnixToTime: duckdb_times.from_number,
    exp.TimeToStr: duckdb_times.time_text,
    exp.StrToTime: duckdb_times.time_text,
    exp.DateDiff: duckdb_times.date_diff,
    exp.GenerateSeries: duckdb_times.series,
    exp.CurrentVersion: _version,
    exp.Hex: _hex,
    exp.IsNan: _one("if(_1 IS NULL, NULL, isnan(_1))"),
    exp.IsInf: _one("abs(_1) = double('Infinity')"),
    exp.Extract: duckdb_times.extract,
    exp.DateTrunc: duckdb_times.trunc,
    exp.TimestampTrunc: duckdb_times.trunc,
    exp.Interval: duckdb_times.interval,
    exp.DateAdd: duckdb_times.date_add,
    exp.Anonymous: _anonymous,
    exp.Ordered: _ordered,
    exp.SplitPart: _split_part,
    exp.ConcatWs: _concat_ws,
    exp.Concat: _concat,
    exp.ArrayConcat: _array_concat,
    exp.DPipe: _pipes,
    exp.AtTimeZone: duckdb_times.at_time_zone,
    exp.Chr: _chr,
    exp.Unicode: _one("if(_1 = '', -1, ascii(_1))"),
    exp.Flatten: _one("flatten(array_compact(_1))"),
    exp.ArrayPosition: _pairwise(TEXTS["list_position"]),
    **duckdb_numbers.RULES,
    **duckdb_aggregates.RULES,
}
