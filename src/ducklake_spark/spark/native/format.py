"""The format `ducklake` in a session: its Java classes, and who answers them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from ducklake_spark.spark.native.callbacks import Answers, start_callbacks
from ducklake_spark.spark.native.compile import Unit, load

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

UNIT = Unit("format", ("format/DefaultSource.java", "format/LakeRelation.java"))
NAME = "ducklake.DefaultSource"
_answered: dict[int, tuple[Any, Answers]] = {}


def make_known(spark: SparkSession, functions: Callable[[], Mapping[str, Callable[..., Any]]]) -> None:
    """Lets a classic session, and all others of its JVM, find the format by its name.

    Args:
        spark: The session.
        functions: Makes the answers to what the classes ask; asked for once per JVM.

    Raises:
        NativeUnavailableError: The session has no JVM here, or none that takes classes.
    """
    source = load(spark, UNIT).new(NAME)
    gateway: Any = spark.sparkContext._gateway
    known = _answered.get(id(gateway))
    if known is None or known[0] is not gateway:
        start_callbacks(spark)
        answers = Answers("ducklake", functions())
        source.answer(answers)
        _answered[id(gateway)] = (gateway, answers)
    source.install(spark._jsparkSession)
