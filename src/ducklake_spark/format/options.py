"""The options of a lake: what each means, which values it takes, and how they are kept."""

from __future__ import annotations

import decimal
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from ducklake_spark.errors import InvalidInputError, NotFoundError, did_you_mean
from ducklake_spark.format.duckdb_sql import cast_text, text_of
from ducklake_spark.format.types import Scalar

DEFAULT_INLINING_LIMIT = 10
DEFAULT_TARGET_FILE_SIZE = 536870912
HIGHEST_LEVEL = 22
_SETTINGS_FIRST = frozenset({"target_file_size"})
"""Options that a setting of the session overrides, as in the extension; the others override it."""

_UNITS = {"": 1, "b": 1, "bytes": 1}
for _power, _letter in enumerate("kmgt", start=1):
    _UNITS |= {f"{_letter}b": 1000**_power, f"{_letter}": 1000**_power, f"{_letter}ib": 1024**_power}


def _bad(key: str, value: Any, expected: str) -> InvalidInputError:
    return InvalidInputError(f'Cannot set option "{key}" to {value!r}: it takes {expected}.')


def _count(key: str, value: Any) -> str:
    text = str(value).strip()
    if isinstance(value, bool) or not re.fullmatch(r"[0-9]{1,20}", text) or int(text) >= 2**64:
        raise _bad(key, value, "a whole number from 0 to 18446744073709551615")
    return str(int(text))


def _positive(key: str, value: Any) -> str:
    text = _count(key, value)
    if text == "0":
        raise _bad(key, value, "a whole number from 1 on")
    return text


def _level(key: str, value: Any) -> str:
    text = str(value).strip()
    if isinstance(value, bool) or not re.fullmatch(r"[0-9]{1,2}", text) or int(text) > HIGHEST_LEVEL:
        raise _bad(key, value, f"a level of zstd from 0 to {HIGHEST_LEVEL}")
    return str(int(text))


def _boolean(key: str, value: Any) -> str:
    text = str(value).strip().lower()
    if text not in ("true", "false", "1", "0", "t", "f"):
        raise _bad(key, value, "true or false")
    return "true" if text in ("true", "1", "t") else "false"


def _size(key: str, value: Any) -> str:
    match = re.fullmatch(r"([0-9]+(?:\.[0-9]*)?|\.[0-9]+)\s*([a-z]*)", str(value).strip().lower())
    if isinstance(value, bool) or match is None or match.group(2) not in _UNITS:
        raise _bad(key, value, "a size such as 512MB or 1GiB")
    size = int(decimal.Decimal(match.group(1)) * _UNITS[match.group(2)])
    if not 0 < size < 2**63:
        raise _bad(key, value, "a size of at least one byte and below 8 EiB")
    return str(size)


def _fraction(key: str, value: Any) -> str:
    try:
        number = -1.0 if isinstance(value, bool) else float(value)
    except (TypeError, ValueError):
        number = -1.0
    if not 0 <= number <= 1:
        raise _bad(key, value, "a number from 0 to 1")
    return f"{number:.6f}"


def _interval(key: str, value: Any) -> str:
    try:
        text = text_of(value)
        if text:
            cast_text(text, Scalar("interval"), key)
    except InvalidInputError:
        raise _bad(key, value, "an interval such as '7 days', or '' for none") from None
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

# The descriptions are those of the extension's `options()`, word for word.
OPTIONS: Mapping[str, OptionDef] = {
    "auto_compact": OptionDef(
        "Pre-defined schema used as a default value for the following compaction functions "
        "'ducklake_flush_inlined_data','ducklake_merge_adjacent_files', 'ducklake_rewrite_data_files', "
        "'ducklake_delete_orphaned_files'",
        _boolean,
    ),
    "created_by": OptionDef("Tool used to write the DuckLake", None),
    "data_inlining_row_limit": OptionDef("Maximum amount of rows to inline in a single insert", _count),
    "data_path": OptionDef("Path to data files", None),
    "delete_older_than": OptionDef(
        "How old unused files must be to be removed by the 'ducklake_delete_orphaned_files' and "
        "'ducklake_cleanup_old_files' cleanup functions.",
        _interval,
    ),
    "encrypted": OptionDef("Whether or not to encrypt Parquet files written to the data path", None),
    "expire_older_than": OptionDef(
        "How old snapshots must be, by default, to be expired by: 'ducklake_expire_snapshots'", _interval
    ),
    "hive_file_pattern": OptionDef(
        "If partitioned data should be written in a hive-like folder structure", _boolean
    ),
    "parquet_compression": OptionDef(
        f"Compression algorithm for Parquet files ({', '.join(_CODECS)})", _one_of(*_CODECS)
    ),
    "parquet_compression_level": OptionDef("Compression level for Parquet files", _level),
    "parquet_row_group_size": OptionDef("Number of rows per row group in Parquet files", _positive),
    "parquet_row_group_size_bytes": OptionDef("Number of bytes per row group in Parquet files", _size),
    "parquet_version": OptionDef("Parquet format version (1 or 2)", _version),
    "per_thread_output": OptionDef(
        "Whether to create separate output files per thread during parallel insertion", _boolean
    ),
    "require_commit_message": OptionDef(
        "If an explicit commit message is required for a snapshot commit.", _boolean
    ),
    "rewrite_delete_threshold": OptionDef(
        "A threshold that determines the minimum amount of data that must be removed from a file before a rewrite is "
        "warranted. From 0 - 1.",
        _fraction,
    ),
    "sort_on_insert": OptionDef(
        "Whether to sort data on INSERT according to SET SORTED BY (default: true)", _boolean
    ),
    "target_file_size": OptionDef("The target data file size for insertion and compaction operations", _size),
    "version": OptionDef("DuckLake format version", None),
    "write_deletion_vectors": OptionDef(
        "[EXPERIMENTAL - do not use outside testing] Whether to write Iceberg V3 deletion vectors (puffin) instead of "
        "positional delete files (parquet)",
        _boolean,
    ),
}


def option_def(key: Any) -> tuple[str, OptionDef]:
    """An option by its name, in any case.

    Raises:
        NotFoundError: No such option, with near names.
    """
    name = key.lower() if isinstance(key, str) else key
    if name not in OPTIONS:
        near = did_you_mean(name, OPTIONS) if isinstance(name, str) else ""
        if not isinstance(name, str):
            raise InvalidInputError(f"The name of an option is a text, not {key!r}.")
        listed = near or f" Options are {', '.join(OPTIONS)}."
        raise NotFoundError(
            f'There is no option "{key}".{listed if len(listed) < 350 else listed[:340] + "..."}'
        )
    return name, OPTIONS[name]


def normalize_option(key: str, value: Any) -> tuple[str, str]:
    """Name and text of an option as the catalog keeps them.

    >>> normalize_option("target_file_size", "10MB")
    ('target_file_size', '10000000')

    Raises:
        NotFoundError: No such option, with near names.
        InvalidInputError: A value that it does not take, or an option that is fixed when the lake is created.
    """
    name, option = option_def(key)
    if option.normalize is None:
        raise InvalidInputError(
            f'Cannot set option "{name}": it is fixed when the lake is created. Create a new lake to have another.'
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
        """The value in force: of the table, its schema, the lake, else what `attach()` or SET gave."""
        if key in _SETTINGS_FIRST and key in self.attached:
            return self.attached[key]
        for scope, scope_id in (("table", table_id), ("schema", schema_id)):
            if scope_id is not None and (key, scope, scope_id) in self.stored:
                return self.stored[key, scope, scope_id]
        return self.stored.get((key, None, None), self.attached.get(key))

    def inlining_limit(self, *, schema_id: int, table_id: int) -> int:
        """How many rows of an insert go into the catalog instead of a file."""
        text = self.get("data_inlining_row_limit", schema_id=schema_id, table_id=table_id)
        return DEFAULT_INLINING_LIMIT if text is None else int(text)
