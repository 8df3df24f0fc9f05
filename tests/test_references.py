"""The pages that are made from the code say what the code says."""

from __future__ import annotations

import re
import runpy
from pathlib import Path

import griffe
import pytest

ROOT = Path(__file__).parent.parent
PAGES = runpy.run_path(str(ROOT / "scripts" / "site" / "references.py"))["PAGES"]


@pytest.mark.parametrize("page", PAGES)
def test_a_reference_is_up_to_date(page: str) -> None:
    text = (ROOT / "docs" / page).read_text(encoding="utf-8")
    assert text == PAGES[page](), "run scripts/site/references.py"


def test_every_file_says_what_it_is_for() -> None:
    page = PAGES["files.md"]()
    names = [path.name for path in (ROOT / "src" / "ducklake_spark").rglob("*.py") if path.stat().st_size]
    assert len(names) > 300
    assert page.count("\n| `") == len(names)


def test_the_site_finds_public_names_without_docstrings() -> None:
    """`make docs` fails for each; MkDocs must not be quiet for that, as then it counts no warnings."""
    extension = runpy.run_path(str(ROOT / "scripts" / "site" / "doctests.py"))
    code = 'class A:\n    """Said."""\n    def b(self): ...\n    def _c(self): ...\n'
    visited = griffe.visit("ducklake_spark.api.lake", Path("lake.py"), code)["A"]
    found = [each.name for each in (visited, *visited.members.values()) if extension["lacks_docstring"](each)]
    assert found == ["b"]
    build = re.search(
        r"^docs: .*?\n\n", (ROOT / "Makefile").read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL
    )
    assert build and "mkdocs build --strict" in build[0] and "quiet" not in build[0]


def test_the_dag_on_the_page_is_the_example() -> None:
    page = (ROOT / "docs" / "guides" / "scheduled-maintenance.md").read_text(encoding="utf-8")
    dag = (ROOT / "examples" / "airflow" / "lake_maintenance.py").read_text(encoding="utf-8")
    assert f"```text\n{dag}```" in page, "make try-airflow, then copy the file to the page"


@pytest.mark.parametrize("file", ["run.py", "profiles.yml", "macros/ducklake.sql"])
def test_the_files_of_dbt_on_the_page_are_the_example(file: str) -> None:
    page = (ROOT / "docs" / "guides" / "dbt.md").read_text(encoding="utf-8")
    text = (ROOT / "examples" / "dbt" / file).read_text(encoding="utf-8")
    assert f"\n{text}```" in page, "make try-dbt, then copy the file to the page"
