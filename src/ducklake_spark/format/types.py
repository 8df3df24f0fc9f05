"""The types of the format: values, their names, a parser for type texts, and which promotions keep all data.

A type text may use the names of DuckLake (`int32`, `timestamptz`), of DuckDB (`INTEGER`, `STRUCT(a INT)`, `INT[]`) or
of Spark (`bigint`, `struct<a: int>`, `array<string>`). Where they disagree, DuckLake's meaning holds: `int8` has eight
bits, and `timestamp` has no time zone.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from typing import Union

from ducklake_spark.errors import InvalidInputError, TypeChangeError, did_you_mean


@dataclass(frozen=True)
class Scalar:
    """A type without parts, by its DuckLake name."""

    name: str


@dataclass(frozen=True)
class Decimal:
    """A number with `precision` digits, `scale` of them behind the point."""

    precision: int
    scale: int

    @property
    def name(self) -> str:
        """The text of `ducklake_column.column_type`."""
        return f"decimal({self.precision},{self.scale})"


@dataclass(frozen=True)
class List:
    """Any number of elements of one type."""

    element: DataType
    name = "list"


@dataclass(frozen=True)
class Map:
    """Keys to values."""

    key: DataType
    value: DataType
    name = "map"


@dataclass(frozen=True)
class Struct:
    """Named fields."""

    fields: tuple[tuple[str, DataType], ...]
    name = "struct"


DataType = Union[Scalar, Decimal, List, Map, Struct]  # noqa: UP007 - the members refer to it

NESTED = frozenset({"list", "map", "struct"})

DUCKDB_NAMES = {
    "boolean": "BOOLEAN",
    "int8": "TINYINT",
    "int16": "SMALLINT",
    "int32": "INTEGER",
    "int64": "BIGINT",
    "int128": "HUGEINT",
    "uint8": "UTINYINT",
    "uint16": "USMALLINT",
    "uint32": "UINTEGER",
    "uint64": "UBIGINT",
    "uint128": "UHUGEINT",
    "float32": "FLOAT",
    "float64": "DOUBLE",
    "date": "DATE",
    "time": "TIME",
    "time_ns": "TIME_NS",
    "timetz": "TIME WITH TIME ZONE",
    "timestamp": "TIMESTAMP",
    "timestamp_s": "TIMESTAMP_S",
    "timestamp_ms": "TIMESTAMP_MS",
    "timestamp_ns": "TIMESTAMP_NS",
    "timestamptz": "TIMESTAMP WITH TIME ZONE",
    "interval": "INTERVAL",
    "varchar": "VARCHAR",
    "json": "JSON",
    "blob": "BLOB",
    "uuid": "UUID",
    "variant": "VARIANT",
    "geometry": "GEOMETRY",
}

_ALIASES = {
    "boolean": "bool logical",
    "int8": "tinyint byte int1",
    "int16": "smallint short int2",
    "int32": "integer int int4 signed",
    "int64": "bigint long",
    "int128": "hugeint",
    "uint8": "utinyint",
    "uint16": "usmallint",
    "uint32": "uinteger",
    "uint64": "ubigint",
    "uint128": "uhugeint",
    "float32": "float real float4",
    "float64": "double float8",
    "timestamp": "datetime timestamp_us timestamp_ntz",
    "timestamptz": "timestamp_ltz",
    "varchar": "string text char bpchar",
    "blob": "bytea binary varbinary",
    "uuid": "guid",
}
_SCALARS = {alias: name for name, aliases in _ALIASES.items() for alias in aliases.split()} | {
    name: name for name in DUCKDB_NAMES
}
_DECIMALS = frozenset({"decimal", "numeric", "dec"})

_FOREIGN = {
    "enum": 'use "varchar"',
    "union": 'use a struct with one field per member, or "variant"',
    "bit": 'use "blob" or "varchar"',
    "bitstring": 'use "blob" or "varchar"',
    "bignum": 'use "int128" or a decimal',
    "varint": 'use "int128" or a decimal',
    "void": "give the column a type",
    "null": "give the column a type",
}

_DEEPEST = 100
_ELSEWHERE = {
    "DEFAULT": "; give defaults as defaults={column: value}",
    "COMMENT": "; comment on columns with set_comment()",
    "PRIMARY": ": the format has no keys",
    "UNIQUE": ": the format has no keys",
    "REFERENCES": ": the format has no keys",
    "CHECK": ": the format has no checks",
    "GENERATED": ": the format has no generated columns",
}

# A name may begin with any character outside of ASCII, as in DuckDB. Texts in quotes stand in an ENUM only.
_TOKEN = re.compile(
    r'\s*(?:"((?:[^"]|"")+)"|`((?:[^`]|``)+)`|((?:[A-Za-z_]|[^\x00-\x7f])(?:[A-Za-z0-9_$]|[^\x00-\x7f])*)'
    r"|([0-9]{1,9}(?![0-9]))|([()<>,:\[\]]|'(?:[^']|'')*'))"
)


def parse_type(text: str) -> DataType:
    """Parses a type text.

    >>> parse_type("STRUCT(a INTEGER, b VARCHAR[])")
    Struct(fields=(('a', Scalar(name='int32')), ('b', List(element=Scalar(name='varchar')))))
    >>> duckdb_name(parse_type("map<string, decimal(10, 2)>"))
    'MAP(VARCHAR, DECIMAL(10,2))'
    """
    return _parsed(text)


@lru_cache(maxsize=4096)
def _parsed(text: str) -> DataType:
    parser = _Parser(text)
    parsed = parser.type()
    parser.end()
    return parsed


def parse_columns(text: str) -> list[tuple[str, DataType, bool]]:
    """Parses the columns of a table: names with types, and whether each allows NULL.

    >>> parse_columns("id BIGINT NOT NULL, name STRING")
    [('id', Scalar(name='int64'), False), ('name', Scalar(name='varchar'), True)]

    Raises:
        InvalidInputError: Not a list of columns.
    """
    parser = _Parser(text, "columns")
    columns = parser.columns()
    parser.end()
    return columns


class _Parser:
    def __init__(self, text: str, what: str = "type") -> None:
        self.text, self.what = text, what
        self.tokens: list[tuple[str, str]] = []
        position = 0
        while text[position:].strip():
            match = _TOKEN.match(text, position)
            if match is None:
                raise self.error(f"unexpected {text[position:].strip()[0]!r}")
            double, backtick, word, number, mark = match.groups()
            if double is not None or backtick is not None:
                quoted = double.replace('""', '"') if double is not None else backtick.replace("``", "`")
                self.tokens.append(("name", quoted))
            elif word is not None:
                self.tokens.append(("word", word))
            else:
                self.tokens.append(("number", number) if number is not None else ("mark", mark))
            position = match.end()
        self.at = self.depth = 0

    def error(self, reason: str) -> InvalidInputError:
        return InvalidInputError(f'Cannot read the {self.what} "{self.text}": {reason}.')

    def peek(self) -> tuple[str, str]:
        return self.tokens[self.at] if self.at < len(self.tokens) else ("end", "")

    def take(self) -> tuple[str, str]:
        token = self.peek()
        self.at += 1
        return token

    def accept(self, *values: str) -> bool:
        kind, value = self.peek()
        if kind in ("mark", "word") and value.lower() in values:
            self.at += 1
            return True
        return False

    def expect(self, *values: str) -> None:
        if not self.accept(*values):
            found = self.peek()[1] or "the end"
            raise self.error(f"expected {' or '.join(values)}, found {found}")

    def end(self) -> None:
        if self.peek()[0] != "end":
            raise self.error(f"unexpected {self.peek()[1]!r}")

    def type(self) -> DataType:
        self.depth += 1
        if self.depth > _DEEPEST:
            raise InvalidInputError(
                f'The type "{self.text[:40]}..." is too deeply nested: {_DEEPEST} levels are allowed.'
            )
        parsed = self.plain_type()
        self.depth -= 1
        while self.accept("["):
            kind, size = self.peek()
            if kind == "number":
                raise self.error(
                    f"the format has no arrays of fixed size; use a list (`[]`) instead of `[{size}]`"
                )
            self.expect("]")
            parsed = List(parsed)
        return parsed

    def plain_type(self) -> DataType:
        kind, word = self.take()
        if kind != "word":
            raise self.error(f"expected a type name, found {word or 'the end'}")
        name = word.lower()
        if name in ("struct", "row"):
            return self.struct()
        if name in ("list", "array"):
            self.expect("(", "<")
            element = self.type()
            self.expect(")", ">")
            return List(element)
        if name == "map":
            self.expect("(", "<")
            key = self.type()
            self.expect(",")
            value = self.type()
            self.expect(")", ">")
            return Map(key, value)
        if name in _DECIMALS:
            return self.decimal()
        if name in ("time", "timestamp") and self.accept("with", "without"):
            zoned = self.tokens[self.at - 1][1].lower() == "with"
            self.accept("local")
            self.expect("time")
            self.expect("zone")
            return Scalar(name + "tz" if zoned else name)
        if name == "double":
            self.accept("precision")
        if name in ("varchar", "char", "bpchar") and self.accept("("):
            self.take()
            self.expect(")")
        if self.peek()[1].lower() == "collate":
            raise self.error("the format has no collations; leave COLLATE out, and collate in queries")
        if name in _FOREIGN:
            raise self.error(f'the format has no type "{word}"; {_FOREIGN[name]}')
        if name == "timestamptz_ns":
            raise self.error(
                f'"{word}" came with format 1.1, and is not read and written yet; use "timestamptz"'
            )
        known = _SCALARS.get(name)
        if known is None:
            names = [*_SCALARS, "decimal", "struct", "list", "map"]
            near = did_you_mean(word, names).strip().rstrip("?")
            raise self.error(f'the format has no type "{word}"' + (f" ({near}?)" if near else ""))
        return Scalar(known)

    def columns(self) -> list[tuple[str, DataType, bool]]:
        columns: list[tuple[str, DataType, bool]] = []
        while True:
            kind, name = self.take()
            if kind not in ("word", "name"):
                raise self.error("write `name type, name type NOT NULL`, with at least one column")
            self.accept(":")
            data_type, nulls_allowed = self.type(), True
            if self.accept("not"):
                self.expect("null")
                nulls_allowed = False
            elif self.peek()[0] == "word":
                word = self.peek()[1].upper()
                raise self.error(f"{word} cannot stand here{_ELSEWHERE.get(word, '')}")
            columns.append((name, data_type, nulls_allowed))
            if not self.accept(","):
                return columns

    def decimal(self) -> Decimal:
        precision, scale = 18, 3
        if self.accept("("):
            precision, scale = self.number(), 0
            if self.accept(","):
                scale = self.number()
            self.expect(")")
        if not 1 <= precision <= 38 or not 0 <= scale <= precision:
            raise self.error("a decimal has 1 to 38 digits, and no more digits behind the point than in all")
        return Decimal(precision, scale)

    def number(self) -> int:
        kind, value = self.take()
        if kind != "number":
            raise self.error(f"expected a number, found {value or 'the end'}")
        return int(value)

    def struct(self) -> Struct:
        self.expect("(", "<")
        fields: list[tuple[str, DataType]] = []
        seen: set[str] = set()
        while True:
            kind, name = self.take()
            if kind not in ("word", "name"):
                raise self.error("a struct needs at least one field, written as `name type`")
            self.accept(":")
            if fold(name) in seen:
                raise self.error(f'the struct has two fields named "{name}"')
            seen.add(fold(name))
            fields.append((name, self.type()))
            if not self.accept(","):
                break
        self.expect(")", ">")
        return Struct(tuple(fields))


def fold(name: str) -> str:
    """A name as it is compared: without regard to the case of ASCII letters, which is DuckDB's rule.

    >>> fold("Ärger") == fold("ÄRGER"), fold("ä") == fold("Ä")
    (True, False)
    """
    return (
        name if name.islower() and name.isascii() else "".join(c.lower() if c.isascii() else c for c in name)
    )


def quote(name: str) -> str:
    """A name in double quotes, as DuckDB, PostgreSQL and SQLite write it."""
    return '"' + name.replace('"', '""') + '"'


def text_literal(text: str) -> str:
    """A text as an SQL literal, for where no parameter can stand.

    >>> text_literal("it's")
    "'it''s'"
    """
    return "'" + text.replace("'", "''") + "'"


def duckdb_name(data_type: DataType) -> str:
    """The type in DuckDB's SQL."""
    match data_type:
        case Scalar(name):
            return DUCKDB_NAMES[name]
        case Decimal(precision, scale):
            return f"DECIMAL({precision},{scale})"
        case List(element):
            return duckdb_name(element) + "[]"
        case Map(key, value):
            return f"MAP({duckdb_name(key)}, {duckdb_name(value)})"
        case Struct(fields):
            return "STRUCT(" + ", ".join(f"{quote(name)} {duckdb_name(part)}" for name, part in fields) + ")"


def walk(data_type: DataType) -> Iterator[DataType]:
    """The type and all its parts."""
    yield data_type
    match data_type:
        case List(element):
            yield from walk(element)
        case Map(key, value):
            yield from walk(key)
            yield from walk(value)
        case Struct(fields):
            for _, part in fields:
                yield from walk(part)


_UNSIGNED = ("uint8", "uint16", "uint32", "uint64", "uint128")
_SIGNED = ("int8", "int16", "int32", "int64", "int128")
_DIGITS = {
    "int8": 3,
    "int16": 5,
    "int32": 10,
    "int64": 19,
    "uint8": 3,
    "uint16": 5,
    "uint32": 10,
    "uint64": 20,
    "int128": 38,  # 39 really, but then there would be no decimal for it; the extension accepts this one too
    "uint128": 38,
}
_TIMES = {
    "date": ("timestamp", "timestamp_s", "timestamp_ms", "timestamp_ns", "timestamptz"),
    "timestamp": ("timestamp_ns", "timestamptz"),
    "timestamp_s": ("timestamp", "timestamp_ms", "timestamp_ns"),
    "timestamp_ms": ("timestamp", "timestamp_ns"),
}


def can_promote(old: DataType, new: DataType) -> bool:
    """Whether a column that is not nested may change its type this way: what the extension accepts.

    One exception: the extension lets any number become a decimal of 38 digits, even one that cannot hold it
    (`decimal(5,2)` to `decimal(38,0)`, `int32` to `decimal(38,38)`); that is refused.
    """
    if old == new:
        return True
    if old.name in NESTED or new.name in NESTED:
        return False
    if new.name == "json":
        return True
    if new.name == "variant":
        return old.name != "json"
    if isinstance(old, Decimal):
        if isinstance(new, Decimal):
            return new.scale >= old.scale and new.precision - new.scale >= old.precision - old.scale
        return new.name in ("float32", "float64")
    if old.name == "boolean":
        return new.name in _SIGNED or new.name in _UNSIGNED
    if old.name in _SIGNED or old.name in _UNSIGNED:
        return _can_promote_integer(old.name, new)
    if old.name == "float32":
        return new.name == "float64"
    return new.name in _TIMES.get(old.name, ())


def _can_promote_integer(old: str, new: DataType) -> bool:
    if new.name in ("float32", "float64"):
        return True
    if isinstance(new, Decimal):
        return new.precision - new.scale >= _DIGITS[old]
    if old in _SIGNED:
        return new.name in _SIGNED[_SIGNED.index(old) + 1 :]
    width = _UNSIGNED.index(old)
    return new.name in _UNSIGNED[width + 1 :] or new.name in _SIGNED[width + 1 :]


def check_promotion(column: str, old: DataType, new: DataType) -> None:
    """Raises unless `can_promote`.

    Raises:
        TypeChangeError: The change could lose data.
    """
    if can_promote(old, new):
        return
    if old.name in NESTED or new.name in NESTED:
        raise TypeChangeError(
            f'Cannot change column "{column}" from {duckdb_name(old)} to {duckdb_name(new)}: a nested column keeps '
            "its kind (list, map or struct). Add a new column instead."
        )
    raise TypeChangeError(
        f'Cannot change column "{column}" from {duckdb_name(old)} to {duckdb_name(new)}: only promotions that keep '
        "every value are allowed. Add a new column of that type instead."
    )
