"""`configure()`: lakes for a session that is built once; attached as soon as it is there."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from ducklake_spark.api.attach import attach
from ducklake_spark.catalog.location import attach_string, parse_location
from ducklake_spark.engine import lakes
from ducklake_spark.engine.scope import scope_of
from ducklake_spark.errors import InvalidInputError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def configure(
    builder: SparkSession.Builder, **catalogs: str | os.PathLike[str] | Mapping[str, Any]
) -> SparkSession.Builder:
    """Lets the session that a builder makes know lakes as catalogs, by the names of the keywords.

    >>> from pyspark.sql import SparkSession
    >>> place = getfixture("tmp_path").as_posix()
    >>> spark = configure(SparkSession.builder, shop=f"ducklake:{place}/shop.ducklake").getOrCreate()
    >>> _ = spark.sql("CREATE TABLE shop.main.t AS SELECT 1 AS a")
    >>> spark.table("shop.main.t").collect()
    [Row(a=1)]
    >>> attach(f"ducklake:{place}/shop.ducklake", spark=spark, name="shop").close()

    Args:
        builder: `SparkSession.builder`, with what else it is to have.
        catalogs: By the catalog's name the attach string, or a dict of the parameters of `attach()` with `uri` for the
            attach string. The settings `spark.sql.catalog.NAME.*` show them, without passwords and `storage_options`.

    Returns:
        The builder; its `getOrCreate()` attaches the lakes.

    Raises:
        InvalidInputError: There is no lake, or one without an attach string.
    """
    from ducklake_spark.spark.native.catalog import CATALOG_CLASS, setting_of

    if not catalogs:
        raise InvalidInputError(
            'configure() takes lakes by name, such as configure(builder, lake="ducklake:m.ducklake").'
        )
    given = {name: _parameters(name, value) for name, value in catalogs.items()}
    for name, parameters in given.items():
        builder = builder.config(setting_of(name), CATALOG_CLASS)
        for key, value in _shown(parameters).items():
            builder = builder.config(f"{setting_of(name)}.{key}", value)
    changed: Any = builder
    changed.getOrCreate = _attaching(builder.getOrCreate, given)
    return builder


def _parameters(name: str, value: Any) -> dict[str, Any]:
    if isinstance(value, (str, os.PathLike)):
        return {"uri": value, "name": name}
    if not isinstance(value, Mapping) or not isinstance(value.get("uri"), (str, os.PathLike)):
        raise InvalidInputError(
            f'configure() takes for "{name}" an attach string, or a dict with "uri" and other parameters of attach().'
        )
    for key in ("name", "spark", "catalog"):
        if key in value:
            raise InvalidInputError(f'configure() says "{key}" of the lake "{name}" itself: leave it out.')
    return {**value, "name": name}


def _shown(parameters: Mapping[str, Any]) -> dict[str, str]:
    """The parameters as settings, which Spark shows to everybody: nothing of a connection but where it goes."""
    hidden = ("meta", "storage_options")
    shown = {key: str(value) for key, value in parameters.items() if not key.startswith(hidden)}
    shown.pop("name")
    return {**shown, "uri": parse_location(attach_string(parameters["uri"])).display}


def _attaching(
    get_or_create: Callable[[], SparkSession], given: Mapping[str, Mapping[str, Any]]
) -> Callable[[], SparkSession]:
    def run() -> SparkSession:
        spark = get_or_create()
        for parameters in given.values():
            known = lakes.named(parameters["name"])
            if known is None or scope_of(known).session is not spark:
                attach(**parameters, spark=spark)
        return spark

    return run
