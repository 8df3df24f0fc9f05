"""Calls of every function that DuckDB lists, with arguments made from the types of its parameters."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import duckdb

TABLE = r"""
CREATE TABLE calls (id INT, o BOOLEAN, ti TINYINT, si SMALLINT, i INT, j INT, b BIGINT, c BIGINT, u1 UTINYINT, u2 USMALLINT,
    u4 UINTEGER, u8 UBIGINT, h HUGEINT, r FLOAT, f DOUBLE, g DOUBLE, d DECIMAL(9,3), s VARCHAR, w VARCHAR, bl BLOB, dt DATE,
    du DATE, ts TIMESTAMP, tu TIMESTAMP, tz TIMESTAMPTZ, tn TIMESTAMP_NS, tm TIME, iv INTERVAL, js JSON, uu UUID, l INT[],
    k INT[], ls VARCHAR[], ld DOUBLE[], lo BOOLEAN[], m MAP(VARCHAR, INT), st STRUCT(x INT, y VARCHAR));
INSERT INTO calls VALUES
    (1, true, 1, 2, 3, 2, 10, 3, 1, 2, 3, 4, 17, 2.5, 0.5, 2.0, 2.5, 'abc', 'b', 'a\x00b'::BLOB, '2024-02-29', '2023-01-31',
     '2024-02-29 13:14:15.678901', '2023-01-31 01:02:03', '2024-02-29 13:14:15+00', '2024-02-29 13:14:15.678901234', '10:11:12.5',
     INTERVAL '14 months 3 days 01:02:03.5', '{"a": [1, 2, {"b": null}], "c": "x"}', '8a5e9b0c-4f1e-4c3a-9f2b-0123456789ab',
     [3, 1, NULL, 2], [1, 9], ['b', 'a', NULL], [0.5, 2.5], [true, false, NULL, true], MAP {'k': 1, 'j': 2}, {'x': 1, 'y': 'q'}),
    (2, false, -5, -7, -2, 3, -7, 2, 200, 60000, 4000000000, 18000000000000000000, -1, -0.1, -0.25, 3.0, -1.005, 'Straße É',
     ' x,y ', ''::BLOB, '1969-12-31', '2000-02-29', '1969-12-31 23:59:59.5', '2000-02-29 00:00:00', '1999-06-30 23:59:59.5+00',
     '1969-12-31 23:59:59.999999999', '00:00:00', INTERVAL '-1 day', '[1, "two", 3.5]', '00000000-0000-0000-0000-000000000001',
     [], [2, 2], [], [1.0, -1.5], [], MAP {'a b': 3}, {'x': NULL, 'y': 'it, {x}'}),
    (3, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL,
     NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL),
    (4, true, 0, 0, 0, 1, 70000, 5, 0, 0, 0, 0, 0, 0.0, 0.75, 1.5, 1.125, '', 'AbC 42', 'ab'::BLOB, '2021-01-03',
     '2024-12-30', '2021-01-03 00:00:00', '2024-12-30 12:00:00', '2021-01-03 00:00:00+00', '2021-01-03 00:00:00', '23:59:59.999999',
     INTERVAL '90 minutes', '"text"', 'ffffffff-ffff-7fff-bfff-ffffffffffff', [5], [5, NULL], ['x, y', 'NULL', ' it'], [3.0, 4.0],
     [NULL], MAP {'k': NULL}, {'x': 2, 'y': NULL})
"""

_ARGUMENTS: Mapping[str, Sequence[str]] = {
    "BOOLEAN": ("o", "true"),
    "TINYINT": ("ti", "2::TINYINT"),
    "SMALLINT": ("si", "2::SMALLINT"),
    "INTEGER": ("i", "2", "j"),
    "BIGINT": ("b", "2", "c"),
    "UTINYINT": ("u1", "2::UTINYINT"),
    "USMALLINT": ("u2", "2::USMALLINT"),
    "UINTEGER": ("u4", "2::UINTEGER"),
    "UBIGINT": ("u8", "2::UBIGINT"),
    "HUGEINT": ("h", "2::HUGEINT"),
    "UHUGEINT": ("u8::UHUGEINT", "2::UHUGEINT"),
    "FLOAT": ("r", "2::FLOAT"),
    "DOUBLE": ("f", "2.5::DOUBLE", "g"),
    "DECIMAL": ("d", "2.5"),
    "VARCHAR": ("s", "w", "'b'", "'%Y-%m'", "'month'", "'UTC'", "'[a-z]+'", "'12'", "'$.a'", "'g'"),
    "BLOB": ("bl", "'ab'::BLOB"),
    "DATE": ("dt", "du", "DATE '2020-05-17'"),
    "TIMESTAMP": ("ts", "tu", "TIMESTAMP '2020-05-17 08:09:10'"),
    "TIMESTAMP WITH TIME ZONE": ("tz", "TIMESTAMPTZ '2020-05-17 08:09:10+00'"),
    "TIMESTAMP_NS": ("tn",),
    "TIME": ("tm", "TIME '08:09:10'"),
    "TIME WITH TIME ZONE": ("tm::TIMETZ", "'08:09:10+02'::TIMETZ"),
    "TIME_NS": ("tm::TIME_NS",),
    "INTERVAL": ("iv", "INTERVAL 2 DAY"),
    "JSON": ("js", "'{\"a\": 1}'::JSON"),
    "UUID": ("uu",),
    "BIT": ("i::BIT", "'0101'::BIT"),
    "BIGNUM": ("h::BIGNUM",),
    "VARIANT": ("st::VARIANT",),
    "GEOMETRY": ("'POINT(1 2)'::GEOMETRY",),
    "UNION": ("union_value(num := i)",),
    "STRUCT": ("st", "{'z': 1}", "struct_pack(x := i)"),
    "MAP(K, V)": ("m",),
    "K": ("'k'", "s"),
    "V": ("i", "2"),
    "K[]": ("['a', 'b']",),
    "V[]": ("[1, 2]",),
    "STRUCT(K, V)[]": ("[{'k': 'a', 'v': i}]",),
    "T": ("i", "2", "s"),
    "T[]": ("l", "k", "ls"),
    "T[][]": ("[l, k]", "[ls]"),
    "ANY": ("i", "s", "l", "f", "st", "dt", "m"),
    "ANY[]": ("l", "ls", "ld"),
    "VARCHAR[]": ("ls", "['a', 'b']", "['$.a', '$.c']"),
    "BIGINT[]": ("[2, 1]", "[c, b]"),
    "BOOLEAN[]": ("lo", "[true]"),
    "DOUBLE[]": ("ld", "[0.25, 0.75]::DOUBLE[]"),
    "FLOAT[]": ("ld::FLOAT[]", "[0.25, 0.75]::FLOAT[]"),
    "DOUBLE[ANY]": ("[f, g]::DOUBLE[2]", "[1, 2]::DOUBLE[2]"),
    "FLOAT[ANY]": ("[f, g]::FLOAT[2]", "[1, 2]::FLOAT[2]"),
    "DOUBLE[3]": ("[f, g, 1]::DOUBLE[3]", "[1, 2, 3]::DOUBLE[3]"),
    "FLOAT[3]": ("[f, g, 1]::FLOAT[3]", "[1, 2, 3]::FLOAT[3]"),
    "LAMBDA": ("lambda x: x > 1", "lambda x, y: x + y"),
    'STRUCT("year" BIGINT, "month" BIGINT, "day" BIGINT)': ("{'year': 2024, 'month': 2, 'day': 29}",),
}
"""Expressions over the table for each type of a parameter. What DuckDB refuses is not asked of us."""

_FORMS = 12
"""So many ways to choose arguments are tried for each overload."""
_OVERLOADS = 8
_KEPT = 8
"""At most so many calls of a function are compared."""

SPECIAL: Mapping[str, Sequence[str]] = {
    **{
        name: tuple(
            f"{name}('{part}', {arguments})"
            for part in ("month", "week", "hour", "isoyear")
            for arguments in (("ts",) if is_one else ("tu, ts", "du, dt"))
        )
        for name, is_one in {
            "date_part": True,
            "datepart": True,
            "date_trunc": True,
            "datetrunc": True,
            "date_diff": False,
            "datediff": False,
            "date_sub": False,
            "datesub": False,
        }.items()
    },
    **{
        name: tuple(
            f"{name}(l, '{each}')" for each in ("min", "sum", "median", "mode", "string_agg", "entropy")
        )
        for name in ("list_aggr", "list_aggregate", "array_aggr", "array_aggregate", "aggregate")
    },
    "quantile_cont": (
        "quantile_cont(f, 0.3)",
        "quantile_cont(f, [0.25, 0.5])",
        "quantile_cont(ts, 0.5)",
        "quantile_cont(d, 0.1)",
    ),
    "quantile_disc": ("quantile_disc(f, 0.3)", "quantile_disc(i, [0.25, 0.5])", "quantile_disc(s, 0.5)"),
    "quantile": ("quantile(f, 0.3)", "quantile(i, [0.25, 0.5])"),
    "reservoir_quantile": ("reservoir_quantile(f, 0.5, 9)",),
    "sum_no_overflow": (),
    "kurtosis": ("kurtosis(f + id * id)", "kurtosis(id * 3.5 + b)", "kurtosis(coalesce(f, 9))"),
    "map_concat": ("map_concat(m, MAP {'k': 9})",),
    "cardinality": ("cardinality(m)",),
    "switch": (),
    "row_to_json": ("row_to_json(st)",),
    "array_to_json": ("array_to_json(l)",),
    "st_geomfromwkb": ("st_astext(st_geomfromwkb(st_aswkb('POINT(1 2)'::GEOMETRY)))",),
    "strptime": ("strptime('2024-02-29', '%Y-%m-%d')", "strptime(dt::VARCHAR, '%Y-%m-%d')"),
    "try_strptime": ("try_strptime(s, '%Y')", "try_strptime(dt::VARCHAR, '%Y-%m-%d')"),
    "strftime": ("strftime(ts, '%d/%m/%Y %H:%M:%S.%f')", "strftime(dt, '%A %j')"),
    "printf": ("printf('%d|%s|%.3f', i, s, f)",),
    "format": ("format('{}|{:,}', s, b)",),
    "list_reduce": ("list_reduce(k, lambda x, y: x + y)", "list_reduce(l, lambda x, y: x + y, 7)"),
    "enum_code": ("enum_code('b'::ENUM('a', 'b'))",),
    "enum_first": ("enum_first(NULL::ENUM('a', 'b'))",),
    "enum_last": ("enum_last(NULL::ENUM('a', 'b'))",),
    "enum_range": ("enum_range(NULL::ENUM('a', 'b'))",),
    "enum_range_boundary": ("enum_range_boundary('a'::ENUM('a', 'b'), NULL)",),
    "struct_insert": ("struct_insert(st, z := i)",),
    "struct_update": ("struct_update(st, x := i)",),
    "struct_pack": ("struct_pack(a := i, b := s)",),
    "union_value": ("union_value(num := i)::VARCHAR",),
    "union_extract": ("union_extract(union_value(num := i), 'num')",),
    "json_object": ("json_object('a', i, 's', s)",),
    "json_transform": ('json_transform(js, \'{"a": "JSON"}\')',),
    "from_json": ('from_json(js, \'{"c": "VARCHAR"}\')',),
    "from_json_strict": ('from_json_strict(\'{"c": 1}\', \'{"c": "INTEGER"}\')',),
    "json_transform_strict": ('json_transform_strict(\'{"c": 1}\', \'{"c": "INTEGER"}\')',),
    "make_type": ("make_type('INTEGER')::VARCHAR",),
    "bitstring_agg": ("bitstring_agg(j, 0, 9)",),
    "bitstring": ("bitstring('0101', 9)",),
    "variant_extract": ("variant_extract(st::VARIANT, 'x')::INTEGER",),
    "remap_struct": ("remap_struct(st, NULL::STRUCT(y VARCHAR, x INT), {'x': 'x', 'y': 'y'}, NULL)",),
    "from_hex": ("from_hex(hex(s))",),
    "unhex": ("unhex(hex(s))",),
    "from_binary": ("from_binary('0110')",),
    "unbin": ("unbin('0110')",),
    "from_base64": ("from_base64(base64(bl))",),
    "parse_formatted_bytes": ("parse_formatted_bytes('16 KiB')",),
    "fill": ("fill(f) OVER (ORDER BY id)",),
    "map_from_entries": ("map_from_entries([{'k': 'a', 'v': i}])", "map_from_entries([('a', id)])"),
    "can_cast_implicitly": ("can_cast_implicitly(i, NULL::BIGINT)",),
    "json_deserialize_sql": ("json_deserialize_sql(json_serialize_sql('SELECT 1'))",),
    "json_serialize_sql": ("json_serialize_sql('SELECT 1')",),
    "variant_to_parquet_variant": ("variant_to_parquet_variant(st::VARIANT)",),
    "cast_to_type": ("cast_to_type(s, w)", "cast_to_type('42', i)"),
    "stats": (),  # of the rows of a batch
}
"""Calls of functions whose arguments the types of their parameters do not tell."""


@dataclass(frozen=True)
class Function:
    """A function that DuckDB lists.

    Args:
        kind: `scalar` or `aggregate`.
        name: Its name.
        is_volatile: Whether it can answer differently each time.
        calls: Calls that DuckDB answers.
    """

    kind: str
    name: str
    is_volatile: bool
    calls: tuple[str, ...]


WINDOW = frozenset(
    {
        "cume_dist", "dense_rank", "fill", "first_value", "lag", "last_value", "lead", "nth_value", "ntile", "percent_rank",
        "rank", "rank_dense", "row_number",
    }
)  # fmt: skip
"""Aggregates that are called with OVER only."""


def is_for_users(name: str) -> bool:
    """Whether a function can be called by its name and is meant to be: no operator, nothing internal, no collation."""
    return (
        re.fullmatch(r"[a-zA-Z][a-zA-Z0-9_]*", name) is not None
        and not name.startswith("icu_collate_")
        and name not in ABOUT_DUCKDB
    )


ABOUT_DUCKDB = frozenset(
    {
        "combine", "finalize",  # states of aggregates, which are no values
        "current_connection_id", "current_query", "current_query_id", "current_transaction_id", "txid_current",
        "current_schemas", "in_search_path", "currval", "nextval", "getvariable",  # the connection and its objects
        "write_log", "parse_duckdb_log_message", "sleep_ms", "setseed", "error",  # what they do counts, not a value
    }
)  # fmt: skip
"""Functions about the connection that asks, or without an answer to compare."""


def functions(*, every: int = 1) -> list[Function]:
    """Every function for users of this release of DuckDB, with its calls, or one of so many."""
    with duckdb.connect(":memory:", config={"threads": 1}) as connection:
        connection.execute("SET TimeZone = 'UTC'")
        connection.execute("SET memory_limit = '500MB'")
        connection.execute(TABLE)
        listed = connection.execute(
            # DuckDB says of the clock's functions, too, that they always answer alike.
            "SELECT function_type, function_name, bool_or(stability <> 'CONSISTENT' OR function_name LIKE 'current_local%'), "
            "list({'types': parameter_types, 'more': varargs, 'examples': examples} ORDER BY parameter_types) "
            "FROM duckdb_functions() WHERE function_type IN ('scalar', 'aggregate') GROUP BY ALL ORDER BY ALL"
        ).fetchall()
        return [
            Function(kind, name, volatile, tuple(_calls(connection, name, overloads)))
            for kind, name, volatile, overloads in [each for each in listed if is_for_users(each[1])][::every]
        ]


def _calls(
    connection: duckdb.DuckDBPyConnection, name: str, overloads: Sequence[Mapping[str, object]]
) -> list[str]:
    found: list[str] = []
    for each in SPECIAL.get(name, ()):
        if _is_answered(connection, each, is_strict=False):
            found.append(each)
    step = max(1, len(overloads) // _OVERLOADS)
    chosen = overloads[::step][:_OVERLOADS]
    by_overload = [_made(connection, name, each) for each in chosen]
    # One call of each overload first, then the second of each.
    for place in range(max(map(len, by_overload), default=0)):
        found += [calls[place] for calls in by_overload if place < len(calls)]
    for overload in overloads[:1]:
        for example in list(overload["examples"] or ()):  # type: ignore[call-overload]
            if f"{name}(" in example and _is_answered(connection, example):
                found.insert(0, example)
    return list(dict.fromkeys(found))[:_KEPT]


def _made(connection: duckdb.DuckDBPyConnection, name: str, overload: Mapping[str, object]) -> list[str]:
    types: list[str] = list(overload["types"] or ())  # type: ignore[call-overload]
    more = overload["more"]
    over = " OVER (ORDER BY id)" if name in WINDOW else ""
    found: list[str] = []
    for form in range(_FORMS):
        given = [*types, *[str(more)] * (1 + form % 2)] if more else types
        call = f"{name}({', '.join(_arguments(given, form))}){over}"
        if call not in found and _is_answered(connection, call):
            found.append(call)
        if len(found) == 3 or not given:
            break
    return found


def _arguments(types: Sequence[str], form: int) -> Iterator[str]:
    for place, kind in enumerate(types):
        known = _ARGUMENTS.get(kind, ("NULL",))
        # The first argument keeps to columns for long, as others want constants.
        shift = form // 4 if place == 0 else form + place
        yield known[shift % len(known)]


def _is_answered(connection: duckdb.DuckDBPyConnection, call: str, *, is_strict: bool = True) -> bool:
    """Whether DuckDB has an answer to it that is not NULL in all rows."""
    try:
        found = connection.execute(f"SELECT CAST({call} AS VARCHAR) FROM calls").fetchall()
    except duckdb.Error:
        return False
    return not is_strict or any(row[0] is not None for row in found)
