"""The pages that are made from the code say what the code says."""

from __future__ import annotations

import runpy
from pathlib import Path

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


def test_the_dag_on_the_page_is_the_example() -> None:
    page = (ROOT / "docs" / "guides" / "scheduled-maintenance.md").read_text(encoding="utf-8")
    dag = (ROOT / "examples" / "airflow" / "lake_maintenance.py").read_text(encoding="utf-8")
    assert f"```text\n{dag}```" in page, "make try-airflow, then copy the file to the page"


@pytest.mark.parametrize("file", ["run.py", "profiles.yml", "macros/ducklake.sql"])
def test_the_files_of_dbt_on_the_page_are_the_example(file: str) -> None:
    page = (ROOT / "docs" / "guides" / "dbt.md").read_text(encoding="utf-8")
    text = (ROOT / "examples" / "dbt" / file).read_text(encoding="utf-8")
    assert f"\n{text}```" in page, "make try-dbt, then copy the file to the page"
