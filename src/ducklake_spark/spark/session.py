"""The Spark session for those who bring none: started without the lines that a JVM greets people with."""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Mapping
from contextlib import AbstractContextManager, nullcontext
from typing import TYPE_CHECKING, Any

from ducklake_spark.errors import SparkUnavailableError
from ducklake_spark.spark import interrupts

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


def session_or_local(spark: SparkSession | None) -> SparkSession:
    """The given session, else the active one, else a new one.

    Raises:
        SparkUnavailableError: There is none, and none can be started.
    """
    from pyspark.sql import SparkSession

    found = spark or SparkSession.getActiveSession() or start()
    interrupts.install()
    return found


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
    from pyspark.errors import PySparkException
    from pyspark.sql import SparkSession

    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    chosen = {
        "spark.app.name": "ducklake-spark",
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "true" if sys.stderr.isatty() else "false",
        "spark.log.level": "ERROR",
        # Not the extraJavaOptions, which are the user's.
        "spark.driver.defaultJavaOptions": _LATE_C2,
        **(settings or {}),
    }
    builder = SparkSession.builder
    for key, value in chosen.items():
        builder = builder.config(key, value)
    jvm = _Jvm()
    with waiting or nullcontext():
        try:
            if _starts_here(chosen):
                jvm.launch(chosen)
            with interrupts.quiet():
                return _tuned(builder.getOrCreate())
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

    def __init__(self) -> None:
        self._gateway: Any = None
        self._relay: _Relay | None = None
        self._given_up = False
        self._lock = threading.Lock()

    def launch(self, settings: Mapping[str, str]) -> None:
        """Starts it, as PySpark would."""
        from pyspark import SparkConf, SparkContext

        conf = SparkConf()
        for key, value in settings.items():
            conf.set(key, value)
        failed: list[BaseException] = []

        def run() -> None:
            try:
                self._run(conf)
            except BaseException as error:
                failed.append(error)

        # In a thread: Ctrl-C between the process's start and its first word would lose it.
        thread = threading.Thread(target=run, name="starts Spark", daemon=True)
        thread.start()
        while thread.is_alive():
            thread.join(0.1)
        if failed:
            raise failed[0]
        SparkContext._ensure_initialized(gateway=self._gateway, conf=conf)

    def _run(self, conf: Any) -> None:
        from pyspark import java_gateway

        reader, writer = os.pipe()
        self._relay = _Relay(reader, os.dup(2))
        self._relay.start()
        try:
            launch: Any = java_gateway.launch_gateway
            gateway = launch(conf, {"stderr": writer})
        finally:
            os.close(writer)
        with self._lock:
            self._gateway = gateway
            if self._given_up:
                self._kill()

    def end(self) -> None:
        """Ends it; PySpark can start another."""
        from pyspark import SparkContext

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
