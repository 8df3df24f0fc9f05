"""Copies of a transaction's changes, which a savepoint keeps."""

from __future__ import annotations

import copy
from unittest import mock

from ducklake_spark.format import edits as module
from ducklake_spark.format.edits import CreateTable, DropTable, Edits, RenameTable
from ducklake_spark.format.objects import SchemaDef, TableDef

SCHEMA = SchemaDef(0, "u", "main", "main/", True)


def table(edits: Edits, name: str) -> TableDef:
    return TableDef(edits.new_id(), "u", SCHEMA.schema_id, name, name + "/", True, (), 1)


def test_a_copy_and_its_original_go_their_own_ways() -> None:
    edits = Edits()
    a, b = table(edits, "a"), table(edits, "b")
    for each in (a, b):
        edits.apply(CreateTable(each, SCHEMA))
    kept = edits.copy()
    before = copy.deepcopy(vars(kept))
    edits.apply(RenameTable(a, SCHEMA, "c"))
    edits.apply(DropTable(b))
    assert vars(kept) == before
    after = copy.deepcopy(vars(edits))
    kept.apply(RenameTable(b, SCHEMA, "d"))
    assert vars(edits) == after
    assert [edit.names for edit in kept.tables.values()] == [["a"], ["b", "d"]]


def test_a_copy_is_cheap() -> None:
    """A statement copies the edits of the objects that it touches: many statements in one transaction stay quick."""
    edits = Edits()
    with mock.patch.object(module, "_copied", wraps=module._copied) as copied:
        for number in range(50):
            edits.copy()
            made = table(edits, f"t{number}")
            edits.apply(CreateTable(made, SCHEMA))
            edits.apply(RenameTable(made, SCHEMA, f"u{number}"))
    assert copied.call_count <= 50
