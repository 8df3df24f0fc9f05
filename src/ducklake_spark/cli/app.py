"""The commands of `ducklake-spark`, and their options."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated, Optional

import typer

from ducklake_spark.cli import examples, maintenance
from ducklake_spark.cli.connect import Target, WrongUse, connect
from ducklake_spark.cli.errors import reported
from ducklake_spark.cli.options import (
    ConfOption,
    DebugOption,
    FormatOption,
    LakeArgument,
    LimitOption,
    PasswordOption,
    SchemaOption,
    SecretOption,
    StorageOption,
    TableArgument,
    TimestampOption,
    VersionOption,
)
from ducklake_spark.cli.output import Format, write, write_record
from ducklake_spark.engine.scope import scope_of

app = typer.Typer(
    help="Work with DuckLake lakes: run SQL on Spark, look at tables, files and snapshots, keep lakes clean.",
    epilog="Examples:\n\n"
    '  ducklake-spark sql shop.ducklake --create "CREATE TABLE orders (id BIGINT)"\n\n'
    "  ducklake-spark tables shop.ducklake\n\n"
    "  ducklake-spark COMMAND --help",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


def _version(wanted: bool) -> None:
    if wanted:
        from ducklake_spark import __version__

        typer.echo(f"ducklake-spark {__version__}")
        raise typer.Exit


@app.callback()
def _main(
    version: Annotated[
        bool, typer.Option("--version", help="Show the version.", callback=_version, is_eager=True)
    ] = False,
) -> None:
    """Work with DuckLake lakes: run SQL on Spark, look at tables, files and snapshots, keep lakes clean."""


@app.command()
def info(
    lake: LakeArgument,
    format: FormatOption = Format.table,
    version_at: VersionOption = None,
    timestamp: TimestampOption = None,
    metadata_schema: SchemaOption = None,
    secret: SecretOption = None,
    password: PasswordOption = False,
    debug: DebugOption = False,
) -> None:
    """Show what a lake is: its catalog, data path, version and size."""
    from ducklake_spark.cli import reports

    target = Target(lake, None, metadata_schema, secret, password, version_at, timestamp)
    with reported(debug), connect(target) as attached:
        write_record(reports.info(attached), format)


@app.command()
def tables(
    lake: LakeArgument,
    schema: Annotated[
        Optional[str],  # noqa: UP045
        typer.Option("--schema", metavar="NAME", help="Only the tables of this schema."),
    ] = None,
    format: FormatOption = Format.table,
    version_at: VersionOption = None,
    timestamp: TimestampOption = None,
    metadata_schema: SchemaOption = None,
    secret: SecretOption = None,
    password: PasswordOption = False,
    debug: DebugOption = False,
) -> None:
    """List tables and views, with their rows and files."""
    from ducklake_spark.cli import reports

    target = Target(lake, None, metadata_schema, secret, password, version_at, timestamp)
    with reported(debug), connect(target) as attached:
        write(reports.tables(attached, schema), format)


@app.command()
def schema(
    lake: LakeArgument,
    table: TableArgument,
    format: FormatOption = Format.table,
    version_at: VersionOption = None,
    timestamp: TimestampOption = None,
    metadata_schema: SchemaOption = None,
    secret: SecretOption = None,
    password: PasswordOption = False,
    debug: DebugOption = False,
) -> None:
    """Show a table's columns, their types and defaults, and its partition and sort keys."""
    from ducklake_spark.cli import reports

    target = Target(lake, None, metadata_schema, secret, password, version_at, timestamp)
    with reported(debug), connect(target) as attached:
        described = reports.schema(attached, table)
        if format is Format.json:
            write_record(described, format)
        else:
            write(reports.schema_rows(described), format)


@app.command()
def files(
    lake: LakeArgument,
    table: TableArgument,
    format: FormatOption = Format.table,
    version_at: VersionOption = None,
    timestamp: TimestampOption = None,
    metadata_schema: SchemaOption = None,
    secret: SecretOption = None,
    password: PasswordOption = False,
    debug: DebugOption = False,
) -> None:
    """List a table's data files, with their rows, size and deleted rows."""
    from ducklake_spark.cli import reports

    target = Target(lake, None, metadata_schema, secret, password, version_at, timestamp)
    with reported(debug), connect(target) as attached:
        write(reports.files(attached, table, people=format is Format.table), format)


@app.command()
def snapshots(
    lake: LakeArgument,
    newest: Annotated[
        Optional[int],  # noqa: UP045
        typer.Option("--limit", "-n", min=1, help="Only so many of the newest.", show_default=False),
    ] = None,
    format: FormatOption = Format.table,
    metadata_schema: SchemaOption = None,
    secret: SecretOption = None,
    password: PasswordOption = False,
    debug: DebugOption = False,
) -> None:
    """List snapshots: when, what changed, who and why."""
    from ducklake_spark.cli import reports

    target = Target(lake, None, metadata_schema, secret, password)
    with reported(debug), connect(target) as attached:
        write(reports.snapshots(attached, newest, people=format is Format.table), format)


@app.command()
def changes(
    lake: LakeArgument,
    table: TableArgument,
    start: Annotated[
        Optional[str],  # noqa: UP045
        typer.Option(
            "--from", metavar="SNAPSHOT", help="The first snapshot, or a time; by default the oldest."
        ),
    ] = None,
    end: Annotated[
        Optional[str],  # noqa: UP045
        typer.Option("--to", metavar="SNAPSHOT", help="The last snapshot, or a time; by default the newest."),
    ] = None,
    net: Annotated[bool, typer.Option("--net", help="Only what became of each row in sum.")] = False,
    format: FormatOption = Format.table,
    limit: LimitOption = 100,
    conf: ConfOption = None,
    metadata_schema: SchemaOption = None,
    secret: SecretOption = None,
    storage_option: StorageOption = None,
    password: PasswordOption = False,
    debug: DebugOption = False,
) -> None:
    """Show the rows of a table that were inserted, updated and deleted between two snapshots. Starts Spark."""
    from ducklake_spark.cli import session
    from ducklake_spark.cli.startup import start_spark

    target = Target(lake, None, metadata_schema, secret, password, storage=storage_option)
    with reported(debug), connect(target) as attached:
        attached[table]
        start_spark(session.settings(conf or []))
        session.show_changes(attached, session.Feed(table, start, end, net), format, limit)


@app.command()
def sql(
    lake: LakeArgument,
    statement: Annotated[
        Optional[str],  # noqa: UP045
        typer.Argument(help="SQL; several statements with ; between them."),
    ] = None,
    file: Annotated[
        Optional[Path],  # noqa: UP045
        typer.Option(
            "--file", "-f", metavar="FILE", help="Run the statements in a file; - is standard input."
        ),
    ] = None,
    dialect: Annotated[
        str,
        typer.Option(
            "--dialect",
            "-d",
            metavar="spark|duckdb",
            help="The dialect of the statements.",
            autocompletion=lambda: ["spark", "duckdb"],
        ),
    ] = "spark",
    format: FormatOption = Format.table,
    limit: LimitOption = 100,
    data_path: Annotated[
        Optional[str],  # noqa: UP045
        typer.Option("--data-path", metavar="PATH", help="Where the data files of a new lake go."),
    ] = None,
    create: Annotated[bool, typer.Option("--create", help="Make the lake if there is none.")] = False,
    read_only: Annotated[bool, typer.Option("--read-only", help="Refuse every change.")] = False,
    version_at: VersionOption = None,
    timestamp: TimestampOption = None,
    conf: ConfOption = None,
    metadata_schema: SchemaOption = None,
    secret: SecretOption = None,
    storage_option: StorageOption = None,
    password: PasswordOption = False,
    debug: DebugOption = False,
) -> None:
    """Run SQL on Spark: a statement, a file, or, with neither, an interactive shell."""
    from ducklake_spark.cli import session
    from ducklake_spark.cli.startup import start_spark

    with reported(debug):
        if statement is not None and file is not None:
            raise WrongUse("Give a statement or --file, not both.")
        if dialect not in ("spark", "duckdb"):
            raise WrongUse(f'--dialect is spark or duckdb, not "{dialect}".')
        settings = session.settings(conf or [])
        target = Target(
            lake,
            data_path,
            metadata_schema,
            secret,
            password,
            version_at,
            timestamp,
            read_only,
            create,
            storage_option,
        )
        text = statement
        if file is not None:
            text = sys.stdin.read() if str(file) == "-" else file.read_text(encoding="utf-8-sig")
        elif text is None and not sys.stdin.isatty():
            text = sys.stdin.read()
        with connect(target) as attached:
            if text is None:
                from ducklake_spark.cli.shell import Shell

                Shell(attached, settings, dialect, format, limit, debug).run()
            else:
                start_spark(settings)
                session.run(attached, text, dialect, format, limit)
                scope_of(attached).require_ended()


@app.command()
def explore(
    lake: LakeArgument,
    port: Annotated[
        int, typer.Option("--port", min=0, max=65535, help="Where the page is; 0 for any port that is free.")
    ] = 0,
    no_browser: Annotated[bool, typer.Option("--no-browser", help="Do not open a browser.")] = False,
    write: Annotated[bool, typer.Option("--write", help="Let SQL change the lake.")] = False,
    conf: ConfOption = None,
    metadata_schema: SchemaOption = None,
    secret: SecretOption = None,
    storage_option: StorageOption = None,
    password: PasswordOption = False,
    debug: DebugOption = False,
) -> None:
    """Look at a lake in the browser: tables, files, snapshots, SQL. Starts Spark when a query needs it."""
    from ducklake_spark.cli import session
    from ducklake_spark.explorer.server import make

    target = Target(
        lake, None, metadata_schema, secret, password, read_only=not write, storage=storage_option
    )
    with reported(debug), connect(target) as attached:
        explorer = make(attached, port=port, write=write, settings=session.settings(conf or []))
        typer.echo(f"The lake explorer: {explorer.url}\nCtrl-C ends it.")
        if not no_browser:
            typer.launch(explorer.url)
        explorer.serve()


for _command in maintenance.COMMANDS:
    app.command(rich_help_panel="Maintenance")(_command)
for _info in app.registered_commands:
    assert _info.callback is not None
    _info.name = _info.callback.__name__.replace("_", "-")
    _info.epilog = examples.epilog(_info.name)
