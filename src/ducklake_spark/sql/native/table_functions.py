"""Functions of a lake in FROM of Spark's own SQL, its clause CHANGES, and feeds: each a DataFrame of the lake."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any
from zoneinfo import ZoneInfo

from pyspark.sql import functions as F

from ducklake_spark.catalog.inventory import oldest_snapshot
from ducklake_spark.engine import format_options
from ducklake_spark.engine.scope import scope_of
from ducklake_spark.errors import InvalidInputError, NotFoundError, did_you_mean
from ducklake_spark.format.names import ticked
from ducklake_spark.format.objects import EPOCH
from ducklake_spark.format.types import fold
from ducklake_spark.spark.file_index import java_frame
from ducklake_spark.spark.native.callbacks import Refusal
from ducklake_spark.sql.execute import functions
from ducklake_spark.sql.native.definitions import Definitions, Facts
from ducklake_spark.sql.native.metadata_tables import METADATA_TABLES

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from ducklake_spark.api.lake import Lake

_OF_TABLES = sorted(METADATA_TABLES.keys() - functions.FUNCTIONS.keys())
"""Metadata tables that are functions too: `history('t')` is what `t.history` is."""
_FEED_COLUMNS = ("__snapshot_id", "__rowid", "__change_type")
_CHANGE_COLUMNS = ("_change_type", "_commit_version", "_commit_timestamp")


class TableFunctions:
    """What stands in FROM and is no table."""

    def __init__(self, lake: Lake, definitions: Definitions) -> None:
        self._lake, self._definitions = lake, definitions

    def has(self, facts: Facts, _: Any) -> bool:
        """Whether a name is that of a function of the lake.

        Raises:
            NotFoundError: It is not, though the lake was named.
        """
        name = fold(facts["name"])
        is_known = functions.find(name) is not None or name in _OF_TABLES
        if is_known and facts["namespace"] in ([], ["system"]):
            return True
        if not facts["certain"]:
            return False
        shown = ".".join((*facts["namespace"], facts["name"]))
        raise NotFoundError(
            f'The lake "{self._lake.name}" has no table function "{shown}".'
            f"{did_you_mean(name, [*functions.FUNCTIONS, *_OF_TABLES])} Its functions are called "
            f"{self._lake.name}.system.name(...); macros of the lake are known to lake.sql()."
        )

    def call(self, facts: Facts, _: Any) -> Any:
        """The rows of a function, with values that Spark has computed."""
        name = fold(facts["name"])
        values = [_value(value, self._lake) for value in facts["values"]]
        named = {key: _value(value, self._lake) for key, value in facts["named"].items()}
        if name in _OF_TABLES:
            return java_frame(self._of_table(name, values, named))
        function = functions.find(name)
        assert function is not None
        if function.is_job or function.state == "call only":
            call = f"CALL {self._lake.name}.system.{function.name}(...)"
            raise InvalidInputError(
                f"{function.name}() changes the lake, and a query may be planned many times: use {call}."
            )
        given = {key: value for key, value in named.items() if value is not None}
        return java_frame(functions.call(self._lake, facts["name"], values, given))

    def _of_table(self, name: str, values: list[Any], named: Mapping[str, Any]) -> DataFrame:
        given = [*values, *named.values()]
        if len(given) != 1 or not isinstance(given[0], str) or set(named) - {"table_name"}:
            raise InvalidInputError(f"{name}(table_name) takes the name of a table as a text.")
        lake = self._lake
        parts = tuple(given[0].split("."))
        plain = (lake.default_schema, given[0])
        found = parts if len(parts) == 2 and plain not in lake and parts in lake else plain
        return METADATA_TABLES[name](lake, (found[0], found[1]))

    def changes(self, facts: Facts, _: Any) -> Any:
        """`t CHANGES FROM ...`: the change feed with the columns that Spark's connectors have for it."""
        name = self._definitions.name(facts)
        if name not in self._lake:
            raise Refusal("NoSuchTable")
        first, last = self._bounds(facts)
        feed = self._lake.table_changes(name, first, last, net=facts["mode"] == "NET_CHANGES")
        own = feed.columns[3:]
        taken = [column for column in own if fold(column) in _CHANGE_COLUMNS]
        if taken:
            raise InvalidInputError(
                f'The column "{taken[0]}" of table "{name[1]}" has the name of one of CHANGES: use '
                f"{self._lake.name}.system.table_changes(...)."
            )
        times = self._lake.snapshots().select(
            F.col("snapshot_id").alias(_FEED_COLUMNS[0]), F.col("snapshot_time").alias("_commit_timestamp")
        )
        made = feed.toDF(*_FEED_COLUMNS, *own).join(F.broadcast(times), _FEED_COLUMNS[0], "left")
        chosen = made.select(
            *map(ticked, own),
            F.col(_FEED_COLUMNS[2]).alias("_change_type"),
            F.col(_FEED_COLUMNS[0]).alias("_commit_version"),
            "_commit_timestamp",
        )
        return java_frame(chosen)

    def feed(self, facts: Facts, _: Any) -> Any:
        """A table with the option `readChangeFeed`: what `format("ducklake")` gives with the same options."""
        name = self._definitions.name(facts)
        if name not in self._lake:
            raise Refusal("NoSuchTable")
        options = format_options.reading(facts["options"])
        options.require_absent("path", "table", because="does not go with the name of a table")
        return java_frame(self._lake.table_changes(name, *format_options.feed_bounds(options)))

    def _bounds(self, facts: Facts) -> tuple[int | datetime, int | datetime]:
        first: int | datetime = oldest_snapshot(scope_of(self._lake).store)
        last: int | datetime = self._lake.version
        after, before = (
            0 if facts.get(f"{side}BoundInclusive", True) else 1 for side in ("starting", "ending")
        )
        if "startingVersion" in facts:
            first = _version(facts["startingVersion"]) + after
        if "endingVersion" in facts:
            last = _version(facts["endingVersion"]) - before
        if "startingTimestamp" in facts:
            first = EPOCH + timedelta(microseconds=facts["startingTimestamp"] + after)
        if "endingTimestamp" in facts:
            last = EPOCH + timedelta(microseconds=facts["endingTimestamp"] - before)
        return first, last


def _version(text: str) -> int:
    if not text.isdigit():
        raise InvalidInputError(f"CHANGES FROM VERSION takes the number of a snapshot, not {text!r}.")
    return int(text)


def _value(value: Any, lake: Lake) -> Any:
    """An argument as Python has it; times without a zone are meant in that of the session."""
    if not isinstance(value, dict):
        return value
    if "days" in value:
        moment = datetime(1970, 1, 1) + timedelta(days=value["days"])
    else:
        moment = datetime(1970, 1, 1) + timedelta(microseconds=value["micros"])
    if value.get("zoned"):
        return EPOCH + (moment - datetime(1970, 1, 1))
    return moment.replace(tzinfo=ZoneInfo(str(lake.spark.conf.get("spark.sql.session.timeZone"))))
