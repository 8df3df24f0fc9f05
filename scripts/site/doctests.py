"""An extension of Griffe, which reads docstrings for the site: examples are shown as code wherever they stand, and
a public name without a docstring fails the build, where it would be left out without a word.
"""

import logging
import re
from typing import Any

import griffe

_EXAMPLE = re.compile(r"^>>> .*(?:\n(?!\n).+)*", re.MULTILINE)


_FIXTURE = re.compile(r"^ *>>> lake = lake\n", re.MULTILINE)


def fenced(text: str) -> str:
    """The text with a fence around each example that is not indented; Griffe knows the others as a section.

    Where an example gets its lake from is of interest to tests only.
    """
    text = _FIXTURE.sub("", text.replace('getfixture("lake")', "lake"))
    return _EXAMPLE.sub(lambda match: f"```pycon\n{match[0]}\n```", text)


_PUBLIC = ("ducklake_spark.api.", "ducklake_spark.errors.")
"""Where the names of the page of the API are from; in strict builds a warning of MkDocs is an error."""
_log = logging.getLogger("mkdocs.plugins.doctests")


def lacks_docstring(obj: griffe.Object) -> bool:
    """Whether it is a public class, function, method or property without a docstring."""
    is_documented = obj.is_class or obj.is_function or "property" in obj.labels
    is_public = obj.path.startswith(_PUBLIC) and not any(part.startswith("_") for part in obj.path.split("."))
    return is_documented and is_public and obj.docstring is None


class Doctests(griffe.Extension):
    """Puts fences around examples."""

    def on_object(self, *, obj: griffe.Object, **_: Any) -> None:
        if lacks_docstring(obj):
            _log.warning("%s has no docstring, so the site would not show it", obj.path)
        if obj.docstring is not None:
            obj.docstring.value = fenced(obj.docstring.value)
