"""How a lake and a table are shown: what is said, that nothing breaks it, and that no secret and no markup gets out."""

from __future__ import annotations

import sys
from collections.abc import Callable
from html.parser import HTMLParser
from pathlib import Path

import pytest

import ducklake_spark
from ducklake_spark import Lake
from tests.servers import MYSQL_PASSWORD, PASSWORD

EVIL = "<script>alert('x')</script>"


class Tags(HTMLParser):
    """The elements and the text of a piece of HTML."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: set[str] = set()
        self.text = ""
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: object) -> None:
        self.tags.add(tag)

    def handle_data(self, data: str) -> None:
        self.text += f"{data} "


def test_a_lake_says_what_it_holds(lake: Lake) -> None:
    with lake.transaction(author="Ada", message="set up"):
        lake.create_schema("shop")
        lake.create_table("shop.orders", {"id": "bigint"})
    first, *rest = repr(lake).splitlines()
    assert first == str(lake) == f"Lake(lake: {lake._scope.store.display})"
    assert [line.split(maxsplit=1)[0] for line in rest] == ["snapshot", "contents", "files", "data"]
    assert "2 schemas, 1 table, 0 views" in rest[1]
    shown = Tags(lake._repr_html_())
    for words in ("Lake(lake: ", "tables created: shop.orders", "Ada", "set up"):
        assert words in shown.text
    assert "version 0" in repr(lake.at(version=0))
    assert "1 schema, 0 tables" in repr(lake.at(version=0))


def test_a_table_says_its_columns_its_size_and_its_history(lake: Lake) -> None:
    table = lake.create_table(
        "t", {"id": "bigint", "name": "varchar"}, not_null=["id"], defaults={"name": "none"}, comment="rows"
    )
    lake.create_table("other", {"id": "bigint"}).insert([{"id": 1}])
    table.insert([{"id": 1}, {"id": 2}])
    table.set_comment("the key", column="id")
    table.set_partitioned_by("bucket(4, id)")
    assert str(table) == "Table(main.t)"
    assert repr(table).splitlines() == [
        "Table(main.t)",
        "  id    BIGINT NOT NULL         the key",
        "  name  VARCHAR DEFAULT 'none'",
        "  comment         rows",
        "  partitioned by  bucket(4, id)",
        "  size            2 rows, 0 files, 0 bytes, 2 rows in the catalog",
    ]
    shown = Tags(table._repr_html_()).text
    for words in ("tables created: main.t", "inlined insert: main.t", "tables altered: main.t", "the key"):
        assert words in shown
    assert "main.other" not in shown


def test_a_wide_table_is_cut(lake: Lake) -> None:
    table = lake.create_table("wide", {f"c{number}": "int" for number in range(100)})
    assert "and 60 columns more" in repr(table)
    assert len(repr(table).splitlines()) < 50


def test_a_table_of_a_running_transaction_can_be_shown(lake: Lake) -> None:
    with lake.transaction():
        table = lake.create_table("t", {"a": "int"})
        assert repr(table).splitlines() == ["Table(main.t)", "  a  INTEGER"]
        assert "INTEGER" in table._repr_html_()
        assert "Lake(lake" in repr(lake)


def test_handles_can_be_shown_when_nothing_is_left(lake: Lake) -> None:
    table = lake.create_table("t", {"a": "int"})
    gone = lake.create_table("gone", {"a": "int"})
    gone.drop()
    assert repr(gone) == "Table(main.gone)"
    lake.close()
    assert repr(lake) == f"Lake(lake: {lake._scope.store.display}, closed)"
    assert Tags(lake._repr_html_()).text.strip().endswith("closed)")
    assert "was closed" in repr(table)
    assert "was closed" in table._repr_html_()


def test_a_lost_catalog_is_said_and_not_raised(tmp_path: Path) -> None:
    file = tmp_path / "lake.sqlite"
    with ducklake_spark.attach(f"ducklake:sqlite:{file}", data_path=tmp_path / "data") as lake:
        table = lake.create_table("t", {"a": "int"})
        lake._scope.store.forget_connections()
        file.write_bytes(b"no database any more")
        for handle in (lake, table):
            assert "is not a SQLite database" in repr(handle)
            assert "is not a SQLite database" in handle._repr_html_()


def test_names_and_comments_do_not_move_the_cursor(lake: Lake) -> None:
    table = lake.create_table("t\x1b[2J", {"a": "int"}, comment="two\nlines\x07")
    shown = repr(table)
    assert "t\\x1b[2J" in shown and "two lines\\x07" in shown
    assert all(line.isprintable() for line in shown.splitlines())


def test_names_and_comments_are_not_markup(lake: Lake) -> None:
    table = lake.create_table(EVIL, {EVIL: "int"}, comment=EVIL)
    with lake.transaction(author=EVIL, message=EVIL):
        table.set_comment(EVIL, column=(EVIL,))
    for html in (table._repr_html_(), lake._repr_html_()):
        assert Tags(html).tags <= {"div", "strong", "table", "thead", "tbody", "tr", "th", "td"}
        assert EVIL in Tags(html).text


@pytest.mark.parametrize(("kind", "secret"), [("postgres", PASSWORD), ("mysql", MYSQL_PASSWORD)])
def test_no_password_shows(
    kind: str, secret: str, make_location: Callable[[str], str], tmp_path: Path
) -> None:
    location = make_location(kind)
    with ducklake_spark.attach(location, data_path=tmp_path) as lake:
        table = lake.create_table("t", {"a": "int"})
        table.insert([{"a": 1}])
        shown = [handle for each in (lake, table) for handle in (repr(each), each._repr_html_(), str(each))]
        assert "1 row, 0 files" in shown[3]
        assert not any(secret in text for text in shown)


def test_showing_starts_no_spark(lake: Lake) -> None:
    from pyspark.sql import SparkSession

    active = SparkSession.getActiveSession()  # of other tests of this process; a lake takes it
    lake.create_table("t", {"a": "int"})
    assert repr(lake) and repr(lake["t"])
    assert lake._scope.session is active is SparkSession.getActiveSession()
    assert "ducklake_spark.api.display" in sys.modules


def test_what_the_catalog_answers_is_a_table_of_html_without_spark(lake: Lake) -> None:
    with lake.transaction(author=EVIL, message="set up"):
        table = lake.create_table(("main", EVIL), {"a": "int"})
    table.insert([(number,) for number in range(2000)])
    for frame in (lake.snapshots(), table.history(), lake.health(), lake.table_info(), table.detail()):
        text = frame._repr_html_()
        assert text is not None
        shown = Tags(text)
        assert shown.tags == {"div", "table", "thead", "tbody", "tr", "th", "td"}
        for name in frame.columns:
            assert name in shown.text
        for colour in ("#", "black", "white"):  # it stands on light and on dark pages
            assert colour not in text.partition("<tbody>")[0]
    history = Tags(table.history()._repr_html_() or "").text
    assert EVIL in history and "inserted_into_table" in history and "2 rows" in history
    snapshots = Tags(lake.snapshots()._repr_html_() or "").text
    assert "tables_created: main" in snapshots and "{" not in snapshots
    health = lake.health()._repr_html_() or ""
    size = lake.health().collect()[-1].bytes
    assert f'title="{size:,} bytes"' in health


def test_of_many_rows_the_first_are_shown(lake: Lake) -> None:
    lake.create_table("t", {f"c{number}": "int" for number in range(120)})
    shown = Tags(lake.metadata("ducklake_column")._repr_html_() or "").text
    assert "120 rows, of which the first 100 are shown" in shown
    assert " c99 " in shown and " c100 " not in shown
