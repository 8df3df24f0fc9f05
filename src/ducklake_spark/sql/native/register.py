"""`attach()` makes a lake a catalog of its session, until `close()`: what Spark asks, and who answers."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from ducklake_spark.engine.scope import scope_of
from ducklake_spark.errors import InvalidInputError, NativeUnavailableError
from ducklake_spark.spark.errors import say_missing
from ducklake_spark.spark.file_index import is_classic
from ducklake_spark.spark.native.catalog import (
    CATALOG_CLASS,
    LakeAnswers,
    has_cached_tables,
    has_threads,
    mark_transaction,
    refresh_table,
    register,
    setting_of,
)
from ducklake_spark.sql.native.definitions import Definitions
from ducklake_spark.sql.native.loaded import LoadedTables
from ducklake_spark.sql.native.procedures import Procedures
from ducklake_spark.sql.native.table_functions import TableFunctions
from ducklake_spark.sql.native.writes import Writes

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from ducklake_spark.api.lake import Lake
    from ducklake_spark.catalog.transaction import Transaction

_TAKEN = ("spark_catalog", "system", "session")


def make_catalog(lake: Lake, spark: SparkSession) -> None:
    """Makes the lake a catalog of the session. Where no classes can be loaded, whoever uses it there is told so.

    Raises:
        InvalidInputError: The session uses the name for something else.
    """
    _require_free(lake.name, spark)
    scope = scope_of(lake)
    try:
        undo = register(
            spark, lake.name, answers_of(lake, knows_threads=is_classic(spark) and has_threads(spark))
        )
    except NativeUnavailableError as error:
        say_missing(lake.name, str(error))
        scope.on_close.append(lambda: say_missing(lake.name, None))
        return
    scope.on_close.append(undo)
    scope.on_commit = lambda transaction: _refresh(lake.name, spark, transaction)
    if has_threads(spark):
        scope.on_mark = lambda token: mark_transaction(spark, lake.name, token)
        scope.mark()


def _refresh(name: str, spark: SparkSession, transaction: Transaction) -> None:
    """Tables that are cached in the session show what was committed; of other processes it does not know."""
    if not has_cached_tables(spark):
        return
    schemas = {
        schema.schema_id: schema.name for schema in (*transaction.reader.schemas(), *transaction.schemas())
    }
    dropped = {
        (edit.base.schema_id, edit.base.name) for edit in transaction.edits.tables.values() if edit.base
    }
    kept = {(edit.now.schema_id, edit.now.name) for edit in transaction.edits.tables.values() if edit.now}
    for schema_id, table in dropped | kept:
        if schema_id in schemas:  # one that was made here has nothing that could be cached
            refresh_table(spark, (name, schemas[schema_id], table), exists=(schema_id, table) in kept)


def _require_free(name: str, spark: SparkSession) -> None:
    used = "Spark itself" if name in _TAKEN else spark.conf.get(setting_of(name), None)
    if used not in (None, CATALOG_CLASS):
        raise InvalidInputError(
            f'The session has a catalog "{name}" already ({used}). Attach the lake with another name=, or with '
            "catalog=False to use it by lake.sql() and lake.table() only."
        )


def answers_of(lake: Lake, *, knows_threads: bool) -> LakeAnswers:
    """What answers the questions that Spark's side of a lake asks; it may know of which thread a question comes."""
    scope = scope_of(lake)

    @contextmanager
    def of_no_thread(_token: str) -> Iterator[None]:
        scope.require_none_begun(
            "with PYSPARK_PIN_THREAD=false Spark cannot tell whose statements are its own"
        )
        with scope.in_place_of(""):
            yield

    loaded, definitions, procedures = LoadedTables(lake), Definitions(lake), Procedures(lake)
    writes, functions = Writes(lake, loaded, definitions), TableFunctions(lake, definitions)
    return LakeAnswers(
        lake.name,
        {
            "load": loaded.load,
            "tableExists": loaded.exists,
            "frame": loaded.frame,
            "listTables": definitions.list_tables,
            "listNamespaces": definitions.list_namespaces,
            "namespace": definitions.namespace,
            "createNamespace": definitions.create_namespace,
            "alterNamespace": definitions.alter_namespace,
            "dropNamespace": definitions.drop_namespace,
            "create": definitions.create,
            "drop": definitions.drop,
            "rename": definitions.rename,
            "alter": definitions.alter,
            "createView": definitions.create_view,
            "alterView": definitions.alter_view,
            "renameView": definitions.rename_view,
            "dropView": definitions.drop_view,
            "listViews": definitions.list_views,
            "showView": definitions.show_view,
            "stage": writes.stage,
            "commitStaged": writes.commit_staged,
            "abortStaged": writes.abort_staged,
            "truncate": writes.truncate,
            "write": writes.write,
            "procedure": procedures.describe,
            "listProcedures": procedures.list,
            "call": procedures.call,
            "hasFunction": functions.has,
            "function": functions.call,
            "changes": functions.changes,
            "feed": functions.feed,
        },
        scope.in_place_of if knows_threads else of_no_thread,
    )
