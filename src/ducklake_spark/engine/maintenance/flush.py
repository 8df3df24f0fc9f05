"""flush_inlined_data: rows and deletes that the catalog keeps become files.

All tables of a call are one snapshot, as in the extension. It changes no row, so others may insert meanwhile; who
deletes rows that are being flushed makes it begin again.
"""

from __future__ import annotations

from dataclasses import replace

from ducklake_spark.catalog import ddl
from ducklake_spark.catalog.inlined_tables import InlinedData, drop_superseded, inlined_data
from ducklake_spark.catalog.store import Store
from ducklake_spark.catalog.transaction import Transaction
from ducklake_spark.engine.inserts import target_of
from ducklake_spark.engine.maintenance.age import flag
from ducklake_spark.engine.maintenance.progress import Progress
from ducklake_spark.engine.maintenance.report import Report
from ducklake_spark.engine.scope import Scope
from ducklake_spark.errors import InvalidInputError, TransactionError
from ducklake_spark.format.flush import FlushInlinedData
from ducklake_spark.format.names import Name, check_text
from ducklake_spark.format.objects import TableDef, is_local
from ducklake_spark.format.partitioning import Partitioning, PartitionKey
from ducklake_spark.scan.inlined import InlinedTable
from ducklake_spark.scan.planning.plan import columns_at, layout_begin
from ducklake_spark.write.flush import InlinedVersion, flush_table

COLUMNS = "schema_name string, table_name string, rows_flushed bigint"
MORE = "files bigint, bytes bigint, delete_files bigint"


def flush_inlined_data(
    scope: Scope, table: Name | None = None, *, schema: str | None = None, dry_run: bool = False
) -> Report:
    """Writes inlined rows and inlined deletes to files.

    Args:
        scope: The lake.
        table: Only this table.
        schema: Only the tables of this schema, or the schema of the table.
        dry_run: Only say how many rows would be flushed.

    Raises:
        NotFoundError: There is no such schema or table.
        TransactionError: The running transaction deleted rows of a table that is to be flushed.
    """
    if flag(dry_run, "dry_run"):
        return _planned(scope, table, schema)
    wanted: list[TableDef] = []

    def run(tx: Transaction) -> list[FlushInlinedData]:
        wanted[:] = _eligible(scope, tx, table, schema)
        found = inlined_data(tx.store, [each.table_id for each in wanted], tx.snapshot.snapshot_id)
        done = []
        rows = sum(each.row_count for each in found.values())
        with Progress("flush_inlined_data", rows, "rows") as progress:
            for each in wanted:
                if each.table_id in found and not _is_flushed(tx, each):
                    change = _flush(scope, tx, each, found[each.table_id])
                    if change is not None:
                        tx.apply(change)
                        done.append(change)
                    progress.advance(found[each.table_id].row_count)
        return done

    changes = scope.statement(run)
    if scope.transaction is None:
        # Those that had nothing to flush may have had empty ones.
        drop_superseded(scope.store, [each.table_id for each in wanted])
    names = {each.schema_id: each.name for each in scope.read_transaction().schemas()}
    rows = [
        (
            *(names.get(change.table.schema_id, ""), change.table.name, change.row_count),
            *(len(change.files), change.bytes, len(change.delete_files)),
        )
        for change in changes
        if change.row_count
    ]
    return Report(COLUMNS, sorted(rows), MORE)


def _planned(scope: Scope, table: Name | None, schema: str | None) -> Report:
    """What would be flushed, by the number of versions of rows."""
    tx = scope.read_transaction()
    wanted = _eligible(scope, tx, table, schema)
    found = inlined_data(tx.store, [each.table_id for each in wanted], tx.snapshot.snapshot_id)
    names = {each.schema_id: each.name for each in tx.schemas()}
    rows = [
        (names.get(each.schema_id, ""), each.name, found[each.table_id].row_count, None, None, None)
        for each in wanted
        if each.table_id in found and found[each.table_id].row_count
    ]
    return Report(COLUMNS, sorted(rows), MORE)


def _eligible(scope: Scope, tx: Transaction, table: Name | None, schema: str | None) -> list[TableDef]:
    return [each for each in _tables(scope, tx, table, schema) if _is_eligible(tx, each)]


def _tables(scope: Scope, tx: Transaction, table: Name | None, schema: str | None) -> list[TableDef]:
    if schema is not None:
        check_text("schema", schema)
    if table is None:
        if schema is None:
            return tx.all_tables()
        found = ddl.get_schema(tx, schema)
        return [each for each in tx.all_tables() if each.schema_id == found.schema_id]
    if schema is not None:
        if not isinstance(table, str):
            raise InvalidInputError(f"The schema is named twice: in {table!r}, and as schema={schema!r}.")
        table = (schema, table)
    return [ddl.get_table(tx, *scope.resolve(tx, table))]


def _is_eligible(tx: Transaction, table: TableDef) -> bool:
    option = tx.options.get("auto_compact", schema_id=table.schema_id, table_id=table.table_id)
    return option != "false" and not is_local(table.table_id)


def _is_flushed(tx: Transaction, table: TableDef) -> bool:
    edit = tx.edits.tables.get(table.table_id)
    return edit is not None and edit.flushed is not None


def _flush(scope: Scope, tx: Transaction, table: TableDef, found: InlinedData) -> FlushInlinedData | None:
    edit = tx.edits.tables.get(table.table_id)
    if edit is not None and (edit.deletes or edit.ended_rows or edit.emptied):
        raise TransactionError(
            f'The inlined data of table "{table.name}" cannot be flushed in a transaction that deleted or updated rows '
            "of it. Commit first."
        )
    target = target_of(scope, tx, table)
    versions = _versions(tx.store, table, found.tables)
    return flush_table(target, versions, has_deletes=found.has_deletes)


def _versions(store: Store, table: TableDef, tables: tuple[tuple[str, int], ...]) -> list[InlinedVersion]:
    """The table as it was when each of its inlined data tables was made."""
    if not tables:
        return []
    columns, versions, specifications, keys = store.query_many(
        [
            (
                "SELECT column_id, begin_snapshot, end_snapshot, column_type, parent_column, column_name, column_order "
                "FROM ducklake_column WHERE table_id = ?",
                (table.table_id,),
            ),
            (
                "SELECT schema_version, begin_snapshot FROM ducklake_schema_versions WHERE table_id = ?",
                (table.table_id,),
            ),
            (
                "SELECT partition_id, begin_snapshot, end_snapshot FROM ducklake_partition_info WHERE table_id = ?",
                (table.table_id,),
            ),
            (
                "SELECT partition_id, column_id, transform FROM ducklake_partition_column WHERE table_id = ? "
                "ORDER BY partition_key_index",
                (table.table_id,),
            ),
        ]
    )
    begins = {int(version): int(begin) for version, begin in versions}
    first = min(int(row[1]) for row in columns)
    made = []
    for name, version in tables:
        begin = layout_begin(begins, version, first)
        nodes = InlinedTable(name, version, columns_at(columns, begin))
        partitioning = next(
            (
                Partitioning(
                    int(partition_id),
                    tuple(PartitionKey(int(c), str(t)) for p, c, t in keys if p == partition_id),
                )
                for partition_id, start, end in specifications
                if start <= begin and (end is None or end > begin)
            ),
            None,
        )
        then = replace(table, columns=nodes.columns(), partitioning=partitioning, sorting=None)
        made.append(InlinedVersion(name, then))
    return made
