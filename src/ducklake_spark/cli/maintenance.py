"""The commands that keep a lake small, fast and clean."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Sequence
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


def _shared(
    lake: LakeArgument,
    format: FormatOption = Format.table,
    conf: ConfOption = None,
    metadata_schema: SchemaOption = None,
    secret: SecretOption = None,
    password: PasswordOption = False,
    storage_option: StorageOption = None,
    debug: DebugOption = False,
) -> tuple[Target, Format, Sequence[str], bool]:
    """What all commands take: the lake before their own arguments, the rest behind them."""
    target = Target(lake, None, metadata_schema, secret, password, read_only=False, storage=storage_option)
    return target, format, conf or [], debug


def _command(*, starts_spark: bool = False) -> Callable[[Callable[..., Job]], Callable[..., None]]:
    """Makes a command of a function that makes a job of the command's own arguments."""

    def decorate(make: Callable[..., Job]) -> Callable[..., None]:
        own = inspect.signature(make, eval_str=True).parameters
        first, *others = inspect.signature(_shared, eval_str=True).parameters.values()
        shared = [first, *(each for each in others if starts_spark or each.name != "conf")]

        @functools.wraps(make)
        def run(**given: Any) -> None:
            job = make(**{name: given[name] for name in own})
            target, format, conf, debug = _shared(**{each.name: given[each.name] for each in shared})
            with reported(debug), connect(target) as lake:
                scope = scope_of(lake)
                needs_spark = starts_spark and not given["dry_run"]
                write(_result(_on_spark(job, scope, conf) if needs_spark else job(scope)), format)

        parameters = [first, *own.values(), *shared[1:]]
        run.__annotations__ = {each.name: each.annotation for each in parameters}
        run.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
        return run

    return decorate


def _on_spark(job: Job, scope: Scope, conf: Sequence[str]) -> Report:
    from ducklake_spark.cli import session
    from ducklake_spark.cli.startup import start_spark
    from ducklake_spark.spark.errors import quiet

    start_spark(session.settings(conf))
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


@_command()
def health() -> Job:
    """Show small files, deleted rows, inlined rows and files that nobody needs, and the call that would help."""
    from ducklake_spark.engine.maintenance.health import health

    return health


@_command(starts_spark=True)
def maintain(
    dry_run: DryRun = False,
) -> Job:
    """Do what `health` advises. Starts Spark if files are to be merged or rewritten."""
    from ducklake_spark.engine.maintenance.health import maintain

    return lambda scope: maintain(scope, dry_run=dry_run)


@_command(starts_spark=True)
def checkpoint(
    dry_run: DryRun = False,
) -> Job:
    """Run every job of maintenance with the lake's options, as CHECKPOINT in SQL does. Starts Spark."""
    from ducklake_spark.engine.maintenance.checkpoint import checkpoint

    return lambda scope: checkpoint(scope, dry_run=dry_run)


@_command()
def flush_inlined_data(
    table: OptionalTable = None,
    schema: SchemaOfTables = None,
    dry_run: DryRun = False,
) -> Job:
    """Move rows that are kept in the catalog to files."""
    from ducklake_spark.engine.maintenance.flush import flush_inlined_data

    return lambda scope: flush_inlined_data(scope, table=table, schema=schema, dry_run=dry_run)


@_command(starts_spark=True)
def merge_adjacent_files(
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
) -> Job:
    """Merge small files into large ones; time travel stays. Starts Spark."""
    from ducklake_spark.engine.maintenance.compaction import merge_adjacent_files

    return lambda scope: merge_adjacent_files(
        scope,
        table=table,
        schema=schema,
        min_file_size=min_file_size,
        max_file_size=max_file_size,
        max_compacted_files=max_compacted_files,
        where=where,
        dry_run=dry_run,
    )


@_command(starts_spark=True)
def rewrite_data_files(
    table: OptionalTable = None,
    schema: SchemaOfTables = None,
    delete_threshold: Annotated[
        Optional[float],  # noqa: UP045
        typer.Option(metavar="FRACTION", help="Files of which at least so much is deleted; 0.95 by default."),
    ] = None,
    dry_run: DryRun = False,
) -> Job:
    """Write files anew of which most rows are deleted. Starts Spark."""
    from ducklake_spark.engine.maintenance.compaction import rewrite_data_files

    return lambda scope: rewrite_data_files(
        scope, table=table, schema=schema, delete_threshold=delete_threshold, dry_run=dry_run
    )


@_command(starts_spark=True)
def compact(
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
) -> Job:
    """Write the files of a table anew, in an order by which scans prune well. Starts Spark."""
    from ducklake_spark.engine.maintenance.clustering import compact

    return lambda scope: compact(
        scope, table, order_by=order_by or None, zorder_by=zorder_by or None, where=where, dry_run=dry_run
    )


@_command()
def expire_snapshots(
    older_than: OlderThan = None,
    versions: Annotated[
        Optional[list[int]],  # noqa: UP045
        typer.Option("--version-at", metavar="N", help="This snapshot; may be repeated."),
    ] = None,
    dry_run: DryRun = False,
) -> Job:
    """Forget old snapshots; without a bound, those that the option expire_older_than says."""
    from ducklake_spark.engine.maintenance.expire import expire_snapshots

    return lambda scope: expire_snapshots(
        scope, older_than=older_than, versions=versions or None, dry_run=dry_run
    )


@_command()
def cleanup_old_files(
    older_than: OlderThan = None,
    cleanup_all: All = False,
    dry_run: DryRun = False,
) -> Job:
    """Delete files that no snapshot needs any more; by default those that were let go two days ago."""
    from ducklake_spark.engine.maintenance.cleanup import cleanup_old_files

    return lambda scope: cleanup_old_files(
        scope, older_than=older_than, cleanup_all=cleanup_all, dry_run=dry_run
    )


@_command()
def delete_orphaned_files(
    older_than: OlderThan = None,
    cleanup_all: All = False,
    dry_run: DryRun = False,
) -> Job:
    """Delete files below the data path that the catalog does not know; by default those older than two days."""
    from ducklake_spark.engine.maintenance.cleanup import delete_orphaned_files

    return lambda scope: delete_orphaned_files(
        scope, older_than=older_than, cleanup_all=cleanup_all, dry_run=dry_run
    )


@_command()
def add_data_files(
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
) -> Job:
    """Add existing Parquet files to a table as they are. They belong to the lake then."""
    from ducklake_spark.engine.maintenance.add_files import add_data_files

    options: dict[str, Any] = {
        "allow_missing": allow_missing,
        "ignore_extra_columns": ignore_extra_columns,
        "hive_partitioning": hive_partitioning,
        "dry_run": dry_run,
    }
    return lambda scope: add_data_files(scope, table, paths, **options)


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
