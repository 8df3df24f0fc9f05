"""Deletes, updates and merges, once by the extension and once by us: same rows and changes at every snapshot."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

import ducklake_spark
from ducklake_spark import AmbiguousMergeError, ConflictError, InvalidInputError, Lake, NotFoundError
from ducklake_spark.engine import reads as reading
from ducklake_spark.engine.merge import MergeResult, _Run
from ducklake_spark.write.rowlevel import deletes as rowlevel
from ducklake_spark.write.rowlevel import matching
from tests.interop.oracle import Oracle

pytestmark = [pytest.mark.spark, pytest.mark.usefixtures("interpreted")]

Step = tuple[str, Callable[[Lake], object]]
COLUMNS = "id INT, v VARCHAR, st STRUCT(x INT, y VARCHAR)"


def rows(lake: Lake, start: int, stop: int) -> int:
    frame = lake.spark.range(start, stop).selectExpr(
        "cast(id as int) id", "concat('v', id) v", "struct(cast(id as int) as x, 'y' as y) st"
    )
    return lake["t"].insert(frame.coalesce(1))


def insert(start: int, stop: int) -> Step:
    sql = f"INSERT INTO t SELECT i::INT, 'v' || i, {{'x': i::INT, 'y': 'y'}} FROM range({start}, {stop}) r(i)"
    return sql, lambda lake: rows(lake, start, stop)


def delete(condition: str) -> Step:
    return f"DELETE FROM t WHERE {condition}", lambda lake: lake["t"].delete(condition)


def merge(lake: Lake) -> object:
    source = lake.spark.range(95, 125).selectExpr("cast(id as int) id", "concat('m', id) v")
    builder = lake["t"].merge(source, "target.id = source.id")
    builder = builder.when_matched().update({"v": "source.v"})
    return builder.when_not_matched().insert({"id": "source.id", "v": "source.v"}).execute()


def one_transaction(lake: Lake) -> None:
    with lake.transaction():
        rows(lake, 500, 550)
        lake["t"].delete("id between 500 and 515")
        lake["t"].update({"v": "'own'"}, "id = 520")
        lake["t"].delete("id between 60 and 80")
        lake["t"].delete("id between 81 and 94")


STEPS: list[Step] = [
    insert(0, 100),
    insert(100, 105),
    delete("id in (1, 2)"),
    delete("id in (100, 101)"),
    delete("id between 10 and 25"),
    delete("id between 30 and 45"),
    (
        "UPDATE t SET v = 'upd' WHERE id IN (5, 6, 102)",
        lambda lake: lake["t"].update({"v": "'upd'"}, "id in (5, 6, 102)"),
    ),
    (
        "UPDATE t SET v = v || '!', st = {'x': st.x + 1, 'y': st.y} WHERE id BETWEEN 46 AND 59",
        lambda lake: lake["t"].update({"v": "concat(v, '!')", "st.x": "st.x + 1"}, "id between 46 and 59"),
    ),
    delete("id = 12345"),
    (
        "MERGE INTO t USING (SELECT i::INT AS id, 'm' || i AS v FROM range(95, 125) r(i)) s ON t.id = s.id "
        "WHEN MATCHED THEN UPDATE SET v = s.v "
        "WHEN NOT MATCHED THEN INSERT (id, v) VALUES (s.id, s.v)",
        merge,
    ),
    (
        "BEGIN; INSERT INTO t SELECT i::INT, 'v' || i, {'x': i::INT, 'y': 'y'} FROM range(500, 550) r(i); "
        "DELETE FROM t WHERE id BETWEEN 500 AND 515; UPDATE t SET v = 'own' WHERE id = 520; "
        "DELETE FROM t WHERE id BETWEEN 60 AND 80; DELETE FROM t WHERE id BETWEEN 81 AND 94; COMMIT",
        one_transaction,
    ),
    delete("id > 0"),
]


@pytest.fixture
def twins(tmp_path: Path, kind: str, request: pytest.FixtureRequest) -> tuple[str, str, str]:
    if kind == "postgres":
        server = request.getfixturevalue("postgres_server")
        uris = [f"ducklake:postgres:{server.fresh_database()}" for _ in range(2)]
    else:
        uris = [f"ducklake:{kind}:{tmp_path / f'{side}.{kind}'}" for side in ("theirs", "ours")]
    return uris[0], uris[1], str(tmp_path / "data")


def seen(oracle: Oracle, uri: str, data_path: str) -> tuple[object, ...]:
    """Rows and row ids at every snapshot, the changes of each, and what each is said to have done."""
    oracle.attach(uri, data_path=data_path)
    [(last,)] = oracle.execute("SELECT max(snapshot_id) FROM lake.snapshots()")
    states = [
        oracle.execute(f"SELECT id, v, st FROM t AT (VERSION => {version}) ORDER BY id")
        for version in range(1, last + 1)
    ]
    feeds = [
        oracle.execute(
            f"SELECT change_type, id, v FROM lake.table_changes('t', {version}, {version}) ORDER BY ALL"
        )
        for version in range(1, last + 1)
    ]
    oracle.detach()
    return states, feeds


@pytest.mark.parametrize(("kind", "many_files"), [("duckdb", 1000), ("postgres", 0)])
def test_same_statements_leave_the_same_rows_at_every_snapshot(
    oracle: Oracle,
    spark: SparkSession,
    twins: tuple[str, str, str],
    kind: str,
    many_files: int,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(rowlevel, "MANY_FILES", many_files)
    monkeypatch.setattr(reading, "FEW_DELETES", many_files)
    theirs, ours, data_path = twins
    oracle.attach(theirs, data_path=data_path)
    oracle.execute(f"CREATE TABLE t({COLUMNS})")
    for sql, _ in STEPS:
        oracle.execute(sql)
    oracle.detach()
    with ducklake_spark.attach(ours, name="lake", data_path=data_path, spark=spark) as lake:
        lake.create_table("t", COLUMNS)
        for _, step in STEPS:
            step(lake)
        read = [
            sorted(tuple(row) for row in lake.table("t", version=version).select("id", "v").collect())
            for version in range(1, lake.version + 1)
        ]
    states, feeds = seen(oracle, ours, data_path)
    assert (states, feeds) == seen(oracle, theirs, data_path)
    assert read == [sorted((row[0], row[1]) for row in state) for state in states]  # type: ignore[union-attr]


@pytest.mark.parametrize("kind", ["duckdb", "sqlite"])
def test_each_side_changes_rows_of_the_others(
    oracle: Oracle, spark: SparkSession, twins: tuple[str, str, str], kind: str
) -> None:
    theirs, mixed, data_path = twins
    oracle.attach(theirs, data_path=data_path)
    oracle.execute(f"CREATE TABLE t({COLUMNS})")
    for sql, _ in STEPS:
        oracle.execute(sql)
    oracle.detach()
    with ducklake_spark.attach(mixed, name="lake", data_path=data_path, spark=spark) as lake:
        lake.create_table("t", COLUMNS)
    for turn, (sql, step) in enumerate(STEPS):
        if turn % 2:
            oracle.attach(mixed, data_path=data_path)
            oracle.execute(sql)
            oracle.detach()
        else:
            with ducklake_spark.attach(mixed, name="lake", data_path=data_path, spark=spark) as lake:
                step(lake)
    assert seen(oracle, mixed, data_path)[0] == seen(oracle, theirs, data_path)[0]


def test_row_ids_survive_an_update(spark: SparkSession, tmp_path: Path) -> None:
    with ducklake_spark.attach(f"ducklake:{tmp_path}/m.ducklake", name="lake", spark=spark) as lake:
        lake.create_table("t", COLUMNS)
        rows(lake, 0, 50)
        before = {r.id: r.rowid for r in lake.table("t", virtual_columns=["rowid"]).collect()}
        lake["t"].update({"v": "'x'"}, "id < 3")
        lake["t"].update({"v": "'y'"}, "id > 20")
        assert {r.id: r.rowid for r in lake.table("t", virtual_columns=["rowid"]).collect()} == before


def test_merge_refuses_two_source_rows_for_one_target_row(spark: SparkSession, tmp_path: Path) -> None:
    with ducklake_spark.attach(f"ducklake:{tmp_path}/m.ducklake", name="lake", spark=spark) as lake:
        lake.create_table("t", COLUMNS)
        rows(lake, 0, 20)
        source = spark.createDataFrame([(5,), (5,)], "id int")
        with pytest.raises(AmbiguousMergeError, match="id = 5"):
            lake["t"].merge(source, "target.id = source.id").when_matched().update({"v": "'x'"}).execute()
        assert lake.version == 2


def test_update_refuses_unknown_and_repeated_columns(spark: SparkSession, tmp_path: Path) -> None:
    with ducklake_spark.attach(f"ducklake:{tmp_path}/m.ducklake", name="lake", spark=spark) as lake:
        lake.create_table("t", COLUMNS)
        with pytest.raises(NotFoundError, match='no column "vv"'):
            lake["t"].update({"vv": "1"})
        with pytest.raises(InvalidInputError, match="twice"):
            lake["t"].update({"v": "'a'", "V": "'b'"})
        with pytest.raises(InvalidInputError, match="no column"):
            lake["t"].update({})


def test_deletes_of_the_same_rows_conflict_and_of_other_files_do_not(
    spark: SparkSession, tmp_path: Path
) -> None:
    uri = f"ducklake:sqlite:{tmp_path}/m.sqlite"
    with ducklake_spark.attach(uri, name="lake", data_path=str(tmp_path / "d"), spark=spark) as lake:
        lake.create_table("t", COLUMNS)
        rows(lake, 0, 50)
        rows(lake, 50, 100)
        with ducklake_spark.attach(uri, name="other", spark=spark) as other:
            with lake.transaction():
                lake["t"].delete("id < 20")
                other["t"].delete("id between 50 and 70")
            assert lake.table("t").count() == 59
            said = r'data file \d+ of table "t", because snapshot 6'
            with pytest.raises(ConflictError, match=said), lake.transaction():
                lake["t"].delete("id between 20 and 35")
                other["t"].delete("id between 30 and 45")
            assert lake.table("t").count() == 43
            # A delete that lost a race is stamped with the snapshot that it became.
            with lake.transaction():
                lake["t"].delete("id between 71 and 85")
                other.create_table("u", {"a": "int"})
            assert lake.table("t", version=lake.version - 1).count() == 43
            assert lake.table("t").count() == 28


def test_small_deletes_of_other_rows_do_not_conflict(
    spark: SparkSession, oracle: Oracle, tmp_path: Path
) -> None:
    """The extension has them conflict whenever both are kept in the catalog; only the same rows are a conflict here."""
    uri, data = f"ducklake:sqlite:{tmp_path}/m.sqlite", str(tmp_path / "d")
    with ducklake_spark.attach(uri, name="lake", data_path=data, spark=spark) as lake:
        lake.create_table("t", COLUMNS)
        rows(lake, 0, 50)
        rows(lake, 50, 100)
        lake["t"].insert([(i, "inlined", None) for i in range(1000, 1005)])
        with ducklake_spark.attach(uri, name="other", spark=spark) as other:
            with lake.transaction():
                lake["t"].delete("id IN (1, 1000, 1001)")
                other["t"].delete("id IN (51, 1002)")
            with pytest.raises(ConflictError, match='of table "t", because snapshot'), lake.transaction():
                lake["t"].delete("id = 2")
                other["t"].delete("id = 3")
            with (
                pytest.raises(ConflictError, match=r'row \d+ of table "t", because snapshot'),
                lake.transaction(),
            ):
                lake["t"].delete("id IN (4, 1003)")
                other["t"].delete("id IN (60, 1003)")
            with pytest.raises(ConflictError, match="deleted"), lake.transaction():
                lake["t"].truncate()
                other["t"].delete("id = 1004")
            left = sorted(row.id for row in lake.table("t").select("id").collect())
    gone = {1, 51, 3, 60}
    assert left == [i for i in range(100) if i not in gone]
    oracle.attach(uri, data_path=data)
    assert sorted(i for (i,) in oracle.execute("SELECT id FROM t")) == left
    oracle.detach()


def test_columns_may_be_called_like_virtual_ones(spark: SparkSession, tmp_path: Path) -> None:
    """What tells rows apart is not mistaken for a column of the table."""
    with ducklake_spark.attach(f"ducklake:{tmp_path}/m.ducklake", name="lake", spark=spark) as lake:
        table = lake.create_table("t", {"filename": "varchar", "file_row_number": "int", "rowid": "int"})
        table.insert([("a", 7, 1), ("b", 7, 2)])
        table.insert([(f"c{i}", 100 - i, 0) for i in range(30)])
        assert table.delete("filename = 'a'") == 1
        assert table.update({"rowid": "5"}, "filename = 'b'") == 1
        assert table.delete("file_row_number between 80 and 100") == 21
        assert table.update({"rowid": "6"}, "filename = 'c25'") == 1
        source = spark.createDataFrame([("c26", 9)], "filename string, rowid int")
        table.merge(source, "target.filename = source.filename").when_matched().update_all().execute()
        rows = {row.filename: row["rowid"] for row in table.to_df().collect()}
        assert rows == {"b": 5, **{f"c{i}": 0 for i in range(21, 30)}, "c25": 6, "c26": 9}


@pytest.mark.parametrize("limit", [0, 10])
def test_rows_that_change_twice_in_a_transaction_keep_their_ids(
    oracle: Oracle, spark: SparkSession, tmp_path: Path, limit: int
) -> None:
    uri, data_path = f"ducklake:{tmp_path}/m.ducklake", str(tmp_path / "data")
    oracle.attach(uri, data_path=data_path, data_inlining_row_limit=limit)
    oracle.execute("CREATE TABLE t(id INT, v VARCHAR); INSERT INTO t VALUES (1, 'a'), (2, 'b'), (3, 'c')")
    # Row ids as high as those of uncommitted rows, which the extension leaves behind.
    oracle.execute(
        "BEGIN; INSERT INTO t SELECT i, 'x' FROM range(10, 40) r(i); UPDATE t SET v = 'y' WHERE id > 9; COMMIT"
    )
    oracle.detach()
    with ducklake_spark.attach(uri, name="lake", spark=spark) as lake:
        table = lake["t"]
        table.set_option("data_inlining_row_limit", limit)
        before = {r.id: r.rowid for r in lake.table("t", virtual_columns=["rowid"]).collect()}
        assert max(before.values()) >= 10**18
        with lake.transaction():
            assert table.update({"v": "'b2'"}, "id in (2, 12)") == 2
            assert table.update({"v": "concat(v, '3')"}, "v = 'b2'") == 2
            assert table.delete("id = 12") == 1
            assert table.update({"v": "'z'"}, "rowid = 2") == 1
        after = {r.id: r.rowid for r in lake.table("t", virtual_columns=["rowid"]).collect()}
        assert after == {key: value for key, value in before.items() if key != 12}
        feed = [(r.change_type, r.id, r.v) for r in lake.table_changes("t", lake.version).collect()]
    wanted = [
        ("update_preimage", 2, "b"), ("update_postimage", 2, "b23"), ("delete", 12, "y"),
        ("update_preimage", 3, "c"), ("update_postimage", 3, "z"),
    ]  # fmt: skip
    if limit:
        assert sorted(feed) == sorted(wanted)
    else:
        assert set(wanted) <= set(feed)  # versions that were written and deleted in one snapshot show as such


def test_truncate_counts_what_is_left(oracle: Oracle, spark: SparkSession, tmp_path: Path) -> None:
    """Files that ended leave their delete files in the catalog, which delete nothing any more."""
    uri, data_path = f"ducklake:{tmp_path}/m.ducklake", str(tmp_path / "data")
    oracle.attach(uri, data_path=data_path, data_inlining_row_limit=0)
    oracle.execute("CREATE TABLE t(id INT); INSERT INTO t SELECT range FROM range(50)")
    oracle.execute("DELETE FROM t WHERE id < 30; DELETE FROM t; INSERT INTO t SELECT range FROM range(7)")
    oracle.detach()
    with ducklake_spark.attach(uri, name="lake", spark=spark) as lake:
        assert "7 rows" in repr(lake["t"])
        assert lake["t"].truncate() == 7


def test_truncate_counts_what_its_transaction_left(spark: SparkSession, tmp_path: Path) -> None:
    with ducklake_spark.attach(f"ducklake:{tmp_path}/m.ducklake", name="lake", spark=spark) as lake:
        table = lake.create_table("t", COLUMNS)
        rows(lake, 0, 100)
        table.insert([(1000, "inlined", None), (1001, "inlined", None)])
        table.delete("id = 7")
        steps: list[list[Callable[[], object]]] = [
            [lambda: table.delete("id = 3"), lambda: table.delete("id < 20 or id > 1000")],
            [lambda: table.delete("id < 100")],
            [lambda: rows(lake, 200, 250), lambda: table.delete("id between 210 and 230")],
            [lambda: table.insert([(5, "own", None), (6, "own", None)]), lambda: table.delete("id = 5")],
            [lambda: table.update({"v": "'new'"}, "id < 20 or id = 1000")],
            [lambda: table.truncate(), lambda: table.insert([(5, "own", None)])],
        ]
        for before in steps:
            lake.begin()
            for step in before:
                step()
            left = lake.table("t").count()
            assert (table.truncate(), lake.table("t").count()) == (left, 0)
            lake.rollback()


def test_a_file_ends_with_the_deletes_that_its_transaction_made_before(
    oracle: Oracle, spark: SparkSession, tmp_path: Path
) -> None:
    uri, data_path = f"ducklake:{tmp_path}/m.ducklake", str(tmp_path / "data")
    with ducklake_spark.attach(uri, name="lake", data_path=data_path, spark=spark) as lake:
        lake.create_table("t", COLUMNS)
        rows(lake, 0, 40)
        rows(lake, 40, 80)
        lake["t"].delete("id between 50 and 65")
        with lake.transaction():
            lake["t"].delete("id < 20 or id >= 68")
            lake["t"].delete("id % 20 < 18")
            lake["t"].delete("id >= 0")
        feed = lake.table_changes("t", lake.version).collect()
        assert sorted(row.id for row in feed) == [*range(50), *range(66, 80)]
        assert lake.table("t", version=4).count() == 64
    oracle.attach(uri, data_path=data_path)
    assert oracle.execute("SELECT count(*) FROM t") == [(0,)]
    assert oracle.execute("SELECT count(*) FROM t AT (VERSION => 4)") == [(64,)]
    assert oracle.execute("SELECT count(*) FROM lake.table_changes('t', 5, 5)") == [(64,)]


def overwrite_partitions(lake: Lake) -> object:
    return lake["t"].overwrite_partitions([(1, 100), (1, 101)])


@pytest.mark.parametrize(
    ("kind", "change", "deleted"),
    [
        ("duckdb", lambda lake: lake["t"].delete("p = 1"), range(3, 20)),
        ("sqlite", lambda lake: lake["t"].delete("a >= 3"), range(3, 40)),
        ("duckdb", lambda lake: lake["t"].truncate(), range(3, 40)),
        ("sqlite", lambda lake: lake["t"].overwrite([(1, 100), (1, 101)]), range(3, 40)),
        ("duckdb", overwrite_partitions, range(3, 20)),
        ("sqlite", lambda lake: lake["t"].restore(version=2), range(3, 40)),
    ],
)
def test_rows_whose_deletes_the_catalog_keeps_are_deleted_once(
    oracle: Oracle,
    spark: SparkSession,
    tmp_path: Path,
    kind: str,
    change: Callable[[Lake], object],
    deleted: range,
) -> None:
    """In a file that ends, the extension's feed takes rows for deleted then that were deleted so before."""
    uri, data_path = f"ducklake:{kind}:{tmp_path}/m.{kind}", str(tmp_path / "data")
    with ducklake_spark.attach(uri, name="lake", data_path=data_path, spark=spark) as lake:
        table = lake.create_table("t", {"p": "int", "a": "int"})
        table.set_partitioned_by("p")
        both = spark.range(40).selectExpr("cast(id div 20 + 1 as int) p", "cast(id as int) a")
        table.insert(both.coalesce(1))
        assert table.delete("a < 3") == 3
        change(lake)
        left = sorted(row.a for row in lake.table("t").collect())
        feed = lake.table_changes("t", lake.version)
        ours = sorted((row.change_type, row.a) for row in feed.collect())
        assert lake.table("t", version=4).count() == 37
    assert [a for kind_of, a in ours if kind_of == "delete"] == list(deleted)
    oracle.attach(uri, data_path=data_path)
    assert sorted(a for (a,) in oracle.execute("SELECT a FROM t")) == left
    assert oracle.execute("SELECT count(*) FROM t AT (VERSION => 4)") == [(37,)]
    theirs = oracle.execute("SELECT change_type, a FROM lake.table_changes('t', 5, 5)")
    assert sorted(map(tuple, theirs)) == ours


def test_a_small_source_does_not_shuffle_the_table(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    plans: list[str] = []

    def inserted(run: _Run) -> object:
        joined = run.frame.join(run.source, run.on, "inner")
        plans.append(joined._jdf.queryExecution().executedPlan().toString())
        return made(run)

    made = _Run._inserted
    monkeypatch.setattr(_Run, "_inserted", inserted)
    before = spark.conf.get("spark.sql.autoBroadcastJoinThreshold")
    spark.conf.set("spark.sql.autoBroadcastJoinThreshold", "-1")  # Spark by itself would shuffle
    try:
        with ducklake_spark.attach(f"ducklake:{tmp_path}/m.ducklake", name="lake", spark=spark) as lake:
            lake.create_table("t", COLUMNS)
            rows(lake, 0, 40)
            source = spark.range(35, 50).selectExpr("cast(id as int) id", "'m' v")
            merge = (
                lake["t"].merge(source, "target.id = source.id").when_matched("source.id > 36").update_all()
            )
            result = merge.when_not_matched("source.id <> 45").insert_all().execute()
            assert (result.inserted, result.updated) == (9, 3)
            found = {row.id: row.v for row in lake.table("t").where("id >= 35").collect()}
    finally:
        spark.conf.set("spark.sql.autoBroadcastJoinThreshold", before)
    assert found == {35: "v35", 36: "v36", **{i: "m" for i in range(37, 50) if i != 45}}
    assert "BroadcastHashJoin" in plans[0] and "SortMergeJoin" not in plans[0]


KEYS = {
    "i": ("int", "cast(id as int)"),
    "s": ("varchar", "concat('it''s \\\\ ü', id + 100)"),
    "d": ("date", "date_add(DATE '1999-12-25', cast(id as int))"),
    "ts": ("timestamp", "TIMESTAMP_NTZ '2020-03-29 00:00:00.5' + make_interval(0, 0, 0, 0, cast(id as int))"),
    "dec": ("decimal(9,2)", "cast(id as decimal(9,2))"),
}
SEVERAL = [
    ("target.i = source.i", "int", 1000),
    ("source.i = target.i AND target.n >= 0", "bigint", 2),
    ("key = target.i AND source.key IS NOT NULL", "smallint", 1000),
    ("target.s = source.s", None, 1000),
    ("target.d = source.d AND target.ts = source.ts", None, 2),
    ("target.ts = source.ts", None, 1000),
    ("target.dec = source.dec AND target.s = source.s", None, 2),
    ("column", None, 1000),
]


@pytest.fixture(scope="module")
def keyed(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Lake, list[Path]]]:
    """A table with three files of twenty rows each."""
    folder = tmp_path_factory.mktemp("keyed")
    with ducklake_spark.attach(f"ducklake:{folder}/m.ducklake", name="lake", spark=spark) as lake:
        table = lake.create_table("t", {**{name: kind for name, (kind, _) in KEYS.items()}, "n": "int"})
        files: list[Path] = []
        for start in (0, 20, 40):
            made = [f"{sql} AS {name}" for name, (_, sql) in KEYS.items()]
            table.insert(spark.range(start, start + 20).selectExpr(*made, "0 AS n").coalesce(1))
            files += [path for path in folder.rglob("*.parquet") if path not in files]
        assert len(files) == 3
        yield lake, files


@pytest.mark.parametrize(("on", "kind", "few"), SEVERAL)
def test_a_merge_reads_only_files_that_have_keys_of_its_source(
    keyed: tuple[Lake, list[Path]],
    on: str,
    kind: str | None,
    few: int,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(matching, "FEW", few)
    lake, files = keyed
    made = [f"{sql} AS {name}" for name, (_, sql) in KEYS.items()]
    source = lake.spark.range(21, 26).selectExpr(*made, "cast(id as smallint) AS key")
    source = source.unionAll(lake.spark.range(1).selectExpr(*["NULL"] * 6))  # NULL equals nothing
    source = source if kind is None else source.withColumn("i", F.col("i").cast(kind))
    condition = F.col("target.i") == F.col("source.i") if on == "column" else on
    before = lake.table("t").agg(F.sum("n")).first()[0]  # type: ignore[index]
    hidden = [path.rename(path.with_suffix(".hidden")) for path in (files[0], files[2])]
    try:
        merge = lake["t"].merge(source, condition).when_matched("source.i > 21").update({"n": "target.n + 1"})
        merge = merge.when_not_matched("source.i >= 0").insert({"i": "-1"})
        assert merge.execute() == MergeResult(updated=4)
    finally:
        for path in hidden:
            path.rename(path.with_suffix(".parquet"))
    assert lake.table("t").agg(F.sum("n")).first()[0] == before + 4  # type: ignore[index]


def test_a_merge_finds_rows_whose_keys_are_cast_or_missing(spark: SparkSession, tmp_path: Path) -> None:
    """Keys that say nothing of where a row is."""
    with ducklake_spark.attach(f"ducklake:{tmp_path}/m.ducklake", name="lake", spark=spark) as lake:
        table = lake.create_table("t", {"a": "bigint", "s": "varchar", "v": "int"})
        table.insert([((1 << 32) + 1, "1", 0), (None, None, 0), (7, "07", 0)])
        source = spark.createDataFrame([(1, "1"), (None, None), (7, "7")], "a INT, s STRING")
        ansi = spark.conf.get("spark.sql.ansi.enabled")
        spark.conf.set("spark.sql.ansi.enabled", "false")
        try:
            counts = [
                table.merge(source, on).when_matched().update({"v": "target.v + 1"}).execute().updated
                for on in (
                    "cast(target.a as int) = source.a",
                    "target.a <=> source.a",
                    "cast(target.s as int) = source.a",
                    "target.s = source.s OR target.a = source.a",
                    "target.a = source.a",
                    "source.s = 'x'",
                )
            ]
        finally:
            spark.conf.set("spark.sql.ansi.enabled", ansi)
        assert counts == [2, 2, 2, 2, 1, 0]
        nothing = spark.createDataFrame([(None,)], "a INT")
        merge = table.merge(nothing, "target.a = source.a").when_matched().delete()
        merge = merge.when_not_matched().insert({"v": "9"})
        assert merge.when_not_matched_by_source("v = 0").delete().execute() == MergeResult(1, 0, 0)


@pytest.mark.parametrize(
    ("call", "kept"),
    [
        ("ducklake_flush_inlined_data('lake')", True),
        ("ducklake_rewrite_data_files('lake', delete_threshold => 0)", True),
        ("ducklake_merge_adjacent_files('lake')", False),
    ],
    ids=["flush", "rewrite", "merge"],
)
def test_row_ids_through_maintenance_by_the_extension(
    oracle: Oracle, spark: SparkSession, tmp_path: Path, call: str, kept: bool
) -> None:
    """docs/rows.md says which keeps them. Merged files lose the ids that they hold when their own follow each other."""
    uri = f"ducklake:{tmp_path}/m.ducklake"
    with ducklake_spark.attach(uri, name="lake", spark=spark) as lake:
        table = lake.create_table("t", {"k": "int", "n": "int"})
        table.insert([(k, 0) for k in range(20)])
        if "flush" not in call:
            table.set_option("data_inlining_row_limit", 0)
        for k in (3, 7):
            table.update({"n": "1"}, f"k = {k}")
    asked = "SELECT k, rowid FROM t ORDER BY k"
    oracle.attach(uri)
    before = oracle.execute(asked)
    oracle.execute(f"CALL {call}")
    after = oracle.execute(asked)
    oracle.detach()
    assert before == [(k, k) for k in range(20)]
    assert (after == before) is kept
    with ducklake_spark.attach(uri, name="lake", spark=spark) as lake:
        read = lake.table("t", virtual_columns=["rowid"]).select("k", "rowid").orderBy("k").collect()
    assert list(map(tuple, read)) == after
