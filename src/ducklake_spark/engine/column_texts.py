"""Names and types of an answer's columns, written as one text. Knows no Spark: the command line reads them too."""

from __future__ import annotations


def split_columns(columns: str) -> list[str]:
    """Columns with commas between them; those inside of types do not count.

    >>> split_columns("name string, tags map<string,bigint>")
    ['name string', 'tags map<string,bigint>']
    """
    parts, depth = [""], 0
    for letter in columns:
        depth += (letter == "<") - (letter == ">")
        if letter == "," and depth == 0:
            parts.append("")
        else:
            parts[-1] += letter
    return [part.strip() for part in parts]
