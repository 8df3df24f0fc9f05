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
_REDACTED = "spark.sql.redaction.options.regex"
_HIDDEN = "(?i)^storage_"
"""Options that may be secrets under names that Spark does not take for such."""
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
    _hide_options(spark)
    source.install(spark._jsparkSession)


def _hide_options(spark: SparkSession) -> None:
    """Spark's plans and its UI show the options of writers, but for those that a setting says."""
    known = str(spark.conf.get(_REDACTED, "(?i)url"))
    if _HIDDEN not in known:
        wanted = f"{known}|{_HIDDEN}"
        spark.conf.set(_REDACTED, wanted)
        spark.sparkContext._jsc.sc().conf().set(
            _REDACTED, wanted
        )  # sessions that are made later begin with it
