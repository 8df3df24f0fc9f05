"""CREATE, ALTER, DROP and SHOW of Spark's own SQL: namespaces and tables, as calls of the lake."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING, Any

import pyspark.sql.types as spark_types

from ducklake_spark.catalog import ddl
from ducklake_spark.catalog.transaction import Transaction
from ducklake_spark.engine.scope import scope_of
from ducklake_spark.errors import DependencyError, InvalidInputError
from ducklake_spark.format.duckdb_sql import CATALOG_TOKEN, Expression, quote_if_needed
from ducklake_spark.format.names import ticked
from ducklake_spark.format.types import fold, parse_type, quote
from ducklake_spark.scan.projection.types import choices_of, require_no_collation, user_type
from ducklake_spark.spark.native.callbacks import Refusal
from ducklake_spark.sql.execute.queries import spark_sql
from ducklake_spark.sql.native.loaded import LAKE_TYPE
from ducklake_spark.sql.parser.grammar_queries import parse_query_text
from ducklake_spark.sql.parser.stored_texts import duckdb_expression

if TYPE_CHECKING:
    from ducklake_spark.api.lake import Lake
    from ducklake_spark.api.table import Table

Facts = Mapping[str, Any]

_TRANSFORMS = {"years": "year", "months": "month", "days": "day", "hours": "hour", "date": "day"}
_RESERVED = frozenset(
    {
        "provider",
        "owner",
        "comment",
        "sorted_by",
        "is_managed_location",
        "external",
        "location",
        "table_type",
        "__clustering_columns",
        "__partition_columns",
    }
)
"""Properties that Spark gives to every table, or that are no options of one."""
_PROVIDERS = frozenset({"ducklake", "parquet"})


class Definitions:
    """What Spark defines in a lake."""

    def __init__(self, lake: Lake) -> None:
        self._lake = lake

    # Names.

    def schema(self, namespace: Sequence[str]) -> str:
        """The schema of a namespace, as the lake writes it."""
        if not namespace:
            return self._lake.default_schema
        tx = scope_of(self._lake).read_transaction()
        found = tx.schema(namespace[0]) if len(namespace) == 1 else None
        if found is None:
            raise Refusal("NoSuchNamespace")
        return found.name

    def name(self, facts: Facts) -> tuple[str, str]:
        """The schema and the own name of an object."""
        return self.schema(facts["namespace"]), facts["name"]

    def namespace(self, facts: Facts, _: Any) -> str:
        """What Spark shows of a namespace."""
        self.schema(facts["namespace"])
        return json.dumps({})

    def list_namespaces(self, _facts: Facts, _: Any) -> str:
        """All schemas."""
        return json.dumps(self._lake.schemas())

    def create_namespace(self, facts: Facts, _: Any) -> None:
        """CREATE NAMESPACE."""
        [name, *below] = facts["namespace"]
        if below:
            raise InvalidInputError(
                f'A lake has schemas and no namespaces in them: "{".".join(facts["namespace"])}".'
            )
        if scope_of(self._lake).read_transaction().schema(name) is not None:
            raise Refusal("NamespaceExists")
        known = {key: value for key, value in facts["properties"].items() if key not in ("owner",)}
        if known:
            raise InvalidInputError(
                f"A schema of a lake has no properties, comment or location ({', '.join(sorted(known))})."
            )
        self._lake.create_schema(name)

    def alter_namespace(self, facts: Facts, _: Any) -> None:
        """ALTER NAMESPACE."""
        self.schema(facts["namespace"])
        raise InvalidInputError("A schema of a lake has no properties, comment or location.")

    def drop_namespace(self, facts: Facts, _: Any) -> bool:
        """DROP NAMESPACE."""
        schema = self.schema(facts["namespace"])
        try:
            self._lake.drop_schema(schema, cascade=facts["cascade"])
        except DependencyError:
            raise Refusal("NonEmptyNamespace") from None
        return True

    def list_tables(self, facts: Facts, _: Any) -> str:
        """SHOW TABLES: tables and views, as in Spark's own catalog."""
        schema = self.schema(facts["namespace"])
        tx = scope_of(self._lake).read_transaction()
        found = ddl.get_schema(tx, schema)
        return json.dumps(sorted([*tx.table_names(found), *tx.view_names(found)]))

    # Tables.

    def create(self, facts: Facts, _: Any) -> None:
        """CREATE TABLE without rows."""
        self.require_new(facts, "create")
        self._create(facts)

    def require_new(self, facts: Facts, mode: str) -> tuple[str, str]:
        """Raises what Spark expects of a name that is taken, or of one that is not there to be replaced."""
        name = self.name(facts)
        tx = scope_of(self._lake).read_transaction()
        schema = ddl.get_schema(tx, name[0])
        if mode == "create" and (tx.table(schema, name[1]) or tx.view(schema, name[1])):
            raise Refusal("TableExists")
        if mode == "replace" and tx.table(schema, name[1]) is None:
            raise Refusal("NoSuchTable")
        return name

    def create_with(self, facts: Facts, rows: Any = None) -> None:
        """Creates or replaces a table, with rows if there are some, as one statement."""

        def run(_tx: Transaction) -> None:
            table = self._create(facts)
            if rows is not None:
                table.insert(rows)

        scope_of(self._lake).statement(run)

    def _create(self, facts: Facts) -> Table:
        schema = spark_types.StructType.fromJson(json.loads(facts["schema"]))
        properties = facts["properties"]
        _require_properties(properties)
        partitioned_by, sorted_by = _keys(facts["keys"])
        choices = choices_of(self._lake.spark)
        columns = []
        for part in schema.fields:
            require_no_collation(part.dataType, part.name)
            kept = (part.metadata or {}).get(LAKE_TYPE)
            is_same = kept is not None and user_type(parse_type(kept), choices) == part.dataType
            columns.append((part.name, kept if is_same else part.dataType))
        defaults = {
            part.name: Expression(duckdb_expression(part.metadata["CURRENT_DEFAULT"], "spark"))
            for part in schema.fields
            if "CURRENT_DEFAULT" in (part.metadata or {})
        }
        found: list[Table] = []

        def run(_tx: Transaction) -> None:
            table = self._lake.create_table(
                self.name(facts),
                columns,
                partitioned_by=partitioned_by,
                sorted_by=sorted_by,
                not_null=[part.name for part in schema.fields if not part.nullable],
                defaults=defaults,
                comment=properties.get("comment"),
                or_replace="replace" in facts["mode"],
            )
            for part in schema.fields:
                if (part.metadata or {}).get("comment"):
                    table.set_comment(part.metadata["comment"], column=(part.name,))
            for key, value in _options(properties).items():
                table.set_option(key, value)
            found.append(table)

        scope_of(self._lake).statement(run)
        return found[-1]

    def drop(self, facts: Facts, _: Any) -> bool:
        """DROP TABLE; whether there was one."""
        name = self.name(facts)
        is_known = name in self._lake
        # A view is refused: Spark takes it for a table that exists.
        self._lake.drop_table(name, if_exists=True)
        return is_known

    def rename(self, facts: Facts, _: Any) -> None:
        """ALTER TABLE RENAME TO, in its schema."""
        old = self.name(facts)
        self._require_same_schema("table", old[0], (*facts["newNamespace"], facts["newName"]))
        if old not in self._lake:
            raise Refusal("NoSuchTable")
        self._lake[old].rename(facts["newName"])

    def alter(self, facts: Facts, _: Any) -> None:
        """ALTER TABLE: all changes of a statement, or none."""
        name = self.name(facts)
        if name not in self._lake:
            raise Refusal("NoSuchTable")
        table = self._lake[name]

        def run(_tx: Transaction) -> None:
            if _replaces_all(table, facts["changes"]):
                _replace_columns(table, facts["changes"])
                return
            for change in facts["changes"]:
                _alter(table, change)

        scope_of(self._lake).statement(run)

    # Views.

    def create_view(self, facts: Facts, _: Any) -> None:
        """CREATE VIEW, which must be one that Spark can read."""
        name = self.name(facts)
        if facts["text"] is None:
            raise InvalidInputError(f'A view of a lake is made of SQL text: "{name[1]}" has none.')

        def run(_tx: Transaction) -> None:
            self._lake.create_view(
                name,
                facts["text"],
                facts["columns"],
                comment=facts["comment"],
                if_not_exists=facts["ifNotExists"],
                or_replace=facts["orReplace"],
            )
            _ = self._lake.table(name).schema

        scope_of(self._lake).statement(run)

    def alter_view(self, facts: Facts, _: Any) -> None:
        """ALTER VIEW AS: another query; the view keeps its comment."""
        name = self.name(facts)

        def run(tx: Transaction) -> None:
            comment = ddl.get_view(tx, ddl.get_schema(tx, name[0]), name[1]).comment
            self._lake.create_view(name, facts["text"], comment=comment, or_replace=True)
            _ = self._lake.table(name).schema

        scope_of(self._lake).statement(run)

    def rename_view(self, facts: Facts, _: Any) -> None:
        """ALTER VIEW RENAME TO, in its schema."""
        old = self.name(facts)
        self._require_same_schema("view", old[0], facts["newName"])
        self._lake.rename_view(old, facts["newName"][-1])

    def _require_same_schema(self, kind: str, schema: str, new: Sequence[str]) -> None:
        """A new name may have its schema and its catalog before it: Spark leaves both there."""
        where, lake = [fold(part) for part in new[:-1]], fold(self._lake.name)
        if where not in ([], [lake], [fold(schema)], [lake, fold(schema)]):
            raise InvalidInputError(
                f'Cannot rename to "{".".join(new)}": a {kind} stays in its schema, "{schema}".'
            )

    def drop_view(self, facts: Facts, _: Any) -> None:
        """DROP VIEW."""
        self._lake.drop_view(self.name(facts), if_exists=facts["ifExists"])

    def list_views(self, facts: Facts, _: Any) -> str:
        """SHOW VIEWS; a pattern has `*` and `|`, as in Spark."""
        tx = scope_of(self._lake).read_transaction()
        names = tx.view_names(ddl.get_schema(tx, self.schema(facts["namespace"])))
        patterns = (facts["pattern"] or "*").lower().split("|")
        found = [name for name in names if any(fnmatchcase(name.lower(), each.strip()) for each in patterns)]
        return json.dumps(sorted(found))

    def show_view(self, facts: Facts, _: Any) -> str:
        """SHOW CREATE TABLE of a view: the text with which Spark reads it."""
        schema, name = self.name(facts)
        view = self._lake.view((schema, name))
        aliases = f" ({', '.join(map(ticked, view.column_aliases))})" if view.column_aliases else ""
        dialect = "duckdb" if view.dialect == "duckdb" else "spark"
        text = view.sql.replace(CATALOG_TOKEN, quote(self._lake.name))
        query = spark_sql(parse_query_text(text, dialect), dialect)
        shown = ".".join(map(ticked, (self._lake.name, schema, view.name)))
        return f"CREATE VIEW {shown}{aliases} AS\n{query}\n"


def _require_properties(properties: Mapping[str, str]) -> None:
    provider = properties.get("provider")
    if provider is not None and provider.lower() not in _PROVIDERS:
        raise InvalidInputError(
            f"A table of a lake is USING ducklake, and its files are Parquet: not {provider!r}."
        )
    if "location" in properties:
        raise InvalidInputError(
            "A table of a lake has no LOCATION of its own: the lake says where its files are."
        )


def _options(properties: Mapping[str, str]) -> dict[str, str]:
    return {
        key: value
        for key, value in properties.items()
        if key not in _RESERVED and not key.startswith("option.")
    }


def _keys(keys: Sequence[Sequence[Any]]) -> tuple[list[str], list[str]]:
    """Partition keys and sort keys: CLUSTER BY is the sort order."""
    partitioned, sorted_by = [], []
    for name, *arguments in keys:
        columns = [_column(each) for each in arguments if isinstance(each, list)]
        numbers = [each for each in arguments if not isinstance(each, list)]
        if name == "cluster_by":
            sorted_by += columns
        elif name == "identity":
            partitioned += columns
        elif name == "bucket" and len(columns) == len(numbers) == 1:
            partitioned.append(f"bucket({numbers[0]}, {columns[0]})")
        elif name in (*_TRANSFORMS, *_TRANSFORMS.values()) and len(columns) == 1 and not numbers:
            partitioned.append(f"{_TRANSFORMS.get(name, name)}({columns[0]})")
        else:
            raise InvalidInputError(
                f"A lake does not partition by {name}({', '.join(map(str, (*numbers, *columns)))}): it has columns, "
                "years, months, days, hours and bucket(N, column)."
            )
    return partitioned, sorted_by


def _column(path: Sequence[str]) -> str:
    if len(path) > 1:
        raise InvalidInputError(f'A key is a column of the table, not a field of one: "{".".join(path)}".')
    return quote(path[0])


def _spark_type(text: str, column: str) -> spark_types.DataType:
    from pyspark.sql.types import _parse_datatype_json_string  # what PySpark itself reads types with

    made = _parse_datatype_json_string(text)
    require_no_collation(made, column)
    return made


def _replaces_all(table: Table, changes: Sequence[Mapping[str, Any]]) -> bool:
    """Whether all columns go and others come: REPLACE COLUMNS."""
    gone = [fold(change["path"][0]) for change in changes if change["kind"] == "DeleteColumn"]
    others = {change["kind"] for change in changes} - {"DeleteColumn"}
    return others == {"AddColumn"} and sorted(gone) == sorted(map(fold, table.columns))


def _replace_columns(table: Table, changes: Sequence[Mapping[str, Any]]) -> None:
    """Columns that come again stay, with their rows: only what is said of them changes."""
    wanted = {fold(change["path"][0]): change for change in changes if change["kind"] == "AddColumn"}
    known = {fold(column.name): column for column in table.definition.columns}
    kept = [name for name in known if name in wanted]
    if list(wanted)[: len(kept)] != kept:
        raise InvalidInputError(
            f'REPLACE COLUMNS of table "{table.name}": its columns stay in the order in which they came, and new ones '
            "come last."
        )
    for name, change in wanted.items():
        if name not in known:
            _add_column(table, tuple(change["path"]), change)
    for name in kept:
        column, change = known[name], wanted[name]
        kind = _spark_type(change["dataType"], name)
        if user_type(column.data_type, choices_of(table.lake.spark)) != kind:
            table.set_type((column.name,), kind)
        if (column.comment or None) != change.get("comment"):
            table.set_comment(change.get("comment"), column=(column.name,))
    for name, column in known.items():
        if name not in wanted:
            table.drop_column((column.name,))


def _alter(table: Table, change: Mapping[str, Any]) -> None:
    kind, path = change["kind"], tuple(change.get("path", ()))
    if kind == "AddColumn":
        _add_column(table, path, change)
    elif kind == "DeleteColumn":
        table.drop_column(path, if_exists=bool(change.get("ifExists")))
    elif kind == "RenameColumn":
        table.rename_column(path, change["newName"])
    elif kind == "UpdateColumnType":
        table.set_type(path, _spark_type(change["newDataType"], ".".join(path)))
    elif kind == "UpdateColumnNullability":
        if change["nullable"]:
            table.drop_not_null(path)
        else:
            table.set_not_null(path)
    elif kind == "UpdateColumnComment":
        table.set_comment(change["newComment"] or None, column=path)
    elif kind == "UpdateColumnDefaultValue":
        text = change.get("newCurrentDefault") or change.get("newDefaultValue")
        if text:
            table.set_default(path, Expression(duckdb_expression(text, "spark")))
        else:
            table.drop_default(path)
    elif kind == "ClusterBy":
        keys = [_column(each) for each in change.get("clusteringColumns", ())]
        if keys:
            table.set_sorted_by(*keys)
        else:
            table.reset_sorted_by()
    elif kind in ("SetProperty", "RemoveProperty"):
        _alter_property(table, change["property"], change.get("value"))
    elif kind == "UpdateColumnPosition":
        raise InvalidInputError(
            f'Column "{".".join(path)}" cannot be moved: the columns of a lake stay in the order in which they came.'
        )
    else:
        raise InvalidInputError(f'ALTER TABLE "{table.name}": a lake has no {kind}.')


def _add_column(table: Table, path: tuple[str, ...], change: Mapping[str, Any]) -> None:
    if "position" in change:
        raise InvalidInputError(
            f'Column "{".".join(path)}" comes last: the columns of a lake stay in the order in which they came.'
        )
    text = change.get("defaultValue")
    table.add_column(
        path,
        _spark_type(change["dataType"], ".".join(path)),
        default=Expression(duckdb_expression(text, "spark")) if text else None,
        not_null=not change.get("isNullable", True),
    )
    if change.get("comment"):
        table.set_comment(change["comment"], column=path)


def _alter_property(table: Table, key: str, value: str | None) -> None:
    if key == "comment":
        table.set_comment(value or None)
    elif value is None:
        raise InvalidInputError(
            f'An option of table "{table.name}" cannot be unset: set "{key}" to the value that it is to have.'
        )
    elif key in _RESERVED:
        raise InvalidInputError(
            f'"{key}" of table {quote_if_needed(table.name)} cannot be set as a property.'
        )
    else:
        table.set_option(key, value)
