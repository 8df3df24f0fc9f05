"""An extension of Griffe, which reads docstrings for the site: examples are shown as code wherever they stand."""

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


class Doctests(griffe.Extension):
    """Puts fences around examples."""

    def on_object(self, *, obj: griffe.Object, **_: Any) -> None:
        if obj.docstring is not None:
            obj.docstring.value = fenced(obj.docstring.value)
