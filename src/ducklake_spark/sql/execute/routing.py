"""Which lake a statement is about: `lake.table` and `lake.schema.table` in the place of every name."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from ducklake_spark.errors import InvalidInputError
from ducklake_spark.format.types import fold
from ducklake_spark.sql.execute.context import Context
from ducklake_spark.sql.execute.session import session_of
from ducklake_spark.sql.parser import nodes

_CREATED = (nodes.CreateTable, nodes.CreateView, nodes.CreateMacro)
_NAMED = (
    *_CREATED,
    nodes.Alter,
    nodes.Insert,
    nodes.Update,
    nodes.Delete,
    nodes.Merge,
    nodes.Truncate,
    nodes.CopyFrom,
)


def routed(context: Context, node: nodes.Node) -> Iterator[tuple[Context, nodes.Node]]:
    """The statement for each lake that it is about, with names that need no lake in front.

    Raises:
        InvalidInputError: A name could be one of a lake or of a schema.
        NotFoundError: There is no such lake.
    """
    session = session_of(context.lake)
    current = context.lake

    def inside(lake: Any, changed: nodes.Node) -> tuple[Context, nodes.Node]:
        return (replace(context, lake=lake, home=current) if lake is not current else context), changed

    if isinstance(node, _NAMED):
        name = node.table if isinstance(node, nodes.CopyFrom) else node.name
        lake, rest = session.target(name, new=isinstance(node, _CREATED))
        if isinstance(node, nodes.CopyFrom):
            yield inside(lake, replace(node, table=rest))
        else:
            yield inside(lake, replace(node, name=rest))
    elif isinstance(node, nodes.CreateSchema):
        lake, rest = session.target(node.name, longest=2)
        yield inside(lake, replace(node, name=rest))
    elif isinstance(node, nodes.CommentOn):
        longest = 5 if node.kind == "column" else 3
        lake, rest = session.target(node.name, longest=longest)
        yield inside(lake, replace(node, name=rest))
    elif isinstance(node, nodes.Drop):
        longest = 2 if node.kind == "schema" else 3
        targets = [session.target(name, longest=longest) for name in node.names]
        for lake in {id(lake): lake for lake, _ in targets}.values():
            names = tuple(rest for found, rest in targets if found is lake)
            yield inside(lake, replace(node, names=names))
    elif isinstance(node, nodes.Describe) and node.name is not None:
        lake, rest = session.target(node.name, longest=2 if node.kind == "schema" else 3)
        yield inside(lake, replace(node, name=rest))
    elif isinstance(node, nodes.Show) and node.what in ("columns", "create table") and node.name is not None:
        lake, rest = session.target(node.name)
        yield inside(lake, replace(node, name=rest))
    elif isinstance(node, nodes.Show) and node.name is not None:
        yield inside(*_schema_shown(session, node))
    else:
        yield context, node


def _schema_shown(session: Any, node: nodes.Show) -> tuple[Any, nodes.Show]:
    """`SHOW TABLES FROM schema`, `FROM lake` or `FROM lake.schema`."""
    assert node.name is not None
    first, *others = node.name
    if len(others) > 1:
        raise InvalidInputError(f'"{".".join(node.name)}" is not the name of a schema.')
    lake = session.named(first)
    if lake is None or (not others and fold(lake.name) == fold(session.current.name)):
        return session.current, node
    return lake, replace(node, name=tuple(others) or (lake.name,))
