"""Arguments and options that several commands have."""

from __future__ import annotations

from typing import Annotated, Optional

import typer

from ducklake_spark.cli.output import Format

# typer reads the annotations at run time, and on Python 3.10 with `Optional` in them as well as with `|`.
LakeArgument = Annotated[
    str,
    typer.Argument(
        metavar="LAKE",
        show_default=False,
        help="A path such as sales.ducklake, or what attach() takes: ducklake:PATH, ducklake:sqlite:PATH, "
        "ducklake:postgres:CONNINFO, ducklake:mysql:CONNINFO, or ducklake:SECRET for a persistent secret of DuckDB. "
        "Passwords are better kept in PGPASSWORD, ~/.pgpass, MYSQL_PWD or a secret than written here.",
    ),
]
TableArgument = Annotated[
    str, typer.Argument(metavar="TABLE", show_default=False, help="A table, or schema.table.")
]
FormatOption = Annotated[Format, typer.Option("--format", "-o", help="How results are written.")]
SchemaOption = Annotated[
    Optional[str],  # noqa: UP045
    typer.Option("--metadata-schema", metavar="NAME", help="The schema of the catalog's tables."),
]
SecretOption = Annotated[
    Optional[str],  # noqa: UP045
    typer.Option(
        "--secret",
        metavar="NAME",
        help="A persistent secret of DuckDB with the credentials of the catalog's server.",
    ),
]
PasswordOption = Annotated[
    bool, typer.Option("--password", "-W", help="Ask for the password of the catalog's server.")
]
VersionOption = Annotated[
    Optional[int],  # noqa: UP045
    typer.Option("--version-at", metavar="N", help="The lake as it was at this snapshot."),
]
TimestampOption = Annotated[
    Optional[str],  # noqa: UP045
    typer.Option("--timestamp", metavar="TIME", help="The lake as it was at this time."),
]
LimitOption = Annotated[
    int, typer.Option("--limit", "-n", min=0, help="How many rows a table shows; 0 for all.")
]
ConfOption = Annotated[
    Optional[list[str]],  # noqa: UP045
    typer.Option("--conf", metavar="KEY=VALUE", help="A setting of Spark; may be repeated."),
]
StorageOption = Annotated[
    Optional[list[str]],  # noqa: UP045
    typer.Option(
        "--storage-option",
        metavar="KEY=VALUE",
        help="A setting of the object store that the data path is in, such as key_id, secret, region or endpoint; may "
        "be repeated. Secrets are better kept in the environment than written here.",
    ),
]
DebugOption = Annotated[bool, typer.Option("--debug", help="Show the traceback of an error.")]
