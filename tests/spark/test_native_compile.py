"""Java at run time: compiled once, kept privately, and never taken from where others could have put it."""

from __future__ import annotations

import stat
import threading
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from ducklake_spark.errors import NativeUnavailableError
from ducklake_spark.spark.native import class_files
from ducklake_spark.spark.native.callbacks import Answers, Refusal, start_callbacks
from ducklake_spark.spark.native.compile import Unit, load

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

CODE = {"p.A": b"one", "p.A$B": b"two", "p.q.r.D": b"three"}


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return tmp_path / "cache" / "ducklake-spark"


def test_class_files_are_kept_privately(cache: Path) -> None:
    assert class_files.find("k") is None
    folder = class_files.keep("k", CODE)
    assert folder == cache / "k" == class_files.find("k")
    assert (folder / "p" / "A.class").read_bytes() == b"one"
    for path in (cache, folder, *folder.rglob("*")):
        assert stat.S_IMODE(path.stat().st_mode) & 0o077 == 0


def _changed(folder: Path) -> None:
    (folder / "p" / "A.class").write_bytes(b"evil")


def _added(folder: Path) -> None:
    (folder / "p" / "C.class").write_bytes(b"evil")


def _removed(folder: Path) -> None:
    (folder / "p" / "A.class").unlink()


def _open_to_others(folder: Path) -> None:
    (folder / "p" / "A.class").chmod(0o666)


def _open_folder(folder: Path) -> None:
    folder.chmod(0o777)


def _no_manifest(folder: Path) -> None:
    (folder / "manifest.json").write_text("[")


def _linked(folder: Path) -> None:
    folder.rename(folder.with_name("elsewhere"))
    folder.symlink_to("elsewhere")


@pytest.mark.parametrize(
    "spoil", [_changed, _added, _removed, _open_to_others, _open_folder, _no_manifest, _linked]
)
def test_spoiled_class_files_are_not_used_and_made_again(spoil: object, cache: Path) -> None:
    spoil(class_files.keep("k", CODE))  # type: ignore[operator]
    assert class_files.find("k") is None
    assert class_files.keep("k", CODE) == class_files.find("k") == cache / "k"
    assert (cache / "k" / "p" / "A.class").read_bytes() == b"one"
    assert {path.name for path in cache.iterdir()} <= {"k", "elsewhere"}


def test_a_cache_folder_of_others_is_not_used(cache: Path) -> None:
    class_files.keep("k", CODE)
    cache.chmod(0o755)
    assert class_files.find("k") is None
    folder = class_files.keep("k", CODE)
    assert cache not in folder.parents
    assert (folder / "p" / "A.class").read_bytes() == b"one"


JAVA = """package native_test;
import java.util.function.BiFunction;
public class Asking {
    public Object ask(BiFunction python, Object argument) { return python.apply("q", new Object[] {argument}); }
}
"""
MORE = """package native_test_more;
import native_test.Asking;
public class More { public String text() { return new Asking().getClass().getName(); } }
"""


@pytest.mark.spark
def test_units_are_compiled_once_and_loaded(spark: SparkSession, tmp_path: Path, cache: Path) -> None:
    (tmp_path / "Asking.java").write_text(JAVA)
    (tmp_path / "More.java").write_text(MORE)
    first = Unit("asking", (str(tmp_path / "Asking.java"),))
    second = Unit("more", (str(tmp_path / "More.java"),), needs=(first,))
    made: list[object] = []
    threads = [threading.Thread(target=lambda: made.append(load(spark, second))) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(made) == 4 and len(set(map(id, made))) == 1
    assert load(spark, second).new("native_test_more.More").text() == "native_test.Asking"
    assert len(list(cache.iterdir())) == 2

    start_callbacks(spark)
    asking = load(spark, first).new("native_test.Asking")

    def answer(argument: str) -> str:
        if argument == "refuse":
            raise Refusal("NoSuchTable", "words")
        if argument == "fail":
            raise NativeUnavailableError("no\nway")
        return argument.upper()

    answers = Answers("a test", {"q": answer})
    assert asking.ask(answers, "words") == "WORDS"
    assert asking.ask(answers, "refuse") == "\x01NoSuchTable\x01words"
    assert (
        asking.ask(answers, "fail") == "\x01DuckLake\x01ducklake_spark.errors.NativeUnavailableError: no way"
    )


@pytest.mark.spark
def test_a_unit_that_cannot_be_compiled_says_why_each_time(spark: SparkSession, tmp_path: Path) -> None:
    (tmp_path / "Wrong.java").write_text("package wrong;\npublic class Wrong extends Nothing {}\n")
    unit = Unit("wrong", (str(tmp_path / "Wrong.java"),))
    for _ in range(2):
        with pytest.raises(NativeUnavailableError, match=r"classes of the wrong .*Nothing"):
            load(spark, unit)
