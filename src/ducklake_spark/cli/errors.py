"""What went wrong, as one sentence on standard error, and the exit code that says it to programs."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager

import typer

from ducklake_spark.api.display import error_text, visible
from ducklake_spark.cli.connect import WrongUse

FAILED, USAGE, INTERRUPTED = 1, 2, 130


def sentence(error: BaseException) -> str:
    """An error in one line, without the plan or the stack that Spark adds.

    >>> sentence(WrongUse("no such\\n  thing"))
    'no such thing'
    """
    return " ".join(str(error).split()) if isinstance(error, WrongUse) else error_text(error)


def show(error: BaseException) -> None:
    """One line on standard error, red in a terminal that wants colours."""
    line = f"Error: {visible(sentence(error))}"
    if sys.stderr.isatty() and not os.environ.get("NO_COLOR"):
        line = typer.style(line, fg=typer.colors.RED)
    typer.echo(line, err=True)


@contextmanager
def reported(debug: bool) -> Iterator[None]:
    """Ends the command with the code of what went wrong; with `debug`, the traceback is shown."""
    try:
        yield
    except (typer.Exit, BrokenPipeError):
        raise
    except KeyboardInterrupt:
        raise typer.Exit(INTERRUPTED) from None
    except Exception as error:
        if debug:
            raise
        show(error)
        raise typer.Exit(USAGE if isinstance(error, WrongUse) else FAILED) from None
