"""A relation whose rows another DataFrame gives, made when a query is planned: with its columns and filters only.

Spark hands columns and filters to a `CatalystScan`, which is a class. Its few lines of Java are compiled by the Janino
that Spark ships; they stay on the driver and ask Python. Where they cannot be compiled, and with Spark Connect, the
DataFrame has all columns and no filters.
"""

from __future__ import annotations

import threading
from collections.abc import Sequence
from typing import Any, Protocol

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import StructType

from ducklake_spark.spark.errors import install
from ducklake_spark.spark.file_index import PRUNED_RELATION, is_classic, tree_of

_SOURCE = """
package ducklake.scan;

import org.apache.spark.rdd.RDD;
import org.apache.spark.sql.SQLContext;
import org.apache.spark.sql.sources.BaseRelation;
import org.apache.spark.sql.sources.CatalystScan;
import org.apache.spark.sql.types.StructType;
import scala.collection.immutable.Seq;

public final class PrunedRelation extends BaseRelation implements CatalystScan {
  private SQLContext context;
  private StructType columns;
  private java.util.function.BiFunction scan;
  private String title;
  private String token;
  private long size;

  public PrunedRelation of(
      SQLContext context, StructType columns, java.util.function.BiFunction scan, String title, String token,
      long size) {
    PrunedRelation made = new PrunedRelation();
    made.context = context;
    made.columns = columns;
    made.scan = scan;
    made.title = title;
    made.token = token;
    made.size = size;
    return made;
  }

  public SQLContext sqlContext() { return context; }
  public StructType schema() { return columns; }
  public boolean needConversion() { return false; }
  public long sizeInBytes() { return size; }
  public RDD buildScan(Seq wanted, Seq filters) { return (RDD) scan.apply(wanted, filters); }
  public String toString() { return title; }
  public int hashCode() { return token.hashCode(); }
  public boolean equals(Object other) {
    return other instanceof PrunedRelation && ((PrunedRelation) other).token.equals(token);
  }
}
"""


class PrunedSource(Protocol):
    """Where the rows of a relation come from."""

    @property
    def title(self) -> str:
        """What `explain()` shows."""

    @property
    def token(self) -> str:
        """Two sources with the same token have the same rows."""

    @property
    def size(self) -> int:
        """All bytes, for the optimizer."""

    def scan(self, spark: SparkSession, columns: Sequence[str], filters: Sequence[Any]) -> DataFrame:
        """The rows that filters may keep, with exactly these columns; filters are trees as `tree_of` makes them."""


def pruned(spark: SparkSession, source: PrunedSource, schema: StructType) -> DataFrame:
    """A DataFrame of the source's rows. Nothing is asked of the source before Spark plans a query of it."""
    factory = _factory(spark) if is_classic(spark) else None
    if factory is None:
        return source.scan(spark, schema.names, [])
    jvm: Any = spark.sparkContext._jvm
    session = spark._jsparkSession
    kind = jvm.org.apache.spark.sql.types.DataType.fromJson(schema.json())
    scan = _Scan(spark, source)
    relation = factory.of(session.sqlContext(), kind, scan, source.title, source.token, source.size)
    relations = getattr(jvm.org.apache.spark.sql.execution.datasources, "LogicalRelation$")
    datasets = getattr(jvm.org.apache.spark.sql.classic, "Dataset$")
    plan = getattr(relations, "MODULE$").apply(relation, False)
    return DataFrame(getattr(datasets, "MODULE$").ofRows(session, plan), spark)


class _Scan:
    """What the JVM calls while it plans a query, on a thread of the callback server."""

    class Java:
        implements = ("java.util.function.BiFunction",)

    def __init__(self, spark: SparkSession, source: PrunedSource) -> None:
        self._spark, self._source = spark, source

    def apply(self, wanted: Any, filters: Any) -> Any:
        columns = [str(wanted.apply(i).name()) for i in range(wanted.size())]
        trees = [tree_of(filters.apply(i)) for i in range(filters.size())]
        found = self._source.scan(self._spark, columns, trees)
        return found._jdf.queryExecution().toRdd()

    def toString(self) -> str:
        return self._source.title


_known: dict[int, tuple[Any, Any]] = {}
_lock = threading.Lock()


def _factory(spark: SparkSession) -> Any | None:
    """An object of the compiled class, which makes others; None where it cannot be compiled."""
    from py4j.protocol import Py4JError
    from pyspark.java_gateway import ensure_callback_server_started

    gateway: Any = spark.sparkContext._gateway
    with _lock:
        known = _known.get(id(gateway))
        if known is None or known[0] is not gateway:
            ensure_callback_server_started(gateway)  # type: ignore[no-untyped-call]  # PySpark has no types here
            install()
            try:
                made = _compiled(gateway)
            except Py4JError:
                made = None
            known = _known[id(gateway)] = (gateway, made)
    return known[1]


def _compiled(gateway: Any) -> Any:
    jvm = gateway.jvm
    compiler = jvm.org.codehaus.janino.SimpleCompiler()
    compiler.setParentClassLoader(jvm.java.lang.Thread.currentThread().getContextClassLoader())
    compiler.setTargetVersion(8)
    compiler.cook(_SOURCE)
    nothing = gateway.new_array(jvm.java.lang.Class, 0)
    none = gateway.new_array(jvm.java.lang.Object, 0)
    return compiler.getClassLoader().loadClass(PRUNED_RELATION).getConstructor(nothing).newInstance(none)
