"""The commands that keep a lake small, fast and clean."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, Optional

import typer

from ducklake_spark.cli.connect import Target, connect
from ducklake_spark.cli.errors import reported
from ducklake_spark.cli.options import (
    ConfOption,
    DebugOption,
    FormatOption,
    LakeArgument,
    PasswordOption,
    SchemaOption,
    SecretOption,
    StorageOption,
    TableArgument,
)
from ducklake_spark.cli.output import Bytes, Format, Result, write
from ducklake_spark.engine.column_texts import split_columns
from ducklake_spark.engine.maintenance.report import Report
from ducklake_spark.engine.scope import Scope, scope_of

Job = Callable[[Scope], Report]
OptionalTable = Annotated[
    Optional[str],  # noqa: UP045
    typer.Argument(metavar="[TABLE]", show_default=False, help="A table, or schema.table; all if left out."),
]
SchemaOfTables = Annotated[
    Optional[str],  # noqa: UP045
    typer.Option("--schema", "-s", metavar="NAME", help="Only the tables of this schema."),
]
OlderThan = Annotated[
    Optional[str],  # noqa: UP045
    typer.Option("--older-than", metavar="TIME", help="Only what is older than this time (UTC)."),
]
All = Annotated[bool, typer.Option("--all", help="All of them, however new.")]
DryRun = Annotated[bool, typer.Option("--dry-run", help="Only show what would be done.")]
Where = Annotated[
    Optional[str],  # noqa: UP045
    typer.Option(metavar="CONDITION", help="Only partitions for which this holds."),
]
Bound = Optional[int]  # noqa: UP045


@dataclass(frozen=True)
class _Command:
    """What all commands have in common."""

    target: Target
    format: Format
    debug: bool
    conf: Sequence[str] | None = None

    def run(self, job: Job, *, starts_spark: bool = False) -> None:
        with reported(self.debug), connect(self.target) as lake:
            scope = scope_of(lake)
            write(_result(self._on_spark(job, scope) if starts_spark else job(scope)), self.format)

    def _on_spark(self, job: Job, scope: Scope) -> Report:
        from ducklake_spark.cli import session
        from ducklake_spark.cli.startup import start_spark
        from ducklake_spark.spark.errors import quiet

        start_spark(session.settings(self.conf or []))
        with quiet():
            return job(scope)


def _result(report: Report) -> Result:
    columns = [column.split(" ", 1) for column in split_columns(report.all_columns)]
    names = [name for name, _ in columns]
    sizes = {place for place, name in enumerate(names) if "bytes" in name}
    rows = [
        tuple(
            Bytes(value) if place in sizes and value is not None else value for place, value in enumerate(row)
        )
        for row in report.rows
    ]
    numbers = frozenset(place for place, (_, kind) in enumerate(columns) if kind in ("bigint", "double"))
    return Result(names, rows, numbers)


def _target(
    lake: str, schema: str | None, secret: str | None, password: bool, storage: Sequence[str] | None
) -> Target:
    return Target(lake, None, schema, secret, password, read_only=False, storage=storage)


def health(
    lake: LakeArgument,
    format: FormatOption = Format.table,
    metadata_schema: SchemaOption = None,
    secret: SecretOption = None,
    password: PasswordOption = False,
    storage_option: StorageOption = None,
    debug: DebugOption = False,
) -> None:
    """Show small files, deleted rows, inlined rows and files that nobody needs, and the call that would help."""
    from ducklake_spark.engine.maintenance.health import health

    _Command(_target(lake, metadata_schema, secret, password, storage_option), format, debug).run(health)


def maintain(
    lake: LakeArgument,
    dry_run: DryRun = False,
    format: FormatOption = Format.table,
    conf: ConfOption = None,
    metadata_schema: SchemaOption = None,
    secret: SecretOption = None,
    password: PasswordOption = False,
    storage_option: StorageOption = None,
    debug: DebugOption = False,
) -> None:
    """Do what `health` advises. Starts Spark if files are to be merged or rewritten."""
    from ducklake_spark.engine.maintenance.health import maintain

    command = _Command(_target(lake, metadata_schema, secret, password, storage_option), format, debug, conf)
    command.run(lambda scope: maintain(scope, dry_run=dry_run), starts_spark=not dry_run)


def checkpoint(
    lake: LakeArgument,
    dry_run: DryRun = False,
    format: FormatOption = Format.table,
    conf: ConfOption = None,
    metadata_schema: SchemaOption = None,
    secret: SecretOption = None,
    password: PasswordOption = False,
    storage_option: StorageOption = None,
    debug: DebugOption = False,
) -> None:
    """Run every job of maintenance with the lake's options, as CHECKPOINT in SQL does. Starts Spark."""
    from ducklake_spark.engine.maintenance.checkpoint import checkpoint

    command = _Command(_target(lake, metadata_schema, secret, password, storage_option), format, debug, conf)
    command.run(lambda scope: checkpoint(scope, dry_run=dry_run), starts_spark=not dry_run)


def flush_inlined_data(
    lake: LakeArgument,
    table: OptionalTable = None,
    schema: SchemaOfTables = None,
    dry_run: DryRun = False,
    format: FormatOption = Format.table,
    metadata_schema: SchemaOption = None,
    secret: SecretOption = None,
    password: PasswordOption = False,
    storage_option: StorageOption = None,
    debug: DebugOption = False,
) -> None:
    """Move rows that are kept in the catalog to files."""
    from ducklake_spark.engine.maintenance.flush import flush_inlined_data

    command = _Command(_target(lake, metadata_schema, secret, password, storage_option), format, debug)
    command.run(lambda scope: flush_inlined_data(scope, table=table, schema=schema, dry_run=dry_run))


def merge_adjacent_files(
    lake: LakeArgument,
    table: OptionalTable = None,
    schema: SchemaOfTables = None,
    min_file_size: Annotated[Bound, typer.Option(metavar="BYTES", help="Leave out smaller files.")] = None,
    max_file_size: Annotated[
        Bound, typer.Option(metavar="BYTES", help="Leave out files of this size and larger ones.")
    ] = None,
    max_compacted_files: Annotated[
        Bound, typer.Option(metavar="N", help="Make at most so many new files.")
    ] = None,
    where: Where = None,
    dry_run: DryRun = False,
    format: FormatOption = Format.table,
    conf: ConfOption = None,
    metadata_schema: SchemaOption = None,
    secret: SecretOption = None,
    password: PasswordOption = False,
    storage_option: StorageOption = None,
    debug: DebugOption = False,
) -> None:
    """Merge small files into large ones; time travel stays. Starts Spark."""
    from ducklake_spark.engine.maintenance.compaction import merge_adjacent_files

    command = _Command(_target(lake, metadata_schema, secret, password, storage_option), format, debug, conf)
    command.run(
        lambda scope: merge_adjacent_files(
            scope,
            table=table,
            schema=schema,
            min_file_size=min_file_size,
            max_file_size=max_file_size,
            max_compacted_files=max_compacted_files,
            where=where,
            dry_run=dry_run,
        ),
        starts_spark=not dry_run,
    )


def rewrite_data_files(
    lake: LakeArgument,
    table: OptionalTable = None,
    schema: SchemaOfTables = None,
    delete_threshold: Annotated[
        Optional[float],  # noqa: UP045
        typer.Option(metavar="FRACTION", help="Files of which at least so much is deleted; 0.95 by default."),
    ] = None,
    dry_run: DryRun = False,
    format: FormatOption = Format.table,
    conf: ConfOption = None,
    metadata_schema: SchemaOption = None,
    secret: SecretOption = None,
    password: PasswordOption = False,
    storage_option: StorageOption = None,
    debug: DebugOption = False,
) -> None:
    """Write files anew of which most rows are deleted. Starts Spark."""
    from ducklake_spark.engine.maintenance.compaction import rewrite_data_files

    command = _Command(_target(lake, metadata_schema, secret, password, storage_option), format, debug, conf)
    command.run(
        lambda scope: rewrite_data_files(
            scope, table=table, schema=schema, delete_threshold=delete_threshold, dry_run=dry_run
        ),
        starts_spark=not dry_run,
    )


def compact(
    lake: LakeArgument,
    table: TableArgument,
    order_by: Annotated[
        Optional[list[str]],  # noqa: UP045
        typer.Option("--order-by", metavar="COLUMN", help="Sort rows by this column; may be repeated."),
    ] = None,
    zorder_by: Annotated[
        Optional[list[str]],  # noqa: UP045
        typer.Option(
            "--zorder-by", metavar="COLUMN", help="Bring rows together by this column; to be repeated."
        ),
    ] = None,
    where: Where = None,
    dry_run: DryRun = False,
    format: FormatOption = Format.table,
    conf: ConfOption = None,
    metadata_schema: SchemaOption = None,
    secret: SecretOption = None,
    password: PasswordOption = False,
    storage_option: StorageOption = None,
    debug: DebugOption = False,
) -> None:
    """Write the files of a table anew, in an order by which scans prune well. Starts Spark."""
    from ducklake_spark.engine.maintenance.clustering import compact

    command = _Command(_target(lake, metadata_schema, secret, password, storage_option), format, debug, conf)
    command.run(
        lambda scope: compact(
            scope, table, order_by=order_by or None, zorder_by=zorder_by or None, where=where, dry_run=dry_run
        ),
        starts_spark=not dry_run,
    )


def expire_snapshots(
    lake: LakeArgument,
    older_than: OlderThan = None,
    versions: Annotated[
        Optional[list[int]],  # noqa: UP045
        typer.Option("--version-at", metavar="N", help="This snapshot; may be repeated."),
    ] = None,
    dry_run: DryRun = False,
    format: FormatOption = Format.table,
    metadata_schema: SchemaOption = None,
    secret: SecretOption = None,
    password: PasswordOption = False,
    storage_option: StorageOption = None,
    debug: DebugOption = False,
) -> None:
    """Forget old snapshots; without a bound, those that the option expire_older_than says."""
    from ducklake_spark.engine.maintenance.expire import expire_snapshots

    command = _Command(_target(lake, metadata_schema, secret, password, storage_option), format, debug)
    command.run(
        lambda scope: expire_snapshots(
            scope, older_than=older_than, versions=versions or None, dry_run=dry_run
        )
    )


def cleanup_old_files(
    lake: LakeArgument,
    older_than: OlderThan = None,
    cleanup_all: All = False,
    dry_run: DryRun = False,
    format: FormatOption = Format.table,
    metadata_schema: SchemaOption = None,
    secret: SecretOption = None,
    password: PasswordOption = False,
    storage_option: StorageOption = None,
    debug: DebugOption = False,
) -> None:
    """Delete files that no snapshot needs any more; by default those that were let go two days ago."""
    from ducklake_spark.engine.maintenance.cleanup import cleanup_old_files

    command = _Command(_target(lake, metadata_schema, secret, password, storage_option), format, debug)
    command.run(
        lambda scope: cleanup_old_files(
            scope, older_than=older_than, cleanup_all=cleanup_all, dry_run=dry_run
        )
    )


def delete_orphaned_files(
    lake: LakeArgument,
    older_than: OlderThan = None,
    cleanup_all: All = False,
    dry_run: DryRun = False,
    format: FormatOption = Format.table,
    metadata_schema: SchemaOption = None,
    secret: SecretOption = None,
    password: PasswordOption = False,
    storage_option: StorageOption = None,
    debug: DebugOption = False,
) -> None:
    """Delete files below the data path that the catalog does not know; by default those older than two days."""
    from ducklake_spark.engine.maintenance.cleanup import delete_orphaned_files

    command = _Command(_target(lake, metadata_schema, secret, password, storage_option), format, debug)
    command.run(
        lambda scope: delete_orphaned_files(
            scope, older_than=older_than, cleanup_all=cleanup_all, dry_run=dry_run
        )
    )


def add_data_files(
    lake: LakeArgument,
    table: TableArgument,
    paths: Annotated[
        list[str], typer.Argument(metavar="PATH...", show_default=False, help="Parquet files, or globs.")
    ],
    allow_missing: Annotated[
        bool, typer.Option("--allow-missing", help="Files may lack columns of the table.")
    ] = False,
    ignore_extra_columns: Annotated[
        bool, typer.Option("--ignore-extra-columns", help="Files may have columns that the table has not.")
    ] = False,
    hive_partitioning: Annotated[
        Optional[bool],  # noqa: UP045
        typer.Option(
            "--hive-partitioning/--no-hive-partitioning", help="Whether folders such as year=2026 are values."
        ),
    ] = None,
    dry_run: DryRun = False,
    format: FormatOption = Format.table,
    metadata_schema: SchemaOption = None,
    secret: SecretOption = None,
    password: PasswordOption = False,
    storage_option: StorageOption = None,
    debug: DebugOption = False,
) -> None:
    """Add existing Parquet files to a table as they are. They belong to the lake then."""
    from ducklake_spark.engine.maintenance.add_files import add_data_files

    command = _Command(_target(lake, metadata_schema, secret, password, storage_option), format, debug)
    options: dict[str, Any] = {
        "allow_missing": allow_missing,
        "ignore_extra_columns": ignore_extra_columns,
        "hive_partitioning": hive_partitioning,
        "dry_run": dry_run,
    }
    command.run(lambda scope: add_data_files(scope, table, paths, **options))


COMMANDS = (
    health,
    maintain,
    checkpoint,
    flush_inlined_data,
    merge_adjacent_files,
    rewrite_data_files,
    compact,
    expire_snapshots,
    cleanup_old_files,
    delete_orphaned_files,
    add_data_files,
)
"""In the order in which the help shows them."""
