"""Errors of statements in DuckDB's dialect say what DuckDB says, too: users and scripts look for its words."""

from __future__ import annotations

import re

from ducklake_spark.errors import DuckLakeError, ReadOnlyError, shortened

_MOST = 390
_LABEL = re.compile(r" (?:The statement|Statement \d+ of \d+) is: ")
_KINDS = {"table or view": "Table", "column or field": "Column", "macro": "Macro Function"} | {
    each: each.capitalize() for each in ("table", "view", "schema", "function", "secret", "database")
}
_LOWER = ("COMMIT", "ROLLBACK")
_WORDS = (
    (
        r'^There (?:is|was) no (table or view|table|view|macro|function|secret|database) "([^"]*)"',
        "{0} with name {1} does not exist!",
    ),
    (r'^There is no attached (?:lake|database) "([^"]*)"', 'Catalog "{0}" does not exist!'),
    (r'^There is no schema "([^"]*)"', 'Schema "{0}" not found, it does not exist!'),
    (r'^There is no column "([^"]*)"', 'Referenced column "{0}" not found in FROM clause!'),
    (
        r'^(?:Table|View) "([^"]*)" has no column "([^"]*)"',
        'Table "{0}" does not have a column with name "{1}"!',
    ),
    (r'^Column "([^"]*)" of table "[^"]*" has no field "([^"]*)"', 'Column "{0}.{1}" does not exist'),
    (r'^There is no option "([^"]*)"', "Unsupported option {0}"),
    (
        r'has a (table|view|schema|macro|column or field|secret) "([^"]*)" already',
        '{0} with name "{1}" already exists!',
    ),
    (r'^There is a secret "([^"]*)" already', 'Secret with name "{0}" already exists!'),
    (
        r'^"[^"]*"\."([^"]*)" is a (view|table), not a (view|table)',
        "Existing object {0} is of type {1}, not type {2}",
    ),
    (
        r"[Cc]ould not resolve `(?:\w+`\.`)?(\w+)` to a table-valued function",
        "Table Function with name {0} does not exist!",
    ),
    (r"Cannot resolve routine `(\w+)`", "Scalar Function with name {0} does not exist!"),
    (
        r"^Unsupported data source type for direct query on files: (\w+)",
        "Table with name {0} does not exist!",
    ),
    (r"^A transaction is running already", "cannot start a transaction within a transaction"),
    (r"^Transaction conflict: ", "Failed to commit DuckLake transaction"),
    (r"cannot be (?:done|set) .*in (?:a lake|the extension)", "not yet supported"),
    (r"^Cannot read the type ", "Failed to convert DuckDB type to DuckLake - unsupported type"),
    (
        r"^(?:DATA_PATH|data_path) .*does not match the data path of the lake",
        "DATA_PATH parameter does not match existing data path in the catalog",
    ),
    (r'^ATTACH has no option "([^"]*)"', "Unsupported option {0} for DuckLake"),
    (r"^Give snapshot_version or snapshot_time", "Cannot specify both VERSION and TIMESTAMP"),
    (r"^No files match ", "No files found that match the pattern"),
    (
        r'^Cannot change column "([^"]*)" from (.*) to ([^:]*): only promotions',
        "Cannot change type of column {0} from {1} to {2} - only widening type promotions are allowed",
    ),
    (r"^Cannot change column .*: a nested column keeps", "Type evolution is not supported"),
    (
        r"^Cannot add column .* with the default",
        "We cannot add a column with a non-literal default value",
    ),
    (r"^Cannot add column .* as NOT NULL", "Adding columns with constraints not yet supported"),
    (
        r"^Cannot drop column .* it is the only column",
        "Cannot drop column: table only has one column remaining!",
    ),
    (
        r"cannot have a default: the format has none for (\w+) columns",
        "Default value for {0} type not supported",
    ),
    (
        r'^Cannot set NOT NULL on column "([^"]*)"',
        "Cannot SET NOT NULL on column {0} - the column has NULL values",
    ),
    (
        r'^NOT NULL constraint failed: column "([^"]*)" of table "([^"]*)"',
        "NOT NULL constraint failed: {1}.{0}",
    ),
    (r"by bucket\((?:0|-\d+),", "Bucket count must be positive"),
    (
        r"^The lake requires a commit message",
        "Commit Information for the snapshot is required but has not been provided",
    ),
    (
        r'^Cannot drop schema "([^"]*)": it holds',
        'Cannot drop schema "{0}" because there are entries that depend on it',
    ),
    (r'^Cannot set option "([^"]*)": it is fixed', "Unsupported option {0}"),
    (
        r'^Table "([^"]*)" takes (\d+) values .*and (\d+) were supplied',
        "table {0} has {1} columns but {2} values were supplied",
    ),
    (
        r"does not include a GROUP BY clause|is neither present in the group by|not in GROUP BY|MISSING_AGGREGATION",
        "column must appear in the GROUP BY clause or must be part of an aggregate function",
    ),
    (r"^The WHERE condition .*contains invalid expressions", "WHERE clause cannot contain aggregates!"),
    (
        r"can only be performed on inputs with the same number of columns",
        "Set operations can only apply to expressions with the same number of result columns",
    ),
    (r"^There is no transaction .*for (\w+)", "cannot {0} - no transaction is active"),
    (r'^There is no prepared statement "([^"]*)"', 'Prepared statement "{0}" does not exist'),
    (
        r"The value '(.*)' of the type \"STRING\" cannot be cast to \"(\w+)\"",
        "Could not convert string '{0}' to {1}",
    ),
    (r'^The database "([^"]*)" is in use', 'Cannot detach database "{0}" because it is the default database'),
)
"""What we say, and what DuckDB says."""


def with_duckdbs(error: DuckLakeError) -> None:
    """Adds what DuckDB says about the same mistake, where it says it in other words and there is room."""
    said = str(error)
    found = _LABEL.search(said)
    head, label, statement = (
        (said, "", "") if found is None else (said[: found.start()], found[0], said[found.end() :])
    )
    words = _words(error, head)
    if words is None or words.lower() in head.lower():
        return
    head = shortened(head, _MOST - len(words) - 15)
    dot = "" if head.endswith((".", "!", "?", ")")) else "."
    head = f"{head}{dot} DuckDB says: {words}{'' if words.endswith('!') else '.'}"
    room = _MOST - len(head) - len(label)
    error.args = (f"{head}{label}{shortened(statement, room)}" if room >= 20 and statement else head,)


def _words(error: DuckLakeError, said: str) -> str | None:
    if isinstance(error, ReadOnlyError):
        return "Cannot execute statement: attached in read-only mode!"
    for pattern, words in _WORDS:
        found = re.search(pattern, said)
        if found is not None:
            parts = [_KINDS.get(part, part.lower() if part in _LOWER else part) for part in found.groups()]
            return words.format(*parts)
    return None
