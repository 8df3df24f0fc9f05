"""The code of docs/storage.md, on the bucket of the tests."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from tests.s3.store import BUCKET, KEY, SECRET, Store
from tests.test_docs import run

PAGE = Path(__file__).parents[2] / "docs" / "storage.md"


@pytest.mark.spark
def test_the_blocks_of_the_page(
    spark: Any, store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    names: dict[str, object] = {"__name__": "docs", "spark": spark}
    blocks = re.findall(r"^```py\n(.*?)^```", PAGE.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL)
    assert len(blocks) == 3
    for text in blocks:
        if "frozen" in text:
            store.client.upload_file("metadata.ducklake", BUCKET, "frozen/metadata.ducklake")
        for ours, theirs in (
            ("my-bucket", BUCKET),
            ("http://minio:9000", store.endpoint),
            ('"AKIA..."', repr(KEY)),
            ('"..."', repr(SECRET)),
        ):
            text = text.replace(ours, theirs)
        run(text, PAGE.name, names)
