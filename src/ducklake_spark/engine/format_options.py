"""The options of Spark's readers and writers: what each of them takes, as values that are checked."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from typing import Any

from ducklake_spark.engine.formats import WriteOptions
from ducklake_spark.engine.streaming.sink import SinkOptions
from ducklake_spark.engine.streaming.source import StreamOptions
from ducklake_spark.errors import InvalidInputError, did_you_mean
from ducklake_spark.format.streaming import Limits, Policy
from ducklake_spark.format.types import quote

DEFAULT_FILES = 1000
_WHERE = ("path", "table")
_FEED = ("readChangeFeed", "startingVersion", "startingTimestamp")
_READ = (*_WHERE, *_FEED, "versionAsOf", "timestampAsOf", "endingVersion", "endingTimestamp")
_STREAM = (
    *_WHERE,
    *_FEED,
    "maxFilesPerTrigger",
    "maxBytesPerTrigger",
    "ignoreDeletes",
    "ignoreChanges",
    "skipChangeCommits",
    "failOnDataLoss",
)
_WRITE = (
    *_WHERE,
    "replaceWhere",
    "partitionOverwriteMode",
    "mergeSchema",
    "overwriteSchema",
    "txnAppId",
    "txnVersion",
)
_SINK = (*_WHERE, "mergeKeys", "mergeSchema")
_PARTITIONS, _CLUSTERS = "__partition_columns", "__clustering_columns"
"""Where Spark puts the columns of `partitionBy` and of `clusterBy`."""
_OF_SPARK = ("checkpointlocation", "queryname", _PARTITIONS, _CLUSTERS, "provider", "outputmode")
"""What Spark passes along for itself."""
_FLAGS = ("override_data_path", "encrypted", "create_if_not_exists", "write_deletion_vectors", "read_only")
_NUMBERS = (
    "data_inlining_row_limit",
    "busy_timeout",
    "max_retry_count",
    "retry_wait_ms",
    "statement_retries",
)
_TEXTS = ("data_path", "metadata_schema", "metadata_catalog", "metadata_path")
_STORAGE = "storage_"
"""Stands before the names of `storage_options`, as `meta_` before those of the catalog's connection."""
_UNITS = {"": 1, "b": 1, "k": 1 << 10, "m": 1 << 20, "g": 1 << 30, "t": 1 << 40}


class GivenOptions:
    """Options by their names, in any case."""

    def __init__(self, given: Mapping[str, str], known: Sequence[str], what: str) -> None:
        self._given = {key.lower(): str(value) for key, value in given.items()}
        self._what = what
        names = {name.lower() for name in known} | {*_FLAGS, *_NUMBERS, *_TEXTS, *_OF_SPARK}
        for key in self._given:
            if key not in names and not key.startswith(("meta_", _STORAGE)):
                near = did_you_mean(key, [*known, *_TEXTS, *_FLAGS, *_NUMBERS])
                raise InvalidInputError(
                    f'format("ducklake") has no option "{key}" for {what}.{near or f" It has {_listed(known)}."}'
                )

    def text(self, name: str) -> str | None:
        """The value as it was given; None without one."""
        return self._given.get(name.lower())

    def flag(self, name: str, default: bool = False) -> bool:
        """True or false."""
        text = self.text(name)
        if text is None:
            return default
        if text.lower() not in ("true", "false"):
            raise InvalidInputError(f'Option "{name}" takes true or false, not {text!r}.')
        return text.lower() == "true"

    def number(self, name: str, least: int = 0) -> int | None:
        """A whole number."""
        text = self.text(name)
        if text is None:
            return None
        if not re.fullmatch(r"[0-9]{1,18}", text.strip()) or int(text) < least:
            raise InvalidInputError(f'Option "{name}" takes a whole number from {least} on, not {text!r}.')
        return int(text)

    def size(self, name: str) -> int | None:
        """A number of bytes, also as `512m` or `1g`."""
        text = self.text(name)
        if text is None:
            return None
        found = re.fullmatch(r"([0-9]{1,18})\s*([bkmgt]?)b?", text.strip().lower())
        if found is None or int(found[1]) == 0:
            raise InvalidInputError(
                f'Option "{name}" takes a number of bytes such as 512m or 1g, not {text!r}.'
            )
        return int(found[1]) * _UNITS[found[2]]

    def one_of(self, *names: str) -> str | None:
        """The one of several options that is given, as its name.

        Raises:
            InvalidInputError: More than one is given.
        """
        found = [name for name in names if self.text(name) is not None]
        if len(found) > 1:
            raise InvalidInputError(f"Give {' or '.join(found)}, not both.")
        return found[0] if found else None

    def require_absent(self, *names: str, because: str) -> None:
        """Raises InvalidInputError if one of these options is given."""
        for name in names:
            if self.text(name) is not None:
                raise InvalidInputError(f'Option "{name}" {because}.')

    @property
    def attach(self) -> dict[str, Any]:
        """The parameters of `attach()` among them."""
        found: dict[str, Any] = {name: self.flag(name) for name in _FLAGS if self.text(name) is not None}
        found |= {name: self.number(name) for name in _NUMBERS if self.text(name) is not None}
        found |= {name: self.text(name) for name in _TEXTS if self.text(name) is not None}
        found |= {key: value for key, value in self._given.items() if key.startswith("meta_")}
        storage = {
            key.removeprefix(_STORAGE): value
            for key, value in self._given.items()
            if key.startswith(_STORAGE)
        }
        return found | ({"storage_options": storage} if storage else {})


def _listed(names: Sequence[str]) -> str:
    return ", ".join(names)


# --- Batches. ---------------------------------------------------------------------------------------------------------


def reading(given: Mapping[str, str]) -> GivenOptions:
    """The options of `spark.read`."""
    options = GivenOptions(given, _READ, "a read")
    options.one_of("versionAsOf", "timestampAsOf")
    options.one_of("startingVersion", "startingTimestamp")
    options.one_of("endingVersion", "endingTimestamp")
    bounds = ("startingVersion", "startingTimestamp", "endingVersion", "endingTimestamp")
    if not options.flag("readChangeFeed"):
        options.require_absent(*bounds, because='belongs to a change feed: set "readChangeFeed" to true')
    else:
        options.require_absent(
            "versionAsOf", "timestampAsOf", because="does not go with readChangeFeed: give endingVersion"
        )
        if options.one_of("startingVersion", "startingTimestamp") is None:
            raise InvalidInputError(
                "readChangeFeed needs startingVersion or startingTimestamp: where to begin."
            )
    return options


def feed_bounds(options: GivenOptions) -> tuple[int | str, int | str | None]:
    """Where the change feed of a read begins and ends, both included."""
    start, end = options.number("startingVersion"), options.number("endingVersion")
    return (
        options.text("startingTimestamp") or "" if start is None else start,
        options.text("endingTimestamp") if end is None else end,
    )


def writing(given: Mapping[str, str]) -> GivenOptions:
    """The options of `df.write`."""
    options = GivenOptions(given, _WRITE, "a write")
    mode = options.text("partitionOverwriteMode")
    if mode is not None and mode.lower() not in ("static", "dynamic"):
        raise InvalidInputError(f'Option "partitionOverwriteMode" takes static or dynamic, not {mode!r}.')
    if (options.text("txnAppId") is None) != (options.text("txnVersion") is None):
        raise InvalidInputError("Give txnAppId and txnVersion together.")
    return options


def _keys(options: GivenOptions, name: str) -> tuple[str, ...]:
    """Columns that are given to Spark by their names, as keys."""
    found = json.loads(options.text(name) or "[]")
    # Columns of clusters are lists of the names of fields.
    return tuple(quote(each if isinstance(each, str) else ".".join(each)) for each in found)


def write_options(options: GivenOptions, mode: str) -> WriteOptions:
    """What a write is to do."""
    app, version = options.text("txnAppId"), options.number("txnVersion")
    return WriteOptions(
        mode=mode,
        where=options.text("replaceWhere"),
        by_partition=(options.text("partitionOverwriteMode") or "").lower() == "dynamic",
        merge_schema=options.flag("mergeSchema"),
        overwrite_schema=options.flag("overwriteSchema"),
        partitioned_by=_keys(options, _PARTITIONS),
        sorted_by=_keys(options, _CLUSTERS),
        transaction=None if app is None or version is None else (app, version),
    )


def of_catalog(given: Mapping[str, str], mode: str) -> WriteOptions:
    """What a write by a table's name is to do: `saveAsTable`, `insertInto` and `writeTo` take options of others too."""
    known = {name.lower() for name in _WRITE} - {*_WHERE, "overwriteschema"}
    own = {name: value for name, value in given.items() if name.lower() in known}
    made = write_options(writing(own), mode)
    made.check()
    return made


# --- Streams. ---------------------------------------------------------------------------------------------------------


def streaming(given: Mapping[str, str]) -> tuple[GivenOptions, StreamOptions]:
    """The options of `spark.readStream`."""
    options = GivenOptions(given, _STREAM, "a stream")
    options.one_of("startingVersion", "startingTimestamp")
    feed = options.flag("readChangeFeed")
    policy = Policy(
        feed, options.flag("ignoreDeletes"), options.flag("ignoreChanges"), options.flag("skipChangeCommits")
    )
    if feed:
        options.require_absent(
            "ignoreDeletes",
            "ignoreChanges",
            "skipChangeCommits",
            because="does not go with readChangeFeed, which tells of every change",
        )
    version: int | str | None = options.text("startingVersion")
    if version is not None:
        version = "latest" if str(version).lower() == "latest" else options.number("startingVersion")
    files, size = options.number("maxFilesPerTrigger", 1), options.size("maxBytesPerTrigger")
    if files is None and size is None:
        files = DEFAULT_FILES
    return options, StreamOptions(
        policy=policy,
        limits=Limits(files, size),
        starting_version=version,
        starting_timestamp=options.text("startingTimestamp"),
        fail_on_data_loss=options.flag("failOnDataLoss", default=True),
    )


def sinking(given: Mapping[str, str], keys: Sequence[str], mode: str) -> tuple[GivenOptions, SinkOptions]:
    """The options of `writeStream`."""
    options = GivenOptions(given, _SINK, "a streaming write")
    named = [name.strip().strip('`"') for name in (options.text("mergeKeys") or "").split(",")]
    return options, SinkOptions(
        mode=mode.lower(),
        merge_keys=tuple(name for name in named if name),
        merge_schema=options.flag("mergeSchema"),
        partitioned_by=tuple(map(quote, keys)),
        sorted_by=_keys(options, _CLUSTERS),
    )
