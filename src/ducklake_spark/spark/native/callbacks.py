"""Java asks, Python answers: an object that Java classes of ours know as a `BiFunction`.

Calls come on threads of Py4J's callback server, never on the one of the user's statement: what belongs to a thread has
to be handed along. Answers are texts (JSON), numbers, booleans, objects of the JVM, or nothing.
"""

from __future__ import annotations

import traceback
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from ducklake_spark.errors import DuckLakeError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

ERROR = "\x01"
"""An answer that begins with it is an error: then come its kind, the mark again, and its text."""


class Refusal(Exception):
    """An error that Java has an exception of its own for, such as `NoSuchTable`."""

    def __init__(self, kind: str, message: str = "") -> None:
        super().__init__(message)
        self.kind = kind


class Answers:
    """What Java calls: `apply(question, arguments)` gives the answer of the function of that name.

    An error of ours becomes a text that names its type, so that `spark/errors.py` raises it again in the thread of the
    user. An exception of Java is answered as itself, for Java to throw it again. Any other is a fault of ours: its
    traceback goes along.
    """

    class Java:
        implements = ("java.util.function.BiFunction",)

    def __init__(self, title: str, functions: Mapping[str, Callable[..., Any]]) -> None:
        self._title, self._functions = title, dict(functions)

    def apply(self, question: str, arguments: Any) -> Any:
        return self.answer(lambda: self._functions[question](*(arguments[i] for i in range(len(arguments)))))

    def answer(self, call: Callable[[], Any]) -> Any:
        """The answer that a call gives, its errors as answers too."""
        try:
            return call()
        except Refusal as refusal:
            return f"{ERROR}{refusal.kind}{ERROR}{refusal}"
        except DuckLakeError as error:
            words = " ".join(str(error).split())  # one line: `errors.from_text` reads no further
            return f"{ERROR}DuckLake{ERROR}{type(error).__module__}.{type(error).__name__}: {words}"
        except Exception as error:
            thrown = _thrown_by_java(error)
            return f"{ERROR}Fault{ERROR}{traceback.format_exc()}" if thrown is None else thrown

    def toString(self) -> str:
        return self._title

    def hashCode(self) -> int:
        return id(self) & 0x7FFFFFFF

    def equals(self, other: Any) -> bool:
        return other is self


def _thrown_by_java(error: BaseException) -> Any:
    """The exception of Java that PySpark or Py4J made this one of: Java throws it again."""
    return getattr(error, "java_exception", None) or getattr(error, "_origin", None)


def start_callbacks(spark: SparkSession) -> None:
    """Lets the JVM of a classic session call Python."""
    from pyspark.java_gateway import ensure_callback_server_started

    from ducklake_spark.spark.errors import install

    ensure_callback_server_started(spark.sparkContext._gateway)  # type: ignore[no-untyped-call]  # it has no types
    install()
