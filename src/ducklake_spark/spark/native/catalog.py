"""Lakes as catalogs of a classic session: the Java classes, a session that knows them, and Catalyst's own columns."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from pyspark.sql import Column, DataFrame

from ducklake_spark.format.names import ticked
from ducklake_spark.spark.errors import catalogs
from ducklake_spark.spark.file_index import FIELD_IDS, RELATIONS, prepare
from ducklake_spark.spark.native.callbacks import ERROR, Answers, start_callbacks
from ducklake_spark.spark.native.compile import Unit, load
from ducklake_spark.spark.session import is_stopped

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_FILES = (
    "Lake",
    "LakeTable",
    "StreamTable",
    "LakeCatalog",
    "LakeProcedure",
    "Plans",
    "Rules",
    "Early",
    "LakeQueries",
    "Commands",
    "Answered",
    "Plugin",
)
UNIT = Unit("catalog", tuple(f"catalog/{name}.java" for name in _FILES), needs=(RELATIONS,))
CATALOG_CLASS = "ducklake.spark.LakeCatalog"
_TRANSACTION = "ducklake.transaction."

Function = Callable[[Mapping[str, Any], Sequence[Any]], Any]


class LakeAnswers(Answers):
    """Answers to what the classes of a lake ask: plain facts as JSON, and objects of the JVM beside them.

    Args:
        name: The lake's name.
        functions: What answers each question.
        in_place_of: Lets a block run in the place of the thread whose transaction has a token.
    """

    def __init__(
        self,
        name: str,
        functions: Mapping[str, Function],
        in_place_of: Callable[[str], AbstractContextManager[None]],
    ) -> None:
        super().__init__(f"lake {name}", functions)
        self._in_place_of = in_place_of

    def apply(self, question: str, arguments: Any) -> Any:
        what, token, facts = question.split(ERROR, 2)

        def call() -> Any:
            with self._in_place_of(token):
                return self._functions[what](json.loads(facts), arguments)

        return self.answer(call)


def setting_of(name: str) -> str:
    """The setting of Spark that makes a name a catalog."""
    return f"spark.sql.catalog.{name}"


def register(spark: SparkSession, name: str, answers: LakeAnswers) -> Callable[[], None]:
    """Makes a lake a catalog of a session, of its new sessions and of its clones.

    Returns:
        What undoes it.

    Raises:
        NativeUnavailableError: The JVM cannot load the classes that it takes.
    """
    plugin = _plugin(spark)
    session: Any = spark._jsparkSession
    context: Any = spark.sparkContext._jsc.sc()
    with _changing:
        lake = plugin.register(session, name, answers)
        prepare(spark)
        spark.conf.set(setting_of(name), CATALOG_CLASS)
        for key, value in ((setting_of(name), CATALOG_CLASS), (FIELD_IDS, "true")):
            context.conf().set(key, value)  # sessions that are made later begin with these
        with _active(spark):
            plugin.catalog(session, name)
        catalogs.add(name)

    def undo() -> None:
        with _changing:
            if context.isStopped() or not plugin.unregister(lake):
                return
            catalogs.discard(name)
            spark.conf.unset(setting_of(name))
            context.conf().remove(setting_of(name))
            plugin.forget(session, name)

    return undo


@contextmanager
def _active(spark: SparkSession) -> Iterator[None]:
    """Inside, the session is the one of this thread, whose settings Spark looks at; a new thread has none."""
    known = type(spark)._get_j_spark_session_class(spark._jvm)
    before = known.getActiveSession()
    known.setActiveSession(spark._jsparkSession)
    try:
        yield
    finally:
        if before.isDefined():
            known.setActiveSession(before.get())
        else:
            known.clearActiveSession()


def mark_transaction(spark: SparkSession, name: str, token: str) -> None:
    """Lets what Spark asks for this thread carry the token of its transaction; an empty one is none."""
    if is_stopped(spark):  # nothing will ask any more
        return
    spark.sparkContext.setLocalProperty(_TRANSACTION + name, token or None)  # type: ignore[arg-type]  # None unsets


def has_threads(spark: SparkSession) -> bool:
    """Whether each thread of Python has one of the JVM, and so properties of its own."""
    return type(spark.sparkContext._gateway).__name__ == "ClientServer"


def has_cached_tables(spark: SparkSession) -> bool:
    """Whether anything is cached in the session."""
    session: Any = spark._jsparkSession
    return not session.sharedState().cacheManager().isEmpty()


def refresh_table(spark: SparkSession, parts: Sequence[str], *, exists: bool) -> None:
    """Lets rows of a table that are cached be read anew; of one that is gone, they are forgotten."""
    if exists:
        spark.catalog.refreshTable(".".join(map(ticked, parts)))
        return
    session: Any = spark._jsparkSession
    jvm: Any = spark.sparkContext._jvm
    names = jvm.scala.jdk.javaapi.CollectionConverters.asScala(list(parts)).toSeq()
    session.sharedState().cacheManager().uncacheTableOrView(session, names, True)


def frame_of(spark: SparkSession, java: Any) -> DataFrame:
    """A Dataset of Java as a DataFrame."""
    return DataFrame(java, spark)


@dataclass(frozen=True)
class Statement:
    """An analyzed statement: how it knows its table, and at which snapshot it was analyzed and is run.

    Tables that it reads, and that were loaded at the same snapshot as its own, are read as they are when it is run.
    """

    spark: SparkSession
    relation: Any
    analyzed_at: int
    run_at: int

    def frame(self, rows: Any) -> DataFrame:
        """The rows of a plan, or of a Dataset."""
        session: Any = self.spark._jsparkSession
        made = _plugin(self.spark).frame(session, rows, self.relation, self.analyzed_at, self.run_at)
        return DataFrame(made, self.spark)

    def column(self, expression: Any) -> Column:
        """An expression of the statement."""
        return Column(_plugin(self.spark).column(expression, self.relation, self.analyzed_at, self.run_at))

    def known(self, frame: DataFrame) -> DataFrame:
        """The table's DataFrame with its columns under the ids by which the statement knows them."""
        return DataFrame(_plugin(self.spark).known(frame._jdf, self.relation), self.spark)


def _plugin(spark: SparkSession) -> Any:
    """The entry to our classes, once per JVM."""
    loaded = load(spark, UNIT)
    gateway: Any = spark.sparkContext._gateway
    known = _plugins.get(id(gateway))
    if known is None or known[0] is not gateway:
        start_callbacks(spark)
        known = _plugins[id(gateway)] = (gateway, loaded.new("ducklake.spark.Plugin"))
    return known[1]


_plugins: dict[int, tuple[Any, Any]] = {}
_changing = threading.RLock()
"""Held while a name begins or ends to be a catalog: threads may attach and close lakes of one name."""
