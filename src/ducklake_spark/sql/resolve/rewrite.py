"""Names of a query -> names of DataFrames, in the tree and, where the places are known, as edits of the text."""

from __future__ import annotations

import functools
import itertools
import uuid
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from sqlglot import exp

from ducklake_spark.errors import InvalidInputError, NotFoundError
from ducklake_spark.format.names import ticked
from ducklake_spark.format.types import fold, quote
from ducklake_spark.scan.read import VIRTUAL_COLUMNS
from ducklake_spark.sql.execute import metadata, mirror
from ducklake_spark.sql.execute.constants import Constants
from ducklake_spark.sql.execute.session import session_of
from ducklake_spark.sql.parser.texts import Edit
from ducklake_spark.sql.resolve import files, macros, table_functions
from ducklake_spark.sql.resolve.names import NameResolver, Relation, cte_of, identifiers_of, parts_of
from ducklake_spark.sql.resolve.travel import moment

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

_numbers = itertools.count()
_PROCESS = uuid.uuid4().hex[:8]


def place_name() -> str:
    """A name for a DataFrame in Spark's SQL that nobody else uses."""
    return f"ducklake_{_PROCESS}_{next(_numbers)}"


@dataclass
class Source:
    """A table reference that a lake answers."""

    node: exp.Table
    relation: Relation
    alias: str
    has_alias: bool
    wanted: list[str] = field(default_factory=list)


@dataclass
class Rewritten:
    """What a query needs beside its text."""

    edits: list[Edit] = field(default_factory=list)
    frames: dict[str, DataFrame] = field(default_factory=dict)
    types: dict[str, Mapping[str, str]] = field(default_factory=dict)
    """DuckDB's types of columns, by the names of the DataFrames."""
    unknown: list[tuple[str, ...]] = field(default_factory=list)
    """Names that are left to Spark."""
    is_text_whole: bool = True
    """Whether the edits say all that was changed in the tree."""


class Rewriter:
    """Rewrites one tree in place.

    Args:
        resolver: What names mean.
        tree: A query, or an expression that may hold queries.
        constants: Computes constant expressions, such as versions and arguments of functions.
        text: The text that the places in the tree refer to; None when there is none to edit.
    """

    def __init__(
        self, resolver: NameResolver, tree: exp.Expr, constants: Constants, text: str | None
    ) -> None:
        self.resolver, self.constants, self.text = resolver, constants, text
        self.root = exp.Paren(this=tree)  # so that the tree itself can be replaced
        self.result = Rewritten()
        self._is_text_whole = True
        self._quoted = quote if constants.dialect == "duckdb" else ticked

    @property
    def tree(self) -> exp.Expr:
        """The tree as it is now."""
        found: exp.Expr = self.root.this
        return found

    def run(self) -> Rewritten:
        """Does it all."""
        spans = table_functions.Spans(self.text, self.constants.dialect)
        self._described()
        expanded = macros.expand(self.resolver, self.root, self.constants.dialect, spans)
        sources = list(self._sources(spans))
        self._name(sources)
        self._choose_virtual(sources)
        self._qualifiers(sources)
        self._statistics(sources)
        for source in sources:
            self._bind(source)
        self.result.is_text_whole = (
            not (expanded and self.constants.dialect == "duckdb") and self._is_text_whole
        )
        for span, node in expanded:
            self.result.edits.append(Edit(*span, macros.text_of(node)))
        return self.result

    def _described(self) -> None:
        """`FROM (DESCRIBE t)` and `FROM (SUMMARIZE t)`, in DuckDB's dialect: what DuckDB says of the lakes."""
        for summary in self.root.find_all(exp.Summarize):
            if isinstance(
                summary.this, exp.Table
            ):  # a table has another name soon, and SUMMARIZE takes no alias
                summary.set("this", exp.select("*").from_(summary.this.copy()))
                self._is_text_whole = False
        for node in list(self.root.find_all(exp.Describe)):
            around = node.parent
            if self.constants.dialect != "duckdb" or not isinstance(around, exp.Subquery):
                continue
            said = node.meta.get("ducklake_show") or node.sql("duckdb")
            found = metadata.answer(self.resolver.lake, said)
            if found is None:
                raise NotFoundError(f"There is nothing to be described by {node.sql('duckdb')}.")
            place = place_name()
            self.result.frames[place] = found
            self.result.types[place] = {}
            alias = around.args.get("alias") or exp.TableAlias(this=exp.to_identifier("described"))
            table = exp.Table(this=exp.to_identifier(place), alias=alias)
            table.meta["ducklake_known"] = True
            for key in ("joins", "laterals", "pivots", "sample"):
                if around.args.get(key):
                    table.set(key, around.args[key])
            around.replace(table)
            self._is_text_whole = False

    # Which tables.

    def _sources(self, spans: table_functions.Spans) -> Iterator[Source]:
        for table in list(self.root.find_all(exp.Table)):
            if table.meta.get("ducklake_known") or table.find_ancestor(exp.Hint) or cte_of(table) is not None:
                continue
            relation = self._relation(table)
            if relation is None:
                continue
            if isinstance(table.this, (exp.Identifier, exp.Dot)):
                span = spans.of_names(identifiers_of(table))
            else:
                span = spans.of_call(table)
            table.meta["ducklake_span"] = span
            yield Source(table, relation, table.alias or relation.full_name[-1], bool(table.alias))

    def _relation(self, table: exp.Table) -> Relation | None:
        parts = parts_of(table)
        if not parts:
            found = table_functions.relation(self.resolver, table, self.constants)
            return found if found is not None else self._about_databases(table, parts)
        version, micros = moment(table, self.constants)
        found = self.resolver.relation(parts, version, micros)
        if found is not None:
            return found
        if version is not None or micros is not None:
            if self.resolver.relation(parts) is not None:
                at = f"version {version}" if version is not None else "this time"
                since = self.resolver.other_times(parts, version, micros)
                raise NotFoundError(f'There was no table or view "{".".join(parts)}" at {at}.{since}')
        elif (about := self._about_databases(table, parts) or self._of_source(parts)) is not None:
            return about
        elif len(parts) == 3 and self.resolver.lake_named(parts[0]) is not None:
            raise self.resolver.not_found(parts)
        elif self.constants.dialect == "duckdb" and len(parts) == 1 and files.format_of(parts[0]) is not None:
            rows = functools.partial(files.frame, self.resolver.lake.spark, parts[0])
            return Relation(parts, frozenset(), lambda _: rows())
        self.result.unknown.append(parts)
        return None

    def _about_databases(self, table: exp.Table, parts: Sequence[str]) -> Relation | None:
        """`information_schema.tables`, `duckdb_columns()` and their like, in DuckDB's dialect."""
        if self.constants.dialect != "duckdb":
            return None
        is_call = not parts
        name = table_functions.function_name(table.this) if is_call else ".".join(parts)
        if not name or not mirror.is_about_databases(parts or (name,), is_call=is_call):
            return None
        source = table.this.sql("duckdb") if is_call else ".".join(map(quote, parts[-2:]))
        make = functools.partial(metadata.frame, self.resolver.lake, source)
        return Relation((fold(name.rpartition(".")[2]),), frozenset(), lambda _: make())

    def _of_source(self, parts: Sequence[str]) -> Relation | None:
        """A table of an attached database that is no lake; the driver reads it."""
        if len(parts) < 2 or fold(parts[0]) not in map(fold, session_of(self.resolver.lake).sources):
            return None
        make = functools.partial(metadata.of_source, self.resolver.lake, ".".join(map(quote, parts)))
        return Relation(tuple(parts), frozenset(), lambda _: make())

    def _name(self, sources: Sequence[Source]) -> None:
        """Tables of the same name in different schemas get names by which they can be told apart."""
        plain: dict[str, set[tuple[str, ...]]] = {}
        for source in sources:
            if not source.has_alias:
                full = tuple(map(fold, source.relation.full_name))
                plain.setdefault(fold(source.alias), set()).add(full)
        for source in sources:
            if not source.has_alias and len(plain[fold(source.alias)]) > 1:
                source.alias = ".".join(source.relation.full_name)

    # Virtual columns.

    def _choose_virtual(self, sources: Sequence[Source]) -> None:
        by_scope: dict[int, list[Source]] = {}
        scopes: dict[int, exp.Expr] = {}
        for source in sources:
            scope: exp.Expr = source.node.find_ancestor(exp.Select) or self.root
            scopes[id(scope)] = scope
            by_scope.setdefault(id(scope), []).append(source)
        for key, scope in scopes.items():
            mentioned = [
                column for column in scope.find_all(exp.Column) if fold(column.name) in VIRTUAL_COLUMNS
            ]
            if not mentioned:
                continue
            for source in by_scope[key]:
                source.wanted = [
                    name for name in VIRTUAL_COLUMNS if self._wants(source, name, mentioned, scope)
                ]
            self._hide(scope, by_scope[key])

    def _wants(self, source: Source, name: str, mentioned: Sequence[exp.Column], scope: exp.Expr) -> bool:
        if name not in source.relation.virtual:
            return False
        for column in mentioned:
            if fold(column.name) != name:
                continue
            if column.table:
                if fold(column.table) == fold(source.alias.rsplit(".", 1)[-1]):
                    return True
            elif not _given_by_others(scope, name):
                return True
        return False

    def _hide(self, scope: exp.Expr, sources: Sequence[Source]) -> None:
        """`*` does not show virtual columns."""
        hidden = [(source.alias, name) for source in sources for name in source.wanted]
        if not hidden:
            return
        for join in scope.find_all(exp.Join):
            if join.args.get("method") == "NATURAL" and join.find_ancestor(exp.Select) is scope:
                raise InvalidInputError(
                    f'A NATURAL JOIN cannot be combined with the virtual column "{hidden[0][1]}": use JOIN ... USING.'
                )
        for star in list(scope.find_all(exp.Star)):
            owner = star.parent
            if star.find_ancestor(exp.Select) is not scope or isinstance(owner, exp.Count):
                continue
            table = owner.table if isinstance(owner, exp.Column) else ""
            names = [(alias, name) for alias, name in hidden if not table or fold(alias) == fold(table)]
            if names:
                self._except(star, names)

    def _except(self, star: exp.Star, names: Sequence[tuple[str, str]]) -> None:
        listed = ", ".join(f"{ticked(alias)}.{ticked(name)}" for alias, name in names)
        already = star.args.get("except_") or []
        if self.constants.dialect == "duckdb":
            self._is_text_whole = False
        elif self.text is not None:
            if "start" not in star.meta:
                raise InvalidInputError(
                    f'The virtual column "{names[0][1]}" and a * that is not written out cannot be combined: list the '
                    "columns in a SELECT."
                )
            if already:
                first = min(each.meta["start"] for each in already[0].find_all(exp.Identifier))
                self.result.edits.append(Edit(first, first, listed + ", "))
            else:
                end = star.meta["end"] + 1
                self.result.edits.append(Edit(end, end, f" EXCEPT ({listed})"))
        columns = [exp.column(name, table=alias, quoted=True) for alias, name in names]
        star.set("except_", [*already, *columns])

    def _statistics(self, sources: Sequence[Source]) -> None:
        """`stats(column)`, in DuckDB's dialect: what the catalog knows of the column of a table."""
        for call in list(self.root.find_all(exp.Anonymous)) if self.constants.dialect == "duckdb" else ():
            if fold(call.name) != "stats" or len(call.expressions) != 1:
                continue
            scope, column = call.find_ancestor(exp.Select), call.expressions[0]
            # A filter narrows what DuckDB says of a column.
            if not isinstance(column, exp.Column) or scope is None or scope.args.get("where"):
                continue
            path = [part.name for part in column.parts]
            for source in sources:
                if source.node.find_ancestor(exp.Select) is not scope:
                    continue
                own = path[1:] if len(path) > 1 and fold(path[0]) == fold(source.alias) else path
                found = source.relation.stats(own)
                if found is not None:
                    self._is_text_whole = False
                    call.replace(exp.Literal.string(found))
                    break

    # Columns with a schema in front.

    def _qualifiers(self, sources: Sequence[Source]) -> None:
        known = [
            (tuple(map(fold, source.relation.full_name)), source.alias)
            for source in sources
            if not source.has_alias
        ]
        if not known:
            return
        for column in list(self.root.find_all(exp.Column)):
            parts = column.parts
            for length in (3, 2):
                if len(parts) <= length:
                    continue
                prefix = tuple(fold(part.name) for part in parts[:length])
                # `schema.table`, or `lake.table`.
                alias = next(
                    (alias for full, alias in known if prefix in (full[-length:], (full[0], full[-1]))), None
                )
                if alias is not None:
                    self._requalify(column, parts, length, alias)
                    break

    def _requalify(self, column: exp.Column, parts: Sequence[exp.Expr], length: int, alias: str) -> None:
        if self.text is not None and all("start" in part.meta for part in parts[:length]):
            start, end = parts[0].meta["start"], parts[length - 1].meta["end"] + 1
            self.result.edits.append(Edit(start, end, self._quoted(alias)))
        else:
            self._is_text_whole = False
        names = [exp.to_identifier(alias, quoted=True), *(part.copy() for part in parts[length:])]
        fresh = exp.Column(**dict(zip(("this", "table", "db", "catalog"), reversed(names), strict=False)))
        column.replace(fresh)

    # From sources to DataFrames.

    def _bind(self, source: Source) -> None:
        place = place_name()
        self.result.frames[place] = source.relation.frame(source.wanted)
        self.result.types[place] = source.relation.types
        node, span = source.node, source.node.meta.pop("ducklake_span", None)
        if span is not None and not (node.args.get("when") and "start" not in node.args["when"].meta):
            text = place if source.has_alias else f"({place} AS {ticked(source.alias)})"
            if self.constants.dialect == "duckdb" and not source.has_alias:
                text = f"{place} AS {quote(source.alias)}"
            self.result.edits.append(Edit(span[0], span[1], text))
            for key in ("version", "when"):
                clause = node.args.get(key)
                if clause is not None and "start" in clause.meta:
                    start, end = clause.meta["start"], clause.meta["end"] + 1
                    self.result.edits.append(Edit(start, end, ""))
        else:
            self._is_text_whole = False
        for key in ("db", "catalog", "version", "when"):
            node.set(key, None)
        node.set("this", exp.to_identifier(place))
        if not source.has_alias:
            node.set("alias", exp.TableAlias(this=exp.to_identifier(source.alias, quoted=True)))


def _given_by_others(scope: exp.Expr, name: str) -> bool:
    """Whether a subquery or common table expression in FROM has a column of this name of its own."""
    if not isinstance(scope, exp.Select):
        return False
    items = [scope.args["from_"].this] if scope.args.get("from_") else []
    items += [join.this for join in scope.args.get("joins") or []]
    for item in items:
        query = item
        if isinstance(item, exp.Table):
            found = cte_of(item)
            query = found.this if found is not None else None
        if isinstance(query, exp.Query) and any(fold(each) == name for each in query.named_selects):
            return True
    return False
