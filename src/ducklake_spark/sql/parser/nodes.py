"""Statements as values: what a text says, before anybody asks whether the lake can do it."""

from __future__ import annotations

from dataclasses import dataclass

from ducklake_spark.format.types import DataType

Name = tuple[str, ...]
"""The parts of a name, without quotes."""


@dataclass(frozen=True)
class Piece:
    """An expression or a query inside of a statement: where it stands in the statement's text."""

    start: int
    stop: int


@dataclass(frozen=True)
class SortKey:
    """An expression, and what stands behind it, such as ` DESC NULLS FIRST`."""

    expression: Piece
    order: str


@dataclass(frozen=True)
class Column:
    """A column of CREATE TABLE or ADD COLUMN."""

    path: Name
    type: DataType | None
    not_null: bool = False
    default: Piece | None = None
    comment: str | None = None


@dataclass(frozen=True)
class CreateSchema:
    name: Name
    if_not_exists: bool
    or_replace: bool


@dataclass(frozen=True)
class CreateTable:
    name: Name
    columns: tuple[Column, ...]
    query: Piece | None
    partitioned_by: tuple[str, ...] = ()
    sorted_by: tuple[SortKey, ...] = ()
    comment: str | None = None
    with_data: bool = True
    if_not_exists: bool = False
    or_replace: bool = False
    like: Name | None = None
    """A table whose columns and keys it takes."""


@dataclass(frozen=True)
class CreateView:
    name: Name
    columns: tuple[str, ...]
    query: Piece
    comment: str | None
    if_not_exists: bool
    or_replace: bool


@dataclass(frozen=True)
class Parameter:
    """A parameter of a macro."""

    name: str
    type: DataType | None
    default: Piece | None


@dataclass(frozen=True)
class MacroBody:
    parameters: tuple[Parameter, ...]
    body: Piece
    table: bool


@dataclass(frozen=True)
class CreateMacro:
    name: Name
    bodies: tuple[MacroBody, ...]
    if_not_exists: bool
    or_replace: bool


@dataclass(frozen=True)
class Drop:
    kind: str
    """`schema`, `table`, `view`, `macro` or `macro table`."""
    names: tuple[Name, ...]
    if_exists: bool
    cascade: bool


@dataclass(frozen=True)
class AddColumn:
    column: Column
    if_not_exists: bool


@dataclass(frozen=True)
class DropColumn:
    path: Name
    if_exists: bool


@dataclass(frozen=True)
class RenameColumn:
    path: Name
    new_name: str


@dataclass(frozen=True)
class RenameTo:
    name: Name


@dataclass(frozen=True)
class SetType:
    path: Name
    type: DataType


@dataclass(frozen=True)
class SetDefault:
    path: Name
    default: Piece | None


@dataclass(frozen=True)
class SetNotNull:
    path: Name
    not_null: bool


@dataclass(frozen=True)
class SetColumnComment:
    path: Name
    comment: str | None


@dataclass(frozen=True)
class SetPartitionedBy:
    keys: tuple[str, ...] | None
    """None resets."""


@dataclass(frozen=True)
class SetSortedBy:
    keys: tuple[SortKey, ...] | None
    """None resets."""


@dataclass(frozen=True)
class SetTableComment:
    comment: str | None


Action = (
    AddColumn
    | DropColumn
    | RenameColumn
    | RenameTo
    | SetType
    | SetDefault
    | SetNotNull
    | SetColumnComment
    | SetPartitionedBy
    | SetSortedBy
    | SetTableComment
)


@dataclass(frozen=True)
class Alter:
    kind: str
    """`table` or `view`."""
    name: Name
    if_exists: bool
    actions: tuple[Action, ...]


@dataclass(frozen=True)
class CommentOn:
    kind: str
    """`table`, `view` or `column`."""
    name: Name
    comment: str | None


@dataclass(frozen=True)
class Insert:
    name: Name
    columns: tuple[str, ...] | None
    query: Piece | None
    """None for DEFAULT VALUES."""
    values: tuple[tuple[Piece | None, ...], ...] | None = None
    """The values of each row, None for DEFAULT; only when the query is VALUES."""
    by_name: bool = False
    overwrite: bool = False
    where: Piece | None = None
    """The rows that are replaced."""
    partition: tuple[tuple[str, Piece], ...] = ()
    """Spark's PARTITION (column = value)."""
    ctes: Piece | None = None


@dataclass(frozen=True)
class Assignment:
    path: Name
    value: Piece | None
    """None for DEFAULT."""


@dataclass(frozen=True)
class Update:
    name: Name
    alias: str
    assignments: tuple[Assignment, ...]
    source: Piece | None
    """What stands behind FROM."""
    where: Piece | None
    ctes: Piece | None = None


@dataclass(frozen=True)
class Delete:
    name: Name
    alias: str
    source: Piece | None
    """What stands behind USING."""
    where: Piece | None
    ctes: Piece | None = None


@dataclass(frozen=True)
class When:
    """A clause of MERGE."""

    kind: str
    """`matched`, `not matched` or `not matched by source`."""
    condition: Piece | None
    action: str
    """`update`, `insert`, `delete`, `nothing` or `error`."""
    assignments: tuple[Assignment, ...] | None = None
    """None takes every column of the source."""
    columns: tuple[str, ...] | None = None
    """The columns of an INSERT with VALUES; None for all, in order."""
    values: tuple[Piece | None, ...] | None = None
    """The values of an INSERT, None for DEFAULT."""
    by_name: bool | None = None
    message: str | None = None


@dataclass(frozen=True)
class Merge:
    name: Name
    alias: str
    source: Piece
    """A table or a query, as it stands behind USING, with its alias."""
    source_alias: str
    on: Piece | None
    using: tuple[str, ...]
    clauses: tuple[When, ...]
    merge_schema: bool = False
    ctes: Piece | None = None


@dataclass(frozen=True)
class Truncate:
    name: Name


@dataclass(frozen=True)
class Transaction:
    action: str
    """`begin`, `begin read only`, `commit` or `rollback`."""


@dataclass(frozen=True)
class Use:
    name: Name


@dataclass(frozen=True)
class Show:
    what: str
    """`schemas`, `databases`, `tables`, `all tables`, `views`, `columns`, `create table`, `properties`, `functions`."""
    name: Name | None = None
    pattern: str | None = None


@dataclass(frozen=True)
class Describe:
    name: Name | None
    query: Piece | None
    kind: str = "table"
    """`table` or `schema`."""
    column: Name | None = None
    extended: bool = False


@dataclass(frozen=True)
class Summarize:
    query: Piece
    """A table or a query."""
    is_table: bool


@dataclass(frozen=True)
class Explain:
    query: Piece
    mode: str
    """A mode of `DataFrame.explain`."""


@dataclass(frozen=True)
class Argument:
    name: str | None
    value: Piece


@dataclass(frozen=True)
class Call:
    name: Name
    arguments: tuple[Argument, ...]


@dataclass(frozen=True)
class Checkpoint:
    name: Name | None


@dataclass(frozen=True)
class SetVariable:
    name: str
    value: Piece | None
    """None resets."""


@dataclass(frozen=True)
class SessionVariable:
    """SET VARIABLE and RESET VARIABLE."""

    name: str
    value: Piece | None
    """None resets."""


@dataclass(frozen=True)
class AttachOption:
    name: str
    value: Piece | None
    """None for an option that is just named."""


@dataclass(frozen=True)
class Attach:
    path: Piece
    name: str | None
    options: tuple[AttachOption, ...]
    if_not_exists: bool
    or_replace: bool


@dataclass(frozen=True)
class Detach:
    name: str
    if_exists: bool


@dataclass(frozen=True)
class Prepare:
    name: str
    statement: Piece


@dataclass(frozen=True)
class Execute:
    name: str
    arguments: tuple[Argument, ...]


@dataclass(frozen=True)
class Deallocate:
    name: str | None


@dataclass(frozen=True)
class Pragma:
    name: str
    arguments: tuple[Argument, ...]
    value: Piece | None


@dataclass(frozen=True)
class Nothing:
    """A statement for which there is nothing to do, such as LOAD."""

    word: str


@dataclass(frozen=True)
class CopyTo:
    query: Piece | None
    table: Name | None
    columns: tuple[str, ...] | None
    path: Piece
    options: tuple[AttachOption, ...]


@dataclass(frozen=True)
class CopyFrom:
    table: Name
    columns: tuple[str, ...] | None
    path: Piece
    options: tuple[AttachOption, ...]


@dataclass(frozen=True)
class CopyDatabase:
    source: str
    target: str
    what: str
    """`all`, `schema` or `data`."""


@dataclass(frozen=True)
class ExportDatabase:
    database: str | None
    """None for the one in use."""
    path: Piece
    options: tuple[AttachOption, ...]


@dataclass(frozen=True)
class ImportDatabase:
    path: Piece


@dataclass(frozen=True)
class CreateSecret:
    name: str | None
    options: tuple[AttachOption, ...]
    persistent: bool
    if_not_exists: bool
    or_replace: bool


@dataclass(frozen=True)
class DropSecret:
    name: str
    if_exists: bool


@dataclass(frozen=True)
class SparkSet:
    """SET or RESET of a setting of Spark, which Spark reads itself."""


Node = (
    CreateSchema
    | CreateTable
    | CreateView
    | CreateMacro
    | Drop
    | Alter
    | CommentOn
    | Insert
    | Update
    | Delete
    | Merge
    | Truncate
    | Transaction
    | Use
    | Show
    | Describe
    | Summarize
    | Explain
    | Call
    | Checkpoint
    | SetVariable
    | SessionVariable
    | Attach
    | Detach
    | Prepare
    | Execute
    | Deallocate
    | Pragma
    | Nothing
    | CopyTo
    | CopyFrom
    | CopyDatabase
    | ExportDatabase
    | ImportDatabase
    | CreateSecret
    | DropSecret
    | SparkSet
)
