"""Writes the pages of docs/ that are made from the code: `python scripts/site/references.py`.

`make docs` runs it, and a test compares: the pages cannot say anything else than the code does.
"""

from __future__ import annotations

import ast
import enum
import inspect
import re
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import typer.main

from ducklake_spark.cli import examples
from ducklake_spark.cli.app import app
from ducklake_spark.format.options import OPTIONS
from ducklake_spark.sql.execute import settings
from ducklake_spark.sql.execute.functions import FUNCTIONS, Function
from ducklake_spark.sql.native.metadata_tables import METADATA_TABLES
from ducklake_spark.sql.parser.grammar import OF_DUCKDB, STATEMENTS
from ducklake_spark.sql.parser.grammar_other import NOT_HERE

DOCS = Path(__file__).parents[2] / "docs"
SOURCE = Path(__file__).parents[2] / "src" / "ducklake_spark"
_BAR = re.compile(r"(?<!\\)\|")
NOTE = "Generated from the code by `scripts/site/references.py`; a test keeps it so."


def cli() -> str:
    """The page of the command line."""
    root: Any = typer.main.get_command(app)
    context = root.make_context("ducklake-spark", ["info", "-"], resilient_parsing=True)
    names = root.list_commands(context)
    parts = [
        "# Command line reference",
        f"{NOTE} [The command line](cli.md) says how to use it.",
        _grid(
            ("command", "what it does"),
            [
                (f"[`{name}`](#{name})", _sentence(root.get_command(context, name).help or ""))
                for name in names
            ],
        ),
    ]
    for name in names:
        parts += _command(name, root.get_command(context, name))
    return "\n\n".join(parts) + "\n"


def _command(name: str, command: Any) -> Iterable[str]:
    arguments = [each for each in command.params if each.param_type_name == "argument"]
    options = [each for each in command.params if each.param_type_name == "option"]
    yield f"## {name}"
    yield _sentence(command.help or "")
    usage = " ".join(_argument(each) for each in arguments)
    yield "```text\nducklake-spark " + name + " [OPTIONS] " + usage + "\n```"
    yield _grid(
        ("argument", ""), [(f"`{_argument(each)}`", _sentence(each.help or "")) for each in arguments]
    )
    yield _grid(("option", ""), [(_option(each), _about(each)) for each in options])
    yield "```text\n" + "\n".join(examples.lines(name)) + "\n```"


def _argument(each: Any) -> str:
    name = (each.metavar or each.name.upper()).strip("[]")
    text = f"{name}..." if each.nargs == -1 else name
    return text if each.required else f"[{text}]"


def _option(each: Any) -> str:
    spelled = ", ".join(f"`{text}`" for text in (*each.opts, *each.secondary_opts))
    if each.is_flag:
        return spelled
    words = [word.value for word in type(each.default)] if isinstance(each.default, enum.Enum) else ["N"]
    return f"{spelled} `{each.metavar or '|'.join(words)}`"


def _about(each: Any) -> str:
    text = _sentence(each.help or "")
    default = getattr(each.default, "value", each.default)
    if each.is_flag or default in (None, ()):
        return text
    return f"{text} By default `{default}`."


def sql() -> str:
    """The page of the SQL that a lake knows."""
    parts = [
        "# SQL reference",
        f"{NOTE} [SQL](sql.md) has an example of every statement, in both dialects.",
        "## Statements",
        "By their first word. Everything else is a query.",
        _grid(("word", "dialects"), _statements()),
        "These are read, and refused with the reason:",
        _grid(("word", "dialects", "why not"), [_refused(word) for word in sorted(NOT_HERE)]),
        "## Functions",
        "As `lake.name(...)` or `ducklake_name('lake', ...)`, in `CALL` and, unless it says so, in `FROM`; in "
        "`spark.sql` as `CALL lake.system.name(...)`. Parameters in brackets may be left out, and all can be given "
        "by name: `name => value`. Those that are marked with a star change the lake.",
        _grid(("function", "what it gives or does"), [_function(each) for each in FUNCTIONS.values()]),
        "## Metadata tables of Spark",
        "In `spark.sql`, behind the name of a table, as in `SELECT * FROM lake.shop.orders.files`: "
        + ", ".join(f"`{name}`" for name in METADATA_TABLES)
        + ".",
        "## Options of a lake",
        "Set by `CALL lake.set_option('name', value)`, with `table_name =>` or `schema =>` for a part of it, or by "
        "`lake.set_option()`.",
        _grid(("option", "what it is for"), [_option_row(name) for name in OPTIONS]),
        "## Settings",
        "By `SET` and `RESET`, for one handle.",
        _grid(
            ("setting", "at first"),
            [
                *((f"`{name}`", f"{value:g}") for name, (_, _, value) in settings.RETRY.items()),
                *((f"`{name}`", f"the option `{option}`") for name, option in settings.OPTIONS.items()),
            ],
        ),
    ]
    return "\n\n".join(parts) + "\n"


def _statements() -> list[tuple[str, str]]:
    found = dict.fromkeys(STATEMENTS, "both")
    found |= {word: "DuckDB's" for word in OF_DUCKDB if word not in STATEMENTS}
    return sorted((f"`{word}`", dialects) for word, dialects in found.items())


def _refused(word: str) -> tuple[str, str, str]:
    return f"`{word}`", "Spark's" if word in OF_DUCKDB else "both", _sentence(NOT_HERE[word])


def _function(each: Function) -> tuple[str, str]:
    shown = ", ".join(f"[{name[:-1]}]" if name.endswith("?") else name for name in each.parameters)
    more = " In `CALL` only." if each.state == "call only" else ""
    star = " \\*" if each.is_job or each.state == "call only" else ""
    return f"`{each.name}({shown})`{star}", f"{each.text}.{more}"


def _option_row(name: str) -> tuple[str, str]:
    option = OPTIONS[name]
    fixed = "" if option.normalize is not None else " Fixed when the lake is created."
    return f"`{name}`", f"{_sentence(option.description)}{fixed}"


def files() -> str:
    """The page of the files: each module by its folder, with what it says of itself first."""
    parts = [
        "# Every file",
        f"{NOTE} [Architecture](architecture.md) says how they work together.",
    ]
    for folder in sorted({path.parent for path in SOURCE.rglob("*.py")}):
        rows = [
            (f"`{path.name}`", said)
            for path in sorted(folder.glob("*.py"))
            if (said := _first_of(ast.get_docstring(ast.parse(path.read_text(encoding="utf-8"))) or ""))
        ]
        if rows:
            name = str(folder.relative_to(SOURCE.parent)) + "/"
            parts += [f"## `{name}`", _grid(("file", "what it is for"), rows)]
    return "\n\n".join(parts) + "\n"


def _first_of(text: str) -> str:
    """The first paragraph, as one line, with marks that Markdown would take for its own."""
    return _sentence(text.split("\n\n")[0].replace("<", "&lt;"))


def _sentence(text: str) -> str:
    """One line that ends with a full stop."""
    line = " ".join(inspect.cleandoc(text).split())
    return line if line.endswith(".") or not line else f"{line}."


def _grid(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    lines = [
        " | ".join(_BAR.sub(r"\\|", cell) for cell in line) for line in (head, ["---"] * len(head), *rows)
    ]
    return "\n".join(f"| {line} |" for line in lines)


PAGES = {"cli-reference.md": cli, "sql-reference.md": sql, "files.md": files}

if __name__ == "__main__":
    for page, text in PAGES.items():
        (DOCS / page).write_text(text(), encoding="utf-8")
    sys.exit()
