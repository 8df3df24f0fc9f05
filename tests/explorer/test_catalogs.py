"""The pages of the catalog, for each kind of database."""

from __future__ import annotations

from pathlib import Path

import ducklake_spark
from ducklake_spark.explorer.site import Site
from tests.explorer.conftest import welcome
from tests.explorer.test_pages import seen


def test_every_page_can_be_made_from_every_catalog(location: str, tmp_path: Path) -> None:
    with ducklake_spark.attach(location, name="lake", data_path=str(tmp_path / "data")) as lake:
        table = lake.create_table("t", {"a": "int", "b": "varchar"}, partitioned_by=["a"], sorted_by=["b"])
        table.insert([(1, "x"), (2, None)])
        table.set_comment("words", column="b")
        lake.create_view("v", "SELECT a FROM t")
        client = welcome(Site(lake))
        assert "main. t 2 0 0 bytes" in seen(client, "/?sort=rows")
        assert seen(client, "/totals") == "2 rows · 2 in the catalog"
        assert "Nothing to do" in seen(client, "/health")
        assert "comment “words”" in seen(client, "/table?schema=main&name=t")
        assert "2 rows of this table" in seen(client, "/table?schema=main&name=t&tab=files")
        assert "+2" in seen(client, "/table?schema=main&name=t&tab=history")
        assert "created view main.v" in seen(client, "/timeline")
        assert "table created main.t" in seen(client, "/compare?pick=0&pick=4")
