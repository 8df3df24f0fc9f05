"""`FROM 'file.csv'`, as DuckDB's dialect has it: Spark reads the file, with the names and types that DuckDB finds."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from ducklake_spark.errors import DuckLakeError, InvalidInputError, NotFoundError
from ducklake_spark.format.duckdb_rows import first_row

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_FORMATS = {
    ".parquet": "parquet",
    ".csv": "csv",
    ".tsv": "csv",
    ".json": "json",
    ".ndjson": "json",
    ".jsonl": "json",
}
_PACKED = (".gz", ".zst", ".bz2")


def format_of(name: str) -> str | None:
    """The format of a file by its name, or None when it is not the name of a file that can be read.

    >>> format_of("a/b.CSV.gz"), format_of("data/*.parquet"), format_of("t")
    ('csv', 'parquet', None)
    """
    plain = name.lower()
    for ending in _PACKED:
        plain = plain.removesuffix(ending)
    return next((kind for ending, kind in _FORMATS.items() if plain.endswith(ending)), None)


def frame(spark: SparkSession, path: str) -> DataFrame:
    """The rows of a file, or of all that match a pattern.

    Raises:
        NotFoundError: There is no such file.
        InvalidInputError: Spark cannot read it.
    """
    from pyspark.errors import PySparkException

    kind = format_of(path)
    if path.startswith(("http://", "https://")):
        raise InvalidInputError(f"Spark does not read {path}: download the file, and name it where it is.")
    try:
        if kind == "parquet":
            return spark.read.parquet(path)
        if kind == "json":
            return _json(spark, path)
        return _csv(spark, path)
    except PySparkException as error:
        if error.getCondition() == "PATH_NOT_FOUND":
            raise NotFoundError(f'There is no table, view or file "{path}".') from None
        raise InvalidInputError(f"Cannot read {path}: {str(error).splitlines()[0]}") from None


def _csv(spark: SparkSession, path: str) -> DataFrame:
    found = None if "://" in path else _sniffed(path)
    if found is None:
        return spark.read.csv(path, header=True, inferSchema=True)
    delimiter, quote, escape, has_header, columns = found
    options: dict[str, Any] = {"sep": delimiter, "header": bool(has_header)}
    if quote and quote != "(empty)":
        options["quote"] = quote
    if escape and escape != "(empty)":
        options["escape"] = escape
    return spark.read.csv(path, schema=_schema(spark, columns), **options)


def _sniffed(path: str) -> tuple[Any, ...] | None:
    """What DuckDB finds out from the first rows; None when there is no such file here."""
    import duckdb

    with duckdb.connect(config={"threads": 1}) as connection:
        try:
            row = first_row(
                connection.execute(
                    "SELECT Delimiter, Quote, Escape, HasHeader, Columns FROM sniff_csv(?)", [path]
                )
            )
        except duckdb.IOException:
            return None
        except duckdb.Error as error:
            raise InvalidInputError(f"Cannot read {path}: {str(error).splitlines()[0]}") from None
    return row


def _json(spark: SparkSession, path: str) -> DataFrame:
    """With columns in the order in which they stand in the file, which Spark does not keep by itself."""
    import duckdb

    if "://" in path:
        return spark.read.json(path)
    with duckdb.connect(config={"threads": 1}) as connection:
        try:
            rows = connection.execute("DESCRIBE FROM read_json(?)", [path]).fetchall()
            start = first_row(connection.execute("SELECT ltrim(content)[1] FROM read_text(?)", [path]))
            schema = _schema(spark, [{"name": str(row[0]), "type": str(row[1])} for row in rows])
        except (duckdb.Error, DuckLakeError):
            return spark.read.json(path)  # what DuckDB cannot read Spark may, or it says why not
    return spark.read.json(path, schema=schema, multiLine=start is not None and start[0] == "[")


def _schema(spark: SparkSession, columns: Sequence[dict[str, str]]) -> Any:
    from pyspark.sql.types import StructField, StructType

    from ducklake_spark.format.types import parse_type
    from ducklake_spark.scan.projection.types import choices_of, user_type

    choices = choices_of(spark)
    return StructType(
        [StructField(column["name"], user_type(parse_type(column["type"]), choices)) for column in columns]
    )
