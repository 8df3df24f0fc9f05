"""The options of a lake: what each means, which values it takes, and how they are kept."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from ducklake_spark.errors import InvalidInputError, NotFoundError, did_you_mean
from ducklake_spark.format.duckdb_sql import cast_text, text_of
from ducklake_spark.format.types import Scalar

DEFAULT_INLINING_LIMIT = 10
DEFAULT_TARGET_FILE_SIZE = 536870912

_UNITS = {"": 1, "b": 1, "bytes": 1}
for _power, _letter in enumerate("kmgt", start=1):
    _UNITS |= {f"{_letter}b": 1000**_power, f"{_letter}": 1000**_power, f"{_letter}ib": 1024**_power}


def _bad(key: str, value: Any, expected: str) -> InvalidInputError:
    return InvalidInputError(f'Cannot set option "{key}" to {value!r}: it takes {expected}.')


def _count(key: str, value: Any) -> str:
    if isinstance(value, bool) or not re.fullmatch(r"\d+", str(value).strip()):
        raise _bad(key, value, "a whole number from 0 on")
    return str(int(str(value)))


def _positive(key: str, value: Any) -> str:
    text = _count(key, value)
    if text == "0":
        raise _bad(key, value, "a whole number from 1 on")
    return text


def _boolean(key: str, value: Any) -> str:
    text = str(value).strip().lower()
    if text not in ("true", "false", "1", "0", "t", "f"):
        raise _bad(key, value, "true or false")
    return "true" if text in ("true", "1", "t") else "false"


def _size(key: str, value: Any) -> str:
    match = re.fullmatch(r"([\d.]+)\s*([a-z]*)", str(value).strip().lower())
    if isinstance(value, bool) or match is None or match.group(2) not in _UNITS:
        raise _bad(key, value, "a size such as 512MB or 1GiB")
    size = int(float(match.group(1)) * _UNITS[match.group(2)])
    if size <= 0:
        raise _bad(key, value, "a size above zero")
    return str(size)


def _fraction(key: str, value: Any) -> str:
    try:
        number = float(value)
    except (TypeError, ValueError):
        number = -1.0
    if not 0 <= number <= 1:
        raise _bad(key, value, "a number from 0 to 1")
    return f"{number:.6f}"


def _interval(key: str, value: Any) -> str:
    text = text_of(value)
    if text:
        try:
            cast_text(text, Scalar("interval"), key)
        except InvalidInputError as error:
            raise _bad(key, value, "an interval such as '7 days', or '' for none") from error
    return text


def _one_of(*words: str) -> Callable[[str, Any], str]:
    def check(key: str, value: Any) -> str:
        if str(value).lower() not in words:
            raise _bad(key, value, "one of " + ", ".join(words))
        return str(value).lower()

    return check


def _version(key: str, value: Any) -> str:
    text = str(value).upper().removeprefix("V")
    if text not in ("1", "2"):
        raise _bad(key, value, "1 or 2")
    return f"V{text}"


@dataclass(frozen=True)
class OptionDef:
    """An option: what it is for, and how a value becomes the text that is kept."""

    description: str
    normalize: Callable[[str, Any], str] | None


_CODECS = ("uncompressed", "snappy", "gzip", "zstd", "brotli", "lz4", "lz4_raw")

OPTIONS: Mapping[str, OptionDef] = {
    "auto_compact": OptionDef(
        "Whether compaction functions that run on all tables include this one", _boolean
    ),
    "created_by": OptionDef("Tool used to write the DuckLake", None),
    "data_inlining_row_limit": OptionDef("Maximum amount of rows to inline in a single insert", _count),
    "data_path": OptionDef("Path to data files", None),
    "delete_older_than": OptionDef(
        "How old unused files must be, by default, to be removed by the cleanup functions", _interval
    ),
    "encrypted": OptionDef("Whether or not to encrypt Parquet files written to the data path", None),
    "expire_older_than": OptionDef(
        "How old snapshots must be, by default, to be expired by: 'ducklake_expire_snapshots'", _interval
    ),
    "hive_file_pattern": OptionDef("Whether partitioned data is written in hive-style folders", _boolean),
    "parquet_compression": OptionDef("Compression algorithm for Parquet files", _one_of(*_CODECS)),
    "parquet_compression_level": OptionDef("Compression level for Parquet files", _count),
    "parquet_row_group_size": OptionDef("Number of rows per row group in Parquet files", _positive),
    "parquet_row_group_size_bytes": OptionDef("Number of bytes per row group in Parquet files", _size),
    "parquet_version": OptionDef("Parquet format version", _version),
    "per_thread_output": OptionDef("Whether each thread writes files of its own", _boolean),
    "require_commit_message": OptionDef("Whether a commit needs a message", _boolean),
    "rewrite_delete_threshold": OptionDef(
        "Share of deleted rows, between 0 and 1, from which a file is rewritten", _fraction
    ),
    "sort_on_insert": OptionDef("Whether rows are sorted when they are inserted", _boolean),
    "target_file_size": OptionDef("The target data file size for insertion and compaction", _size),
    "version": OptionDef("DuckLake format version", None),
    "write_deletion_vectors": OptionDef("Whether deletes are written as deletion vectors", _boolean),
}


def normalize_option(key: str, value: Any) -> tuple[str, str]:
    """Name and text of an option as the catalog keeps them.

    >>> normalize_option("target_file_size", "10MB")
    ('target_file_size', '10000000')

    Raises:
        NotFoundError: No such option, with near names.
        InvalidInputError: A value that it does not take, or an option that is fixed when the lake is created.
    """
    name = key.lower()
    option = OPTIONS.get(name)
    if option is None:
        settable = [known for known, each in OPTIONS.items() if each.normalize]
        raise NotFoundError(f'There is no option "{key}".{did_you_mean(name, settable)}')
    if option.normalize is None:
        raise InvalidInputError(
            f'The option "{name}" cannot be changed: it is fixed when the lake is created.'
        )
    if value is None:
        raise _bad(name, value, "a value, not None")
    return name, option.normalize(name, value)


OptionKey = tuple[str, str | None, int | None]


@dataclass(frozen=True)
class Options:
    """All rows of `ducklake_metadata`, and what `attach()` said."""

    stored: Mapping[OptionKey, str]
    attached: Mapping[str, str]

    @classmethod
    def of_rows(
        cls, rows: Iterable[tuple[str, str, str | None, int | None]], attached: Mapping[str, str]
    ) -> Options:
        """From the rows of the table."""
        return cls({(key, scope, scope_id): value for key, value, scope, scope_id in rows}, attached)

    def overlaid(self, pending: Mapping[OptionKey, str]) -> Options:
        """With the pending options of a transaction."""
        return Options({**self.stored, **pending}, self.attached) if pending else self

    def get(self, key: str, *, schema_id: int | None = None, table_id: int | None = None) -> str | None:
        """The value in force: of the table, its schema, the lake, else what `attach()` was given."""
        for scope, scope_id in (("table", table_id), ("schema", schema_id)):
            if scope_id is not None and (key, scope, scope_id) in self.stored:
                return self.stored[key, scope, scope_id]
        return self.stored.get((key, None, None), self.attached.get(key))

    def inlining_limit(self, *, schema_id: int, table_id: int) -> int:
        """How many rows of an insert go into the catalog instead of a file."""
        text = self.get("data_inlining_row_limit", schema_id=schema_id, table_id=table_id)
        return DEFAULT_INLINING_LIMIT if text is None else int(text)
