"""The notebooks of examples/: every cell runs, in order and without a kernel, and what they show is not stored."""

from __future__ import annotations

import ast
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from matplotlib import pyplot

import ducklake_spark

ROOT = Path(__file__).parent.parent
NOTEBOOKS = sorted((ROOT / "examples").glob("*.ipynb"))


@pytest.fixture(autouse=True)
def _nothing_left(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    yield
    pyplot.close("all")
    for lake in ducklake_spark.lakes().values():
        lake.close()


def cells(name: str, kind: str = "code") -> list[dict[str, Any]]:
    notebook = json.loads((ROOT / "examples" / f"{name}.ipynb").read_text(encoding="utf-8"))
    assert (notebook["nbformat"], notebook["nbformat_minor"]) == (4, 5)
    return [cell for cell in notebook["cells"] if cell["cell_type"] == kind]


def run(name: str) -> tuple[dict[str, Any], list[Any]]:
    """Runs the code cells. Returns their names, and what each of them shows at its end."""
    names: dict[str, Any] = {"__name__": "__main__"}
    shown = []
    for number, cell in enumerate(cells(name)):
        *body, last = ast.parse("".join(cell["source"])).body
        place = f"{name}, code cell {number}"
        exec(compile(ast.Module(body, []), place, "exec"), names)
        if isinstance(last, ast.Expr):
            value = eval(compile(ast.Expression(last.value), place, "eval"), names)
            shown.append(value._repr_html_() if hasattr(value, "_repr_html_") else value)
        else:
            exec(compile(ast.Module([last], []), place, "exec"), names)
    return names, shown


def test_outputs_are_not_stored() -> None:
    assert [path.stem for path in NOTEBOOKS] == ["incremental_pipeline", "tour"]
    for path in NOTEBOOKS:
        assert cells(path.stem, "markdown")
        for cell in cells(path.stem):
            assert cell["outputs"] == [] and cell["execution_count"] is None


@pytest.mark.spark
@pytest.mark.usefixtures("spark")
def test_the_tour(capsys: pytest.CaptureFixture[str]) -> None:
    names, shown = run("tour")
    assert names["deleted"] == 20 and names["updated"] > 1000
    assert (10_000, 9_980) in shown
    assert (
        sum(isinstance(each, str) and "<table" in each for each in shown) == 4
    )  # the lake, a table, history, health
    assert sum(isinstance(each, pyplot.Axes) for each in shown) == 2
    assert "update_postimage" in capsys.readouterr().out


@pytest.mark.spark
@pytest.mark.usefixtures("spark")
def test_the_pipeline_agrees_with_a_query_over_everything() -> None:
    names, shown = run("incremental_pipeline")
    assert names["deleted"] == 10 and names["updated"] == 198
    assert (1000, 1000) in shown
    assert 10 + 2 * 198 in shown  # the second run read the changes only
    assert names["difference"] == 0
