"""What a user may import: every type that a public method returns has a public name."""

from __future__ import annotations

import builtins
import inspect
import re
import subprocess
import sys
from typing import Any

import pytest

import ducklake_spark

OF_OTHERS = {"Any", "Axes", "Column", "DataFrame", "Iterator", "SparkSession", "Self"}
"""Names of Python, PySpark and matplotlib."""


def public_classes() -> dict[str, type]:
    found = {name: getattr(ducklake_spark, name) for name in ducklake_spark.__all__}
    return {name: value for name, value in found.items() if inspect.isclass(value)}


def returned(value: Any) -> str | None:
    function = value.fget if isinstance(value, property) else inspect.unwrap(value)
    return getattr(function, "__annotations__", {}).get("return")


@pytest.mark.parametrize("owner", sorted(public_classes()))
def test_what_public_methods_return_has_a_public_name(owner: str) -> None:
    for name, value in inspect.getmembers(public_classes()[owner]):
        if name.startswith("_") or not (inspect.isfunction(value) or isinstance(value, property)):
            continue
        for word in re.findall(r"\w+", str(returned(value))):
            known = word in ducklake_spark.__all__ or word in OF_OTHERS or hasattr(builtins, word)
            assert known, f"{owner}.{name} returns {word}, which ducklake_spark does not export"


def test_the_public_names_are_sorted_and_there() -> None:
    assert sorted(set(ducklake_spark.__all__)) == ducklake_spark.__all__
    assert all(hasattr(ducklake_spark, name) for name in ducklake_spark.__all__)
    with pytest.raises(AttributeError, match="no attribute 'Nothing'"):
        _ = ducklake_spark.Nothing


def test_public_methods_say_what_they_do() -> None:
    """Also those of the parts that `Lake` and `Table` are made of."""
    for name, owner in public_classes().items():
        for member, value in inspect.getmembers(owner):
            if member.startswith("_") or not inspect.isfunction(value):
                continue
            if value.__module__.startswith("ducklake_spark"):
                assert inspect.getdoc(value), f"{name}.{member} has no docstring"


def test_importing_the_package_does_not_import_spark() -> None:
    code = "import sys, ducklake_spark; print('pyspark' in sys.modules, 'pyarrow' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["False", "False"]
