"""The command line, `ducklake-spark`. Commands that ask only the catalog never import Spark."""

from __future__ import annotations


def main() -> None:
    """Runs the command that the arguments of the process name."""
    from ducklake_spark.cli.app import app

    app(prog_name="ducklake-spark")
