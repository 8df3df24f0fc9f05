"""Tables, views and metadata tables as Spark loads them: facts in JSON first, a DataFrame when a query is optimized."""

from __future__ import annotations

import itertools
import json
import threading
from collections import OrderedDict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pyspark.sql.types as spark_types

from ducklake_spark.catalog.transaction import Transaction
from ducklake_spark.engine.reads import read
from ducklake_spark.engine.scope import Scope, scope_of
from ducklake_spark.engine.times import scope_at
from ducklake_spark.errors import DuckLakeError, InvalidInputError
from ducklake_spark.format.columns import ColumnDef
from ducklake_spark.format.duckdb_sql import quote_if_needed
from ducklake_spark.format.objects import EPOCH, SchemaDef, TableDef
from ducklake_spark.format.sorting import sort_texts
from ducklake_spark.format.types import NESTED, duckdb_name, fold
from ducklake_spark.scan.projection.types import TypeChoices, choices_of, from_spark, user_type
from ducklake_spark.scan.read import VIRTUAL_COLUMNS
from ducklake_spark.spark.native.callbacks import Refusal
from ducklake_spark.sql.execute.queries import spark_sql
from ducklake_spark.sql.native.metadata_tables import METADATA_TABLES
from ducklake_spark.sql.parser.grammar_queries import parse_query_text
from ducklake_spark.sql.resolve.views import read_view

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from ducklake_spark.api.lake import Lake

LAKE_TYPE = "ducklake_type"
"""In the metadata of a column: its type in the lake, where Spark only shows it as another."""
_KEPT = 1000


@dataclass(frozen=True)
class Loaded:
    """What a handle stands for: a table as a transaction sees it, or a DataFrame that was made at once."""

    scope: Scope
    tx: Transaction
    schema: SchemaDef
    table: TableDef | None
    frame: DataFrame | None = None


class LoadedTables:
    """What Spark has loaded of a lake, by handle. A handle that was forgotten is looked up at its snapshot again."""

    def __init__(self, lake: Lake) -> None:
        self._lake = lake
        self._known: OrderedDict[str, Loaded] = OrderedDict()
        self._lock = threading.Lock()
        self._numbers = itertools.count(1)

    # What is asked.

    def load(self, facts: Mapping[str, Any], _: Any = None) -> str:
        """The facts of a table, view or metadata table, at a snapshot if one is named."""
        scope = self._scope(facts)
        travels = "version" in facts or "micros" in facts
        namespace = facts["namespace"]
        tx = scope.read_transaction()
        described = self._described(tx, namespace, facts["name"])
        if described is not None:
            return self._metadata_table(scope, tx, described, facts["name"])
        schema_name = self.schema_name(namespace, "NoSuchTable")
        schema = tx.schema(schema_name)
        if schema is None:
            raise Refusal("NoSuchTable")
        table = tx.table(schema, facts["name"])
        if table is None:
            view = tx.view(schema, facts["name"])
            if view is None:
                raise Refusal("NoSuchTable")
            frame = read_view(self._lake_of(scope), tx, schema.name, view)
            properties = {"table_type": "VIEW"} | ({"comment": view.comment} if view.comment else {})
            return self._of_frame(scope, tx, schema, view.name, properties, frame)
        return self._table(
            scope,
            tx,
            schema,
            table,
            travels=travels,
            writes=bool(facts.get("writes")),
            asserts=bool(facts.get("like")),
        )

    def exists(self, facts: Mapping[str, Any], _: Any) -> bool:
        """Whether there is a table, view or metadata table of this name."""
        namespace, name = facts["namespace"], facts["name"]
        tx = scope_of(self._lake).read_transaction()
        if self._described(tx, namespace, name) is not None:
            return True
        if len(namespace) > 1:
            return False
        schema = tx.schema(self.schema_name(namespace, "NoSuchTable"))
        return schema is not None and (
            tx.table(schema, name) is not None or tx.view(schema, name) is not None
        )

    def frame(self, facts: Mapping[str, Any], _: Any) -> Any:
        """The DataFrame of a handle, for Java."""
        from ducklake_spark.spark.file_index import java_frame

        found = self.find(facts["handle"])
        if found.frame is not None:
            with self._lock:  # the table has it from now on
                self._known.pop(facts["handle"], None)
            return java_frame(found.frame)
        assert found.table is not None
        return java_frame(read(found.scope, found.tx, found.table, tuple(facts["virtual"])))

    # For those who write.

    def schema_name(self, namespace: Sequence[str], refusal: str) -> str:
        """The one schema that a namespace names; none is the lake's default schema."""
        if len(namespace) > 1:
            raise Refusal(refusal)
        return namespace[0] if namespace else self._lake.default_schema

    def find(self, handle: str) -> Loaded:
        """What a handle stands for.

        Raises:
            DuckLakeError: It was made in a transaction that is over.
        """
        with self._lock:
            found = self._known.get(handle)
            if found is not None:
                self._known.move_to_end(handle)
                return found
        said = json.loads(handle)
        if "number" in said:
            raise DuckLakeError(
                f'The table "{said["table"]}" was loaded in a transaction that is over. Load it again.'
            )
        scope = scope_at(scope_of(self._lake), said["version"], None)
        tx = scope.read_transaction()
        table = tx.table_of(said["id"])
        if table is None:
            raise DuckLakeError(f'There is no table "{said["table"]}" at version {said["version"]} any more.')
        return self._keep(handle, Loaded(scope, tx, tx.schema_of(table.schema_id), table))

    def staged(self, name: tuple[str, str], schema: spark_types.StructType, handle: str) -> str:
        """The facts of a table that is to be created."""
        return self._facts(name, schema, handle, id=handle, writable=True)

    # How.

    def _scope(self, facts: Mapping[str, Any]) -> Scope:
        scope = scope_of(self._lake)
        if "version" in facts:
            text = str(facts["version"])
            if not text.isdigit():
                raise InvalidInputError(f"VERSION AS OF takes the number of a snapshot, not {text!r}.")
            return scope_at(scope, int(text), None)
        if "micros" in facts:
            from datetime import timedelta

            return scope_at(scope, None, EPOCH + timedelta(microseconds=facts["micros"]))
        return scope

    def _lake_of(self, scope: Scope) -> Lake:
        if scope is scope_of(self._lake):
            return self._lake
        assert scope.pinned is not None
        return self._lake.at(version=scope.pinned.snapshot_id)

    def _keep(self, handle: str, loaded: Loaded) -> Loaded:
        with self._lock:
            self._known[handle] = loaded
            while len(self._known) > _KEPT:
                self._known.popitem(last=False)
        return loaded

    def _table(
        self,
        scope: Scope,
        tx: Transaction,
        schema: SchemaDef,
        table: TableDef,
        *,
        travels: bool,
        writes: bool,
        asserts: bool,
    ) -> str:
        version = tx.snapshot.snapshot_id
        said: dict[str, Any] = {"table": table.name, "id": table.table_id, "version": version}
        is_pending = scope.transaction is not None and bool(tx.edits)
        frame = None
        if is_pending and not writes:
            # What the transaction has changed so far; later changes are for those who load the table then.
            frame = read(scope, tx, table, tuple(name for name, _ in _virtual(table)))
        if is_pending:
            said["number"] = next(self._numbers)
        elif scope.transaction is not None:
            # The handle is that of the snapshot, for everybody, and what Spark plans for it is kept.
            tx = tx.without_edits()
        handle = json.dumps(said)
        self._keep(handle, Loaded(scope, tx, schema, table, frame))
        keys = {column.column_id: column.name for column in table.columns}
        spark_schema = table_schema(table, choices_of(scope.spark), defaults=writes)
        if writes and not asserts:
            # A NULL where none may be is ours to refuse, and we name the column: Spark's own check does not.
            spark_schema = spark_types.StructType(
                [
                    spark_types.StructField(each.name, each.dataType, True, each.metadata)
                    for each in spark_schema
                ]
            )
        return self._facts(
            (schema.name, table.name),
            spark_schema,
            handle,
            id=table.table_uuid,
            virtual=_virtual(table),
            partitioning=[
                # Spark's own transforms of times count since 1970.
                (
                    "bucket" if key.buckets is not None else key.epoch_unit or key.transform,
                    keys[key.column_id],
                    key.buckets,
                )
                for key in (table.partitioning.keys if table.partitioning is not None else ())
            ],
            properties=_properties(tx, table),
            writable=not travels,
            follows=None if travels or is_pending else version,
            # A catalog that was restored from a backup counts its versions anew.
            plans=f"{handle} {tx.snapshot}",
            eager=frame is not None,
        )

    def _of_frame(
        self,
        scope: Scope,
        tx: Transaction,
        schema: SchemaDef,
        name: str,
        properties: Mapping[str, str],
        frame: DataFrame,
    ) -> str:
        handle = json.dumps({"table": name, "number": next(self._numbers)})
        self._keep(handle, Loaded(scope, tx, schema, None, frame))
        return self._facts(
            (schema.name, name), frame.schema, handle, id=handle, properties=properties, eager=True
        )

    def _described(
        self, tx: Transaction, namespace: Sequence[str], kind: str
    ) -> tuple[SchemaDef, TableDef] | None:
        """The table that a name is a metadata table of: `schema.table` or, in the default schema, `table` before it."""
        if fold(kind) not in METADATA_TABLES or not 1 <= len(namespace) <= 2:
            return None
        if len(namespace) == 1 and tx.schema(namespace[0]) is not None:
            return None
        schema = tx.schema(namespace[0] if len(namespace) == 2 else self._lake.default_schema)
        table = None if schema is None else tx.table(schema, namespace[-1])
        return None if schema is None or table is None else (schema, table)

    def _metadata_table(
        self, scope: Scope, tx: Transaction, described: tuple[SchemaDef, TableDef], kind: str
    ) -> str:
        schema, table = described
        frame = METADATA_TABLES[fold(kind)](self._lake_of(scope), (schema.name, table.name))
        return self._of_frame(scope, tx, schema, f"{table.name}.{fold(kind)}", {}, frame)

    def _facts(self, name: tuple[str, str], schema: spark_types.StructType, handle: str, **more: Any) -> str:
        facts = {
            "title": ".".join((self._lake.name, *name)),
            "names": [self._lake.name, *name],
            "path": ".".join(map(quote_if_needed, (self._lake.name, *name))),
            "schema": schema.json(),
            "handle": handle,
            "virtual": [],
            "partitioning": [],
            "properties": {},
        }
        return json.dumps({**facts, **more})


def _virtual(table: TableDef) -> list[tuple[str, str]]:
    own = {fold(column.name) for column in table.columns}
    return [(name, kind.simpleString()) for name, kind in VIRTUAL_COLUMNS.items() if name not in own]


def _properties(tx: Transaction, table: TableDef) -> dict[str, str]:
    made = {"provider": "ducklake"}
    if table.comment:
        made["comment"] = table.comment
    if table.sorting is not None and table.sorting.keys:
        made["sorted_by"] = ", ".join(sort_texts(table.sorting))
    for (key, kind, scope_id), value in tx.options.stored.items():
        if kind == "table" and scope_id == table.table_id:
            made[key] = str(value)
    return made


def table_schema(table: TableDef, choices: TypeChoices, *, defaults: bool) -> spark_types.StructType:
    """The columns as Spark sees them, with comments; with `defaults` also what INSERT puts where it is silent."""
    fields = []
    for column in table.columns:
        kind = user_type(column.data_type, choices)
        metadata: dict[str, Any] = {}
        if column.comment:
            metadata["comment"] = column.comment
        if from_spark(kind) != column.data_type:
            metadata[LAKE_TYPE] = duckdb_name(column.data_type)
        if defaults:
            metadata |= _default(column, kind)
        fields.append(spark_types.StructField(column.name, kind, column.nulls_allowed, metadata))
    return spark_types.StructType(fields)


def _default(column: ColumnDef, kind: spark_types.DataType) -> dict[str, str]:
    text = "NULL"
    if column.default_value is not None and column.data_type.name not in NESTED:
        text = _default_text(column, kind)
    elif not column.nulls_allowed:
        return {}
    return {"CURRENT_DEFAULT": text, "EXISTS_DEFAULT": "NULL"}


def _default_text(column: ColumnDef, kind: spark_types.DataType) -> str:
    assert column.default_value is not None
    if column.default_value_type == "expression":
        return spark_sql(parse_query_text(column.default_value, "duckdb"), "duckdb")
    quoted = column.default_value.replace("\\", "\\\\").replace("'", "\\'")
    return f"CAST('{quoted}' AS {kind.simpleString()})"
