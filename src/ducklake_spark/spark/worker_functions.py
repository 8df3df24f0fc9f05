"""Gives functions to Spark's Python workers, which may run another Python than the driver.

The functions are those of `ducklake_spark.workers`. They travel by value. In a local session they run on the driver's
own Python, whatever PYSPARK_PYTHON says; the user's functions are left alone. On a cluster the workers are asked first
whether they have what the functions need.
"""

from __future__ import annotations

import json
import os
import re
import site
import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any
from weakref import WeakSet

import duckdb
import pyarrow as pa
import pyspark.sql.types as spark_types
from pyspark import cloudpickle
from pyspark.errors import PySparkException
from pyspark.sql import functions as F

from ducklake_spark.errors import WorkerError
from ducklake_spark.spark import writer as jvm
from ducklake_spark.workers.probe import NEEDED, probe

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

for _name in ("ducklake_spark.workers", "ducklake_spark.format"):
    # Only what a function refers to is sent, not its whole module.
    cloudpickle.register_pickle_by_value(import_module(_name))  # type: ignore[no-untyped-call]

WorkerFunction = Callable[[Iterable[pa.RecordBatch]], Iterator[pa.RecordBatch]]

_checked: WeakSet[Any] = WeakSet()
_REMEDY = (
    "Workers need {needs}: see docs/clusters.md. Set PYSPARK_PYTHON to such a Python before Spark starts."
)


def map_in_arrow(
    frame: DataFrame, function: WorkerFunction, schema: spark_types.StructType | str
) -> DataFrame:
    """`frame.mapInArrow`, with one of our functions.

    Raises:
        WorkerError: The workers lack something that the function needs.
    """
    require_workers(frame.sparkSession)
    if _runs_here(frame.sparkSession):
        return jvm.map_in_arrow_on(sys.executable, frame, function, schema, _environment())
    mapped: DataFrame = frame.mapInArrow(function, schema)
    return mapped


def has_scalars(spark: SparkSession) -> bool:
    """Whether functions over arrays can be called in SQL: by a session with a JVM, of PySpark 4.1 and newer."""
    return jvm.HAS_SCALARS and hasattr(spark, "_jsparkSession")


@contextmanager
def scalars(spark: SparkSession, functions: Iterable[Scalar]) -> Iterator[None]:
    """Inside, Spark's SQL knows these functions; what is analyzed there goes on knowing them.

    Raises:
        WorkerError: The workers lack something that the functions need.
    """
    made: list[str] = []
    try:
        for each in functions:
            require_workers(spark)
            on = (sys.executable, _environment()) if _runs_here(spark) else None
            jvm.register_scalar(spark, each.name, each.function, each.said, each.type, on)
            made.append(each.name)
        yield
    finally:
        for name in made:
            jvm.drop_function(spark, name)


@dataclass(frozen=True)
class Scalar:
    """A function over Arrow's arrays.

    Args:
        name: Its name in SQL.
        function: What workers run.
        said: The name that plans show.
        type: Spark's type of its answers.
    """

    name: str
    function: Callable[..., pa.Array]
    said: str
    type: spark_types.DataType


def arrow_schema(schema: spark_types.StructType) -> pa.Schema:
    """The Arrow types in which Spark exchanges rows of these types with Python; times in UTC."""
    return jvm.arrow_schema(schema)


def require_workers(spark: SparkSession) -> None:
    """Asks the workers of a cluster, once in a session, whether they can run our functions. Costs one tiny job.

    Raises:
        WorkerError: They cannot. Nothing was written.
    """
    if _runs_here(spark) or spark in _checked:
        return
    try:
        row = spark.range(0, 1, 1, 1).select(F.udf(probe, "string", useArrow=False)().alias("found")).first()
    except Exception as error:
        reason = _reason(error)
        if reason is None:
            raise
        raise WorkerError(f"Spark's Python workers cannot start: {reason}. {_remedy()}") from None
    assert row is not None
    found = json.loads(row[0])
    wrong = list(_differences(found["packages"]))
    if wrong:
        raise WorkerError(
            f"The Python of Spark's workers, {found['executable']} ({found['python']}), has {', '.join(wrong)}. "
            f"{_remedy()}"
        )
    _checked.add(spark)


def _runs_here(spark: SparkSession) -> bool:
    """Whether the workers are processes of this machine that can run this very Python."""
    if not hasattr(spark, "_jsparkSession") or not sys.executable:
        return False
    master = str(spark.sparkContext.master)
    return master == "local" or master.startswith("local[")


def _environment() -> dict[str, str]:
    """What lets this Python, started anew, find the packages: some may have been found by a change of `sys.path`."""
    known = [*site.getsitepackages(), site.getusersitepackages(), *_python_path()]
    found = {os.path.realpath(folder) for folder in known}
    folders = (Path(str(import_module(name).__file__)).resolve().parents[1] for name in NEEDED)
    outside = list(dict.fromkeys(str(folder) for folder in folders if str(folder) not in found))
    return {"PYTHONPATH": os.pathsep.join(outside)} if outside else {}


def _python_path() -> list[str]:
    return [folder for folder in os.environ.get("PYTHONPATH", "").split(os.pathsep) if folder]


def _minor(version: str) -> str:
    return ".".join(version.split(".")[:2])


def _remedy() -> str:
    python = f"Python {sys.version_info.major}.{sys.version_info.minor}"
    return _REMEDY.format(needs=f"{python} with pyarrow, pandas and duckdb {_minor(duckdb.__version__)}")


def _differences(packages: dict[str, str | None]) -> Iterator[str]:
    for name in NEEDED:
        version = packages[name]
        if version is None:
            yield f"no {name}"
        elif name == "duckdb" and _minor(version) != _minor(duckdb.__version__):
            yield f"duckdb {version} where the driver has {duckdb.__version__}"


def _reason(error: Exception) -> str | None:
    """Why not even the question could be asked, as far as it is about Python; None for other troubles of Spark."""
    if not isinstance(error, PySparkException) and type(error).__module__ != "py4j.protocol":
        return None
    text = str(error)
    for pattern in (
        r"Python in worker has different version[^.]*?: (?P<v>\S+) than that in driver[^.]*?: (?P<d>\S+)",
        r"\[PYTHON_VERSION_MISMATCH\] (?P<why>[^\n]*)",
        r"ModuleNotFoundError: (?P<why>[^\n]*)",
        r"ImportError: (?P<why>[^\n]*)",
        r"(?P<why>Cannot run program [^\n]*)",
    ):
        found = re.search(pattern, text)
        if found is not None:
            return found.groupdict().get("why", found[0]).strip().rstrip(".")[:150]
    return None
