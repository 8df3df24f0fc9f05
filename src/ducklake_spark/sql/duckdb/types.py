"""Types of the expressions in a DuckDB query, as far as they can be told: some of DuckDB's answers depend on them.

Knows the columns of the tables that the query reads; what it cannot tell is None.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import pyspark.sql.types as T
from sqlglot import exp

from ducklake_spark.format.types import fold
from ducklake_spark.sql.duckdb import binder as duckdb_binder
from ducklake_spark.sql.resolve.names import cte_of

Type = T.DataType | None
_D = exp.DataType.Type

_SCALARS: dict[Any, T.DataType] = {
    **dict.fromkeys(
        (_D.TINYINT, _D.SMALLINT, _D.INT, _D.UTINYINT, _D.USMALLINT, _D.MEDIUMINT), T.IntegerType()
    ),
    **dict.fromkeys((_D.BIGINT, _D.UINT, _D.INT128, _D.UBIGINT, _D.INT256, _D.UINT128), T.LongType()),
    **dict.fromkeys((_D.DOUBLE, _D.FLOAT), T.DoubleType()),
    **dict.fromkeys((_D.TEXT, _D.VARCHAR, _D.CHAR, _D.UUID, _D.JSON), T.StringType()),
    **dict.fromkeys((_D.TIMESTAMP, _D.TIMESTAMP_S, _D.TIMESTAMP_MS, _D.TIMESTAMPNTZ), T.TimestampNTZType()),
    **dict.fromkeys((_D.TIMESTAMPTZ, _D.TIMESTAMPLTZ), T.TimestampType()),
    _D.DECIMAL: T.DecimalType(18, 3),
    _D.BOOLEAN: T.BooleanType(),
    _D.DATE: T.DateType(),
    _D.VARBINARY: T.BinaryType(),
    _D.BINARY: T.BinaryType(),
    _D.INTERVAL: T.DayTimeIntervalType(),
}

_STRINGS = (
    exp.Upper, exp.Lower, exp.Substring, exp.Trim, exp.Replace, exp.Concat, exp.ConcatWs, exp.TimeToStr,
    exp.RegexpReplace, exp.RegexpExtract, exp.Left, exp.Right, exp.GroupConcat, exp.Repeat, exp.Reverse, exp.Pad,
    exp.SplitPart, exp.MD5, exp.Chr, exp.Hex, exp.Initcap, exp.Monthname, exp.Dayname,
)  # fmt: skip
_LONGS = (exp.Count, exp.Length, exp.StrPosition, exp.Extract, exp.DateDiff, exp.Year, exp.Month, exp.Day,
          exp.Quarter, exp.Unicode, exp.ArraySize, exp.RowNumber, exp.TimestampDiff)  # fmt: skip
_DOUBLES = (
    exp.Avg,
    exp.Sqrt,
    exp.Ln,
    exp.Exp,
    exp.Pow,
    exp.Div,
    exp.Log,
    exp.Stddev,
    exp.Variance,
    exp.Median,
)
_SAME = (exp.Min, exp.Max, exp.First, exp.Last, exp.AnyValue, exp.Abs, exp.Paren, exp.Alias, exp.Neg, exp.Distinct,
         exp.Ordered, exp.Order, exp.Lag, exp.Lead, exp.FirstValue, exp.LastValue, exp.Nullif, exp.Window, exp.Filter,
         exp.ArrayFilter, exp.ArraySort, exp.ArrayDistinct, exp.ArrayReverse, exp.ArrayAppend,
         exp.ArrayConcat, exp.IntDiv, exp.Mod, exp.Floor, exp.Ceil, exp.Round, exp.ArgMax, exp.ArgMin, exp.IgnoreNulls,
         exp.WithinGroup, exp.BitwiseAnd, exp.BitwiseOr, exp.BitwiseXor)  # fmt: skip
_STRING_NAMES = frozenset((
    "printf", "format", "lpad", "rpad", "concat", "list_string_agg", "array_to_string", "chr",
    "strip_accents", "to_hex", "sha256", "md5", "regexp_extract", "nfc_normalize", "initcap", "translate",
    "left", "right", "monthname", "dayname",
))  # fmt: skip
_LONG_NAMES = frozenset((
    "len", "strlen", "length", "list_count", "list_position", "epoch_ms", "epoch_us", "instr", "strpos",
    "ord", "bit_count",
))  # fmt: skip
_SAME_NAMES = frozenset((
    "list_filter", "list_sort", "list_reverse_sort", "list_reverse", "list_distinct", "list_concat",
    "list_cat", "list_append", "list_slice", "array_slice", "list_resize", "list_select", "list_where",
    "list_intersect", "array_append", "filter", "sum", "list_prepend", "fmod", "mod", "greatest", "least",
    "ifnull", "any_value", "first", "last", "arg_max", "arg_min", "max_by", "min_by",
))  # fmt: skip
_ELEMENT_NAMES = frozenset((
    "list_first", "list_last", "list_max", "list_min", "list_any_value", "list_extract", "array_extract",
    "list_element",
))  # fmt: skip


@dataclass(frozen=True)
class OutColumn:
    """A column that FROM offers."""

    table: str
    name: str
    type: Type


class Types:
    """Types of expressions.

    Args:
        schemas: The columns of tables by the names that they have in the query.
    """

    def __init__(self, schemas: Mapping[str, T.StructType]) -> None:
        self._schemas = schemas
        self._known: dict[int, Type] = {}
        self._held: list[exp.Expr] = []  # so that no other expression gets an id that is known
        self._columns: dict[int, list[OutColumn] | None] = {}

    def of(self, node: exp.Expr | None) -> Type:
        """The type of an expression."""
        if node is None:
            return None
        if id(node) not in self._known:
            self.put(node, None)
            self._known[id(node)] = self._of(node)
        return self._known[id(node)]

    def put(self, node: exp.Expr, kind: Type) -> None:
        """Says the type of an expression that stands in the place of another."""
        self._known[id(node)] = kind
        self._held.append(node)

    def _of(self, node: exp.Expr) -> Type:
        said = node.meta.get(duckdb_binder.TYPE) if not isinstance(node, exp.Typeof) else None
        odd = said == "INTERVAL" and isinstance(node, exp.Column)  # Spark shows such a column as a struct
        if said is not None and not odd and (kind := duckdb_binder.spark_type(said)) is not None:
            return kind
        if isinstance(node, exp.Typeof):
            return T.StringType()
        if isinstance(node, exp.Literal):
            return _literal(node)
        if isinstance(
            node, (exp.Boolean, exp.Predicate, exp.Connector, exp.Not, exp.LogicalAnd, exp.LogicalOr)
        ):
            return T.BooleanType()
        if isinstance(node, exp.Cast):
            return type_of(node.to)
        if isinstance(node, exp.Column):
            return self._column(node)
        if isinstance(node, exp.Dot):
            return _field(self.of(node.this), node.expression.name)
        if isinstance(node, exp.Subquery):
            columns = self.columns_of_query(node.this)
            return columns[0].type if columns else None
        if isinstance(node, _STRINGS):
            return T.StringType()
        if isinstance(node, _LONGS):
            return T.LongType()
        if isinstance(node, _DOUBLES):
            return T.DoubleType()
        if isinstance(node, (exp.DateTrunc, exp.TimestampTrunc)) and isinstance(
            self.of(node.this), T.TimestampType
        ):
            return T.TimestampType()
        if isinstance(node, (exp.DateTrunc, exp.TimestampTrunc, exp.StrToTime)):
            return T.TimestampNTZType()
        if isinstance(node, exp.CurrentTimestamp):
            return T.TimestampType()
        if isinstance(node, (exp.CurrentDate, exp.DateFromParts, exp.LastDay)):
            return T.DateType()
        return self._nested(node)

    def _nested(self, node: exp.Expr) -> Type:
        if isinstance(node, (exp.Array, exp.ArrayAgg)):
            parts = node.expressions or ([node.this] if node.this is not None else [])
            if parts and isinstance(parts[0], exp.Comprehension):
                return T.ArrayType(T.NullType())
            found = next((part for each in parts if (part := self.of(each)) is not None), None)
            return T.ArrayType(found or T.NullType())
        if isinstance(
            node, (exp.Split, exp.RegexpSplit, exp.GenerateSeries, exp.RegexpExtractAll, exp.Transform)
        ):
            return T.ArrayType(T.StringType() if not isinstance(node, exp.GenerateSeries) else T.LongType())
        if isinstance(node, exp.Struct):
            return T.StructType(
                [
                    T.StructField(each.this.name, self.of(each.expression) or T.NullType())
                    for each in node.expressions
                    if isinstance(each, exp.PropertyEQ)
                ]
            )
        if isinstance(node, exp.ToMap):
            pairs = node.this.expressions
            key = self.of(pairs[0].this) if pairs else None
            return T.MapType(
                key or T.StringType(), (self.of(pairs[0].expression) if pairs else None) or T.NullType()
            )
        if isinstance(node, exp.Map):
            keys, values = self.of(node.args.get("keys")), self.of(node.args.get("values"))
            return T.MapType(_element(keys) or T.StringType(), _element(values) or T.NullType())
        if isinstance(node, exp.Bracket):
            return self._bracket(node)
        if isinstance(node, (exp.Case, exp.If, exp.Coalesce)):
            return next((part for each in _branches(node) if (part := self.of(each)) is not None), None)
        if isinstance(node, exp.DPipe):
            left = self.of(node.this)
            return left if isinstance(left, T.ArrayType) else T.StringType()
        if isinstance(node, (exp.Add, exp.Sub, exp.Mul)):
            return _arithmetic(self.of(node.this), self.of(node.expression))
        if isinstance(node, exp.Interval):
            return T.DayTimeIntervalType()
        if isinstance(node, exp.Sum):
            inner = self.of(node.this)
            if isinstance(inner, T.LongType) and not isinstance(node.this, exp.Distinct):
                return T.DecimalType(38, 0)  # HUGEINT
            return inner if is_float(inner) or isinstance(inner, T.DecimalType) else T.LongType()
        if isinstance(node, _SAME):
            return self.of(node.this)
        if isinstance(node, exp.Anonymous):
            return self._anonymous(node)
        return None

    def _anonymous(self, node: exp.Anonymous) -> Type:
        name = node.name.lower()
        if name in _STRING_NAMES:
            return T.StringType()
        if name in _LONG_NAMES:
            return T.LongType()
        if not node.expressions:
            return None
        first = self.of(node.expressions[-1 if name == "list_prepend" else 0])
        if name in _SAME_NAMES:
            return first
        return _element(first) if name in _ELEMENT_NAMES else None

    def _bracket(self, node: exp.Bracket) -> Type:
        inner, index = self.of(node.this), node.expressions[0] if node.expressions else None
        if isinstance(index, exp.Slice) or isinstance(inner, T.StringType):
            return inner
        if isinstance(inner, T.StructType) and isinstance(index, exp.Literal):
            return _field(inner, index.name)
        return inner.valueType if isinstance(inner, T.MapType) else _element(inner)

    # Columns.

    def _column(self, node: exp.Column) -> Type:
        scope = node.find_ancestor(exp.Select)
        parts = [part.name for part in node.parts]
        while scope is not None:
            columns = self.columns_of_from(scope)
            if columns is not None:
                found, rest = _match(columns, parts)
                if found is not None:
                    kind = found.type
                    for field in rest:
                        kind = _field(kind, field)
                    return kind
            if len(parts) == 1:
                for each in scope.expressions:
                    if (
                        isinstance(each, exp.Alias)
                        and fold(each.alias) == fold(parts[0])
                        and node.find_ancestor(exp.Alias) is not each
                    ):
                        return self.of(each.this)
            scope = scope.find_ancestor(exp.Select)
        return None

    def columns_of_from(self, select: exp.Select) -> list[OutColumn] | None:
        """What `*` means in a SELECT, or None when a table's columns are not known."""
        if id(select) not in self._columns:
            self._columns[id(select)] = None
            self._columns[id(select)] = self._columns_of_from(select)
        return self._columns[id(select)]

    def _columns_of_from(self, select: exp.Select) -> list[OutColumn] | None:
        found: list[OutColumn] = []
        for source, join in sources(select):
            columns = self._columns_of_source(source)
            if columns is None:
                return None
            if join is not None and (join.side in ("SEMI", "ANTI") or join.kind in ("SEMI", "ANTI")):
                continue
            shared = {fold(each.name) for each in join.args.get("using") or []} if join is not None else set()
            if join is not None and join.method == "NATURAL":
                shared = {fold(each.name) for each in found}
            found += [column for column in columns if fold(column.name) not in shared]
        return found

    def _columns_of_source(self, source: exp.Expr) -> list[OutColumn] | None:
        columns: list[tuple[str, Type]] | None = None
        if isinstance(source, exp.Table):
            cte = cte_of(source)
            schema = self._schemas.get(source.name)
            if cte is not None:
                inner = self.columns_of_query(cte.this)
                names = [each.name for each in (cte.args["alias"].args.get("columns") or [])]
                if inner is not None:
                    columns = _renamed([(each.name, each.type) for each in inner], names)
            elif schema is not None:
                columns = [(field.name, field.dataType) for field in schema.fields]
            elif isinstance(source.this, exp.GenerateSeries):
                name = "range" if source.this.args.get("is_end_exclusive") else "generate_series"
                columns = [(name, T.LongType())]
        elif isinstance(source, exp.Subquery):
            inner = self.columns_of_query(source.this)
            columns = None if inner is None else [(each.name, each.type) for each in inner]
        elif isinstance(source, exp.Unnest):
            columns = [("unnest", _element(self.of(source.expressions[0])) if source.expressions else None)]
        elif isinstance(source, exp.Values) and source.expressions:
            row = source.expressions[0]
            columns = [(f"col{place}", self.of(each)) for place, each in enumerate(row.expressions)]
        if columns is None:
            return None
        alias = source.args.get("alias")
        names = [each.name for each in alias.args.get("columns") or []] if alias is not None else []
        return [OutColumn(source.alias_or_name, name, kind) for name, kind in _renamed(columns, names)]

    def columns_of_query(self, query: exp.Expr) -> list[OutColumn] | None:
        """The columns that a query gives."""
        while isinstance(query, (exp.SetOperation, exp.Subquery)):
            query = query.this
        if not isinstance(query, exp.Select):
            return None
        found: list[OutColumn] = []
        for each in query.expressions:
            star = each.this if isinstance(each, exp.Column) and isinstance(each.this, exp.Star) else each
            if not isinstance(star, exp.Star):
                found.append(OutColumn("", each.alias_or_name, self.of(each)))
                continue
            columns = self.columns_of_from(query)
            if columns is None or star.args.get("replace") or star.args.get("rename"):
                return None
            table = each.table if isinstance(each, exp.Column) else ""
            left_out = {fold(part.name) for part in star.args.get("except_") or []}
            found += [
                column
                for column in columns
                if (not table or fold(column.table) == fold(table)) and fold(column.name) not in left_out
            ]
        return found


def sources(select: exp.Select) -> Iterator[tuple[exp.Expr, exp.Join | None]]:
    """The items of FROM with the join that brings them."""
    start = select.args.get("from_")
    if start is None:
        return
    yield from _with_joins(start.this, None)
    for join in select.args.get("joins") or []:
        yield from _with_joins(join.this, join)


def _with_joins(source: exp.Expr, join: exp.Join | None) -> Iterator[tuple[exp.Expr, exp.Join | None]]:
    yield source, join
    for inner in source.args.get("joins") or []:
        yield from _with_joins(inner.this, inner)


def type_of(node: exp.DataType) -> Type:
    """The type that a type's name means."""
    kind = node.this
    if kind in (_D.ARRAY, _D.LIST):
        return T.ArrayType((type_of(node.expressions[0]) if node.expressions else None) or T.NullType())
    if kind == _D.MAP and len(node.expressions) == 2:
        key, value = (type_of(each) or T.NullType() for each in node.expressions)
        return T.MapType(key, value)
    if kind == _D.STRUCT:
        fields = [each for each in node.expressions if isinstance(each, exp.ColumnDef)]
        return T.StructType(
            [T.StructField(each.name, type_of(each.args["kind"]) or T.NullType()) for each in fields]
        )
    return _SCALARS.get(kind)


def is_integer(kind: Type) -> bool:
    """Whether it is a whole number."""
    return isinstance(kind, T.IntegralType)


def is_float(kind: Type) -> bool:
    """Whether it is a floating-point number."""
    return isinstance(kind, (T.DoubleType, T.FloatType))


def _literal(node: exp.Literal) -> Type:
    if node.is_string:
        return T.StringType()
    text = str(node.this)
    if "e" in text.lower():
        return T.DoubleType()
    if "." in text:
        return T.DecimalType(18, 3)
    return T.IntegerType() if len(text) < 10 else T.LongType()


def _field(kind: Type, name: str) -> Type:
    if not isinstance(kind, T.StructType):
        return None
    return next((each.dataType for each in kind.fields if fold(each.name) == fold(name)), None)


def _element(kind: Type) -> Type:
    found = kind.elementType if isinstance(kind, T.ArrayType) else None
    return None if isinstance(found, T.NullType) else found


def _branches(node: exp.Expr) -> list[exp.Expr | None]:
    if isinstance(node, exp.Case):
        return [*(each.args.get("true") for each in node.args["ifs"]), node.args.get("default")]
    if isinstance(node, exp.If):
        return [node.args.get("true"), node.args.get("false")]
    return [node.this, *node.expressions]


def _arithmetic(left: Type, right: Type) -> Type:
    if isinstance(left, T.DateType) and isinstance(right, T.DayTimeIntervalType):
        return T.TimestampNTZType()
    if isinstance(left, (T.DateType, T.TimestampType, T.TimestampNTZType)):
        return T.LongType() if isinstance(right, T.DateType) else left
    if is_float(left) or is_float(right):
        return T.DoubleType()
    if isinstance(left, T.DecimalType) or isinstance(right, T.DecimalType):
        return T.DecimalType(38, 3)
    return left if is_integer(left) and is_integer(right) else None


def _renamed(columns: list[tuple[str, Type]], names: list[str]) -> list[tuple[str, Type]]:
    return [(names[i] if i < len(names) else name, kind) for i, (name, kind) in enumerate(columns)]


def _match(columns: list[OutColumn], parts: list[str]) -> tuple[OutColumn | None, list[str]]:
    """The column that a dotted name means, and the fields of a struct behind it."""
    if len(parts) > 1:
        for column in columns:
            if fold(column.table) == fold(parts[0]) and fold(column.name) == fold(parts[1]):
                return column, parts[2:]
    for column in columns:
        if fold(column.name) == fold(parts[0]):
            return column, parts[1:]
    return None, []
