"""What went wrong, as one sentence on standard error, and the exit code that says it to programs."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from contextlib import contextmanager

import typer

from ducklake_spark.api.display import visible
from ducklake_spark.cli.connect import WrongUse
from ducklake_spark.errors import DuckLakeError

FAILED, USAGE, INTERRUPTED = 1, 2, 130


def sentence(error: BaseException) -> str:
    """An error in one line, without the plan or the stack that Spark adds.

    >>> sentence(ValueError("no such\\n  thing"))
    'ValueError: no such thing'
    """
    if isinstance(error, (DuckLakeError, WrongUse)):
        return " ".join(str(error).split())
    kind = type(error)
    if kind.__module__.startswith("py4j"):
        reason = next((line[2:] for line in str(error).splitlines() if line.startswith(": ")), str(error))
        return " ".join(reason.split())
    if kind.__module__.startswith("pyspark"):
        text = str(error).split("\n\nJVM stacktrace", 1)[0]
        text = re.split(r";?\n(?=['+!]|\s*\n|== |Driver stacktrace)", text, maxsplit=1)[0]
        return " ".join(text.split())
    if isinstance(error, OSError) and error.filename:
        return f"{error.filename}: {error.strerror}"
    return f"{kind.__name__}: {' '.join(str(error).split())}"


def show(error: BaseException) -> None:
    """One line on standard error, red in a terminal."""
    line = f"Error: {visible(sentence(error))}"
    typer.secho(line, err=True, fg=typer.colors.RED if sys.stderr.isatty() else None)


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
