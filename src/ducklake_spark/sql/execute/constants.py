"""Constant expressions in queries, such as a version or an argument of a function: computed once, by Spark."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from sqlglot import exp

from ducklake_spark.errors import InvalidInputError
from ducklake_spark.format.objects import EPOCH
from ducklake_spark.sql.parser.parse import Args

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from ducklake_spark.api.lake import Lake


def only_value(frame: DataFrame) -> Any:
    """The one value of a DataFrame. A time has its zone: Spark's own answer is a clock on the wall of this machine."""
    from pyspark.sql import types as T

    if isinstance(frame.schema.fields[0].dataType, (T.TimestampType, T.TimestampNTZType)):
        [row] = frame.toDF("v").selectExpr("unix_micros(CAST(v AS TIMESTAMP))").collect()
        return None if row[0] is None else EPOCH + timedelta(microseconds=row[0])
    [row] = frame.collect()
    return row[0]


class Constants:
    """Computes constants of one statement.

    Args:
        lake: For its session.
        dialect: The dialect that the expressions are written in.
        args: Values of parameters, by name or by place.
        to_spark: From a tree of the dialect to Spark's SQL.
        markers: Places of the `?` in the text, for those that stand in constants.
    """

    def __init__(
        self,
        lake: Lake,
        dialect: str,
        args: Args,
        to_spark: Callable[[exp.Expr], str],
        markers: Sequence[int] = (),
    ) -> None:
        self.lake, self.dialect, self.args, self.markers = lake, dialect, args, markers
        self._to_spark = to_spark

    def value(self, node: exp.Expr, what: str) -> Any:
        """The Python value of an expression.

        Raises:
            InvalidInputError: It is not constant.
        """
        if isinstance(node, exp.Literal):
            if node.is_string:
                return node.this
            text = str(node.this)
            return int(text) if text.isdigit() else float(text)
        if isinstance(node, exp.Boolean):
            return bool(node.this)
        if isinstance(node, exp.Null):
            return None
        if isinstance(node, exp.Neg) and isinstance(node.this, exp.Literal):
            return -self.value(node.this, what)
        if isinstance(node, (exp.Array, exp.Tuple)):
            return [self.value(each, what) for each in node.expressions]
        if isinstance(node, (exp.Placeholder, exp.Parameter)):
            return self._argument(node, what)
        return self.computed(node, "{}", what)

    def computed(self, node: exp.Expr, around: str, what: str) -> Any:
        """The value of an expression inside another, which is written with `{}` for it."""
        if isinstance(node, (exp.Column, exp.Star)) or node.find(exp.Column, exp.Query):
            raise InvalidInputError(f"{what} must be a constant, not {node.sql(dialect=self.dialect)}.")
        text = "SELECT " + around.format(self._to_spark(node))
        return self._first(text, what, node)

    def _first(self, text: str, what: str, node: exp.Expr) -> Any:
        from pyspark.errors import PySparkException

        from ducklake_spark.spark.errors import plain_message

        args = self.args if isinstance(self.args, Mapping) and self.args else None
        try:
            return only_value(self.lake.spark.sql(text, args=dict(args) if args else None))
        except PySparkException as error:
            shown = node.sql(dialect=self.dialect)
            raise InvalidInputError(f"Cannot compute {what}, {shown}: {plain_message(error)}") from None

    def _argument(self, node: exp.Expr, what: str) -> Any:
        name = node.name
        if isinstance(self.args, Mapping):
            if name in self.args:
                return self.args[name]
            raise InvalidInputError(f"{what} is the parameter :{name}, for which args= has no value.")
        place = node.meta.get("ducklake_marker")
        if place is None and name.isdigit():
            place = int(name) - 1
        if self.args is None or place is None or place >= len(self.args):
            raise InvalidInputError(f"{what} is a parameter for which args= has no value.")
        return self.args[place]
