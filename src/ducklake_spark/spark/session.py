"""The Spark session for those who bring none: started without the lines that a JVM greets people with."""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext
from importlib import import_module
from typing import TYPE_CHECKING, Any

from ducklake_spark.errors import SparkUnavailableError
from ducklake_spark.spark import at_exit, interrupts

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


_LATE_C2 = " ".join(
    (
        "-XX:+IgnoreUnrecognizedVMOptions -XX:Tier4InvocationThreshold=50000 -XX:Tier4MinInvocationThreshold=6000",
        "-XX:Tier4CompileThreshold=150000 -XX:Tier4BackEdgeThreshold=400000",
    )
)
"""The JVM's best compiler begins ten times later than usual: else it takes the cores while Spark starts. The loops of a
real job get there within milliseconds."""
_FEWEST_PARTS = 16
_one_start = threading.RLock()
"""Held while a session starts: two threads that need one do not start two."""
_expected: _Jvm | None = None
"""A JVM that starts for a session that is needed soon."""


def session_or_local(spark: SparkSession | None) -> SparkSession:
    """The given session, else the active one, else a new one.

    Raises:
        SparkUnavailableError: There is none, and none can be started.
    """
    from pyspark.sql import SparkSession

    found = spark or SparkSession.getActiveSession() or start()
    interrupts.install()
    return found


def is_stopped(spark: SparkSession) -> bool:
    """Whether nothing can be run in a session any more."""
    context: Any = getattr(spark, "_sc", None)
    if context is not None:
        return context._jsc is None
    return bool(getattr(spark, "is_stopped", False))


def start(
    settings: Mapping[str, str] | None = None, waiting: AbstractContextManager[Any] | None = None
) -> SparkSession:
    """A new session, whose Python workers run this very interpreter.

    Where it runs is for Spark's own settings to say (spark-submit, spark-defaults.conf, SPARK_REMOTE); without a word,
    it is local. Ctrl-C while it starts leaves nothing behind.

    Args:
        settings: Settings of Spark; they go before ours.
        waiting: What to do while it starts.

    Raises:
        SparkUnavailableError: Spark cannot be started.
    """
    with _one_start:
        return _start(_chosen(settings or {}), waiting or nullcontext())


@contextmanager
def expected() -> Iterator[None]:
    """Starts the JVM of a new session beside what the block does first, if there is no session yet.

    `start()` takes it. What goes wrong is said there; a JVM that the block did not come to need is ended.
    """
    from pyspark.sql import SparkSession

    global _expected
    jvm = _Jvm(_chosen({}))
    with _one_start:
        if _expected is None and SparkSession.getActiveSession() is None and _starts_here(jvm.settings):
            _expected = jvm
            jvm.begin()
    try:
        yield
    finally:
        with _one_start:
            if _expected is jvm:
                _expected = None
                jvm.end()


def _chosen(settings: Mapping[str, str]) -> dict[str, str]:
    return {
        "spark.app.name": "ducklake-spark",
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "true" if sys.stderr.isatty() else "false",
        "spark.log.level": "ERROR",
        # Not the extraJavaOptions, which are the user's.
        "spark.driver.defaultJavaOptions": _LATE_C2,
        **settings,
    }


def _start(chosen: Mapping[str, str], waiting: AbstractContextManager[Any]) -> SparkSession:
    from pyspark.errors import PySparkException
    from pyspark.sql import SparkSession

    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    builder = SparkSession.builder
    for key, value in chosen.items():
        builder = builder.config(key, value)
    jvm = _expected_or_new(chosen)
    with waiting:
        try:
            if _starts_here(chosen):
                jvm.launch()
            else:
                jvm.end()
            with interrupts.quiet():
                session = _tuned(builder.getOrCreate())
                jvm.settle()
                return session
        except PySparkException as error:
            jvm.end()
            said = [line.strip() for line in jvm.heard() if "java" in line.lower()]
            reason = said[0] if said else str(error).splitlines()[0]
            raise SparkUnavailableError(
                f"Spark could not start ({reason[:200]}). It needs Java 17 or 21, found by JAVA_HOME or on the PATH."
            ) from None
        except BaseException:
            jvm.end()
            raise
        finally:
            jvm.speak()


def _expected_or_new(settings: Mapping[str, str]) -> _Jvm:
    global _expected
    jvm, _expected = _expected, None
    if jvm is not None and jvm.settings == settings:
        return jvm
    if jvm is not None:
        jvm.end()
    return _Jvm(settings)


def _tuned(spark: SparkSession) -> SparkSession:
    """A local session with a few times as many shuffle partitions as cores: 200 are meant for clusters."""
    key = "spark.sql.shuffle.partitions"
    context: Any = getattr(spark, "_sc", None)
    if context is not None and context.master.startswith("local[") and context.getConf().get(key) is None:
        spark.conf.set(key, max(_FEWEST_PARTS, 4 * context.defaultParallelism))
    return spark


def _starts_here(settings: Mapping[str, str]) -> bool:
    """Whether a JVM of this process has to be started: not with Spark Connect, or where one runs."""
    from pyspark import SparkContext

    remote = "SPARK_REMOTE" in os.environ or "SPARK_CONNECT_MODE_ENABLED" in os.environ
    connect = "spark.remote" in settings or settings.get("spark.api.mode") == "connect"
    return not (remote or connect) and SparkContext._gateway is None


class _Jvm:
    """A JVM for PySpark that keeps its greetings to itself, and can be ended while it starts."""

    def __init__(self, settings: Mapping[str, str]) -> None:
        self.settings = settings
        self._gateway: Any = None
        self._relay: _Relay | None = None
        self._thread: threading.Thread | None = None
        self._warming: threading.Thread | None = None
        self._failed: BaseException | None = None
        self._given_up = False
        self._lock = threading.Lock()

    def begin(self) -> None:
        """Begins to start it, as PySpark would."""
        os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
        # In a thread: Ctrl-C between the process's start and its first word would lose it.
        self._thread = threading.Thread(target=self._run, name="starts Spark", daemon=True)
        self._thread.start()

    def launch(self) -> None:
        """Waits until PySpark can use it."""
        from pyspark import SparkContext

        if self._thread is None:
            self.begin()
        assert self._thread is not None
        import_module("pandas")  # PySpark does, with the first DataFrame: here it costs no time

        while self._thread.is_alive():
            self._thread.join(0.1)
        if self._failed is not None:
            raise self._failed
        SparkContext._ensure_initialized(gateway=self._gateway, conf=self._conf())
        self._warming = threading.Thread(target=self._warm, name="warms Spark", daemon=True)
        self._warming.start()

    def _warm(self) -> None:
        """Loads libraries that a session needs, while the context starts, on another core.

        None of them knows a class of Spark: so no two threads can wait for each other's classes.
        """
        from py4j.protocol import Py4JError

        jvm = self._gateway.jvm
        try:
            jvm.scala.reflect.runtime.package.universe()
            jvm.java.lang.Class.forName("org.apache.spark.sql.catalyst.parser.SqlBaseParser")
        except Py4JError:
            return  # only time is lost: the session loads what is missing, and says what is wrong

    def settle(self) -> None:
        """Waits until nothing of this is under way in it."""
        if self._warming is not None:
            self._warming.join()

    def _conf(self) -> Any:
        from pyspark import SparkConf

        conf = SparkConf()
        for key, value in self.settings.items():
            conf.set(key, value)
        return conf

    def _run(self) -> None:
        try:
            self._open()
        except BaseException as error:
            self._failed = error

    def _open(self) -> None:
        from pyspark import java_gateway

        reader, writer = os.pipe()
        self._relay = _Relay(reader, os.dup(2))
        self._relay.start()
        try:
            launch: Any = java_gateway.launch_gateway
            gateway = launch(self._conf(), {"stderr": writer})
        finally:
            os.close(writer)
        with self._lock:
            self._gateway = gateway
            if self._given_up:
                self._kill()

    def end(self) -> None:
        """Ends it; PySpark can start another."""
        from pyspark import SparkContext

        self.settle()  # Py4J logs a page about a call whose JVM is gone
        with self._lock:
            self._given_up = True
            if self._gateway is None:
                return
            self._kill()
        if SparkContext._gateway is self._gateway:
            SparkContext._gateway = SparkContext._jvm = None
            SparkContext._active_spark_context = None

    def _kill(self) -> None:
        process = self._gateway.proc
        if process is not None:
            process.stdin.close()
            process.kill()
            process.wait()

    def heard(self) -> list[str]:
        """The lines that were kept back."""
        return self._relay.heard() if self._relay is not None else []

    def speak(self) -> None:
        """What it says from now on is passed on."""
        if self._relay is not None:
            self._relay.is_open = True


class _Relay(threading.Thread):
    """Reads the JVM's standard error as long as it lives, so that progress bars and later errors reach the terminal."""

    def __init__(self, reader: int, target: int) -> None:
        super().__init__(name="stderr of Spark", daemon=True)
        self._reader, self._target = reader, target
        self._kept = b""
        self.is_open = False

    def run(self) -> None:
        while data := os.read(self._reader, 65536):
            if self.is_open:
                os.write(self._target, data)
            else:
                self._kept += data
        os.close(self._reader)
        os.close(self._target)

    def heard(self) -> list[str]:
        if not self.is_open:
            self.join(1)  # the last words of a JVM that ended
        return self._kept.decode(errors="replace").splitlines()


at_exit.install()
