"""Pictures: what is drawn is what the catalog says, without Spark and without a display."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import matplotlib
import pytest
from matplotlib import pyplot
from matplotlib.axes import Axes
from matplotlib.patches import Rectangle

import ducklake_spark
from ducklake_spark import InvalidInputError, Lake
from tests.interop.oracle import Oracle

STATEMENTS = (
    "CALL lake.set_option('data_inlining_row_limit', 0)",
    "CREATE TABLE orders(id BIGINT)",
    "INSERT INTO orders SELECT * FROM range(1000)",
    "INSERT INTO orders SELECT * FROM range(100000)",
    "INSERT INTO orders SELECT * FROM range(10)",
    "DELETE FROM orders WHERE id >= 50000",
    "ALTER TABLE orders ADD COLUMN note VARCHAR",
    'CREATE TABLE "$x^2$ costs $5"(a INTEGER)',
    'INSERT INTO "$x^2$ costs $5" VALUES (1)',
    "CREATE TABLE empty(a INTEGER)",
    "CREATE TABLE gone(a INTEGER)",
    "INSERT INTO gone SELECT * FROM range(10)",
    "DROP TABLE gone",
)


@pytest.fixture(scope="module")
def shop(_oracle_process: Oracle, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lake]:
    """A lake that DuckDB made."""
    path = tmp_path_factory.mktemp("plots") / "shop.ducklake"
    _oracle_process.attach(f"ducklake:{path}", "lake")
    for statement in STATEMENTS:
        _oracle_process.execute(statement)
    _oracle_process.detach()
    with ducklake_spark.attach(f"ducklake:{path}", name="shop", read_only=True) as lake:
        yield lake


@pytest.fixture(autouse=True)
def _no_figure_left() -> Iterator[None]:
    yield
    pyplot.close("all")


def bars(axes: Axes, label: str) -> list[Rectangle]:
    [found] = [each for each in axes.containers if each.get_label() == label]
    return list(found.patches)


def drawn(axes: Axes, folder: Path) -> int:
    """The size of the picture, which must be drawn without a warning."""
    path = folder / "picture.png"
    axes.figure.savefig(path)
    return path.stat().st_size


def test_files_are_counted_by_size_and_by_deletes(shop: Lake, tmp_path: Path) -> None:
    axes = shop["orders"].plot.files()
    assert sum(bar.get_height() for bar in bars(axes, "no row deleted")) == 2
    [deleted] = [bar for bar in bars(axes, "30% or more deleted") if bar.get_height()]
    size = max(row.data_file_size_bytes for row in shop.list_files("orders").collect())
    assert deleted.get_x() <= size < deleted.get_x() + deleted.get_width()
    assert axes.get_title(loc="left").startswith("main.orders: 3 files, ")
    assert axes.get_title(loc="left").endswith("49.5% of the rows deleted")
    assert drawn(axes, tmp_path) > 5000


def test_a_table_without_files_says_so(shop: Lake, lake: Lake, tmp_path: Path) -> None:
    axes = shop["empty"].plot.files()
    assert [text.get_text() for text in axes.texts] == ["No files"]
    inlined = lake.create_table("t", {"a": "int"})
    inlined.insert([(1,), (2,)])
    assert [text.get_text() for text in inlined.plot.files().texts] == ["No files; 2 rows in the catalog"]
    with lake.transaction():
        new = lake.create_table("new", {"a": "int"})
        assert [text.get_text() for text in new.plot.history().texts] == ["No snapshot yet"]
        assert [text.get_text() for text in new.plot.files().texts] == ["No files"]
    assert drawn(axes, tmp_path) > 1000


def test_history_has_the_rows_that_came_and_went(shop: Lake, tmp_path: Path) -> None:
    axes = shop["orders"].plot.history()
    expected = sorted(shop["orders"].history().collect())
    assert [bar.get_height() for bar in bars(axes, "rows inserted")] == [
        row.rows_inserted for row in expected
    ]
    assert [-bar.get_height() for bar in bars(axes, "rows deleted")] == [row.rows_deleted for row in expected]
    assert [label.get_text() for label in axes.get_xticklabels()] == [
        str(row.snapshot_id) for row in expected
    ]
    assert drawn(axes, tmp_path) > 5000
    newest = shop["orders"].plot.history(newest=2)
    assert [label.get_text() for label in newest.get_xticklabels()] == [
        str(row.snapshot_id) for row in expected[-2:]
    ]
    then = shop.at(version=2)["orders"].plot.history()
    assert [bar.get_height() for bar in bars(then, "rows inserted")] == [0, 1000]


def test_sizes_add_up_to_the_bytes_of_the_files(shop: Lake, tmp_path: Path) -> None:
    axes = shop.plot.sizes()
    names = [label.get_text() for label in axes.get_yticklabels()]
    assert set(names) == {"main.orders", 'main."$x^2$ costs $5"', "main.gone"}
    data = {name: bar.get_width() for name, bar in zip(names, bars(axes, "data"), strict=True)}
    assert data["main.orders"] == sum(row.data_file_size_bytes for row in shop.list_files("orders").collect())
    deletes = sum(bar.get_width() for bar in bars(axes, "deletes"))
    assert deletes == sum(row.delete_file_size_bytes or 0 for row in shop.list_files("orders").collect())
    old = {name: bar.get_width() for name, bar in zip(names, bars(axes, "other snapshots"), strict=True)}
    assert data["main.gone"] == 0 and old["main.gone"] > 0
    assert drawn(axes, tmp_path) > 5000
    few = shop.plot.sizes(largest=1)
    assert [label.get_text() for label in few.get_yticklabels()] == ["main.orders", "2 more tables"]
    first = shop.at(version=0).plot.sizes()
    assert [each.get_label() for each in first.containers] == ["other snapshots"]


def test_names_are_neither_formulas_nor_endless(lake: Lake, tmp_path: Path) -> None:
    table = lake.create_table(("main", r"$\frac{ " + "x" * 300), {"a": "int"})
    table.insert([(number,) for number in range(100)])
    for axes in (table.plot.files(), table.plot.history(), lake.plot.sizes()):
        assert len(axes.get_title(loc="left")) < 120
        assert drawn(axes, tmp_path) > 3000


def test_axes_that_are_given_are_drawn_on(shop: Lake) -> None:
    _, (left, right) = pyplot.subplots(ncols=2)
    assert shop["orders"].plot.files(ax=left) is left
    assert shop.plot.sizes(ax=right) is right
    assert left.patches and right.patches
    assert len(pyplot.get_fignums()) == 1


def test_counts_are_checked(shop: Lake) -> None:
    for wrong in (0, -1, True, "3", None):
        with pytest.raises(InvalidInputError, match="whole number"):
            shop.plot.sizes(largest=wrong)  # type: ignore[arg-type]
        with pytest.raises(InvalidInputError, match="whole number"):
            shop["orders"].plot.history(newest=wrong)  # type: ignore[arg-type]


def test_nothing_of_spark_is_imported_and_a_missing_package_is_named(tmp_path: Path) -> None:
    assert matplotlib.get_backend().lower() == "agg"
    script = f"""
import sys, ducklake_spark
lake = ducklake_spark.attach("ducklake:{tmp_path}/m.ducklake")
table = lake.create_table("t", {{"a": "int"}})
table.plot.history(), lake.plot.sizes(), table.plot.files()
assert "pyspark.sql" not in sys.modules
for name in [name for name in sys.modules if name.startswith("matplotlib")]:
    sys.modules[name] = None
try:
    table.plot.files()
except ducklake_spark.MissingDriverError as error:
    print(error)
"""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False)
    assert done.stdout.strip().endswith("pip install 'ducklake-spark[plot]'"), done.stderr
