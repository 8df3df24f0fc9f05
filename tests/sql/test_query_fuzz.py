"""Queries made by chance: `lake.sql` gives a result, or an error of ours, and never anything else."""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pyspark.sql import SparkSession

import ducklake_spark
from ducklake_spark import DuckLakeError

pytestmark = pytest.mark.spark

EXAMPLES = 1000 if os.environ.get("DUCKLAKE_SPARK_TEST_DEEP") else 40

names = st.sampled_from(
    [
        "t",
        "main.t",
        "lake.main.t",
        "s1.u",
        "u",
        "v",
        "nope",
        "`t`",
        '"t"',
        "lake.t",
        "x.y.z.w",
        "t.files",
        "t.nope",
    ]
)
columns = st.sampled_from(
    ["a", "b", "t.a", "main.t.a", "rowid", "x.rowid", "*", "t.*", "nope", "filename", "1", "'s'", "NULL"]
)


def _expressions() -> st.SearchStrategy[str]:
    return st.recursive(
        columns,
        lambda inner: st.one_of(
            st.tuples(
                inner,
                st.sampled_from(
                    [
                        "+",
                        "-",
                        "*",
                        "/",
                        "//",
                        "%",
                        "=",
                        "<",
                        ">",
                        "||",
                        "AND",
                        "OR",
                        "IN",
                        "~",
                        "**",
                        "->",
                        "::",
                    ]
                ),
                inner,
            ).map(" ".join),
            st.tuples(
                st.sampled_from(
                    [
                        "count",
                        "sum",
                        "add",
                        "list",
                        "upper",
                        "range",
                        "len",
                        "nope",
                        "row_number",
                        "COLUMNS",
                        "struct_pack",
                        "MAP",
                    ]
                ),
                inner,
            ).map(lambda call: f"{call[0]}({call[1]})"),
            inner.map(lambda text: f"({text})"),
            inner.map(lambda text: f"[{text}, {text}]"),
            inner.map(lambda text: f"{{'k': {text}}}"),
            inner.map(lambda text: f"CAST({text} AS INT)"),
            inner.map(lambda text: f"CASE WHEN {text} THEN {text} END"),
            inner.map(lambda text: f"(SELECT {text} FROM t)"),
            inner.map(lambda text: f"{text}[1:2]"),
        ),
        max_leaves=4,
    )


expressions = _expressions()
sources = st.one_of(
    names,
    names.map(lambda name: f"{name} AS x"),
    st.tuples(
        names,
        st.sampled_from(
            [
                "VERSION AS OF 1",
                "AT (VERSION => 2)",
                "VERSION AS OF 99",
                "TIMESTAMP AS OF 'x'",
                "AT (VERSION => a)",
                "FOR SYSTEM_TIME AS OF now()",
                "TABLESAMPLE (10 PERCENT)",
            ]
        ),
    ).map(" ".join),
    st.sampled_from(
        [
            "range(3)",
            "snapshots()",
            "lake.table_changes('t', 0, 1)",
            "ducklake_snapshots('x')",
            "unnest([1])",
            "(VALUES (1)) v(a)",
            "m(1)",
            "(SELECT 1 AS a) q",
            "lake.expire_snapshots()",
        ]
    ),
)
tails = st.sampled_from(
    [
        "",
        "ORDER BY 1",
        "LIMIT 1",
        "GROUP BY ALL",
        "QUALIFY 1 = 1",
        "WHERE ?",
        "WHERE :p = 1",
        "ORDER BY ALL",
        "HAVING true",
        "WINDOW w AS ()",
        ";",
        "; SELECT 1",
        "--",
        "/*",
        "'",
        "UNION SELECT 1",
        "|> SELECT 1",
    ]
)
queries = st.one_of(
    st.tuples(expressions, sources, tails).map(lambda parts: "SELECT {} FROM {} {}".format(*parts)),
    st.tuples(sources, tails).map(lambda parts: "FROM {} {}".format(*parts)),
    st.tuples(expressions, names, names).map(
        lambda parts: "WITH t AS (SELECT {} FROM {}) SELECT * FROM t, {} z".format(*parts)
    ),
    st.tuples(names, names, expressions).map(
        lambda parts: "SELECT * FROM {} x JOIN {} y ON {}".format(*parts)
    ),
    st.text(alphabet="SELECT from t,.*()'\"`;?:=><-[]{}$\\\0 12", max_size=30),
)


@pytest.fixture(scope="module")
def lake(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ducklake_spark.Lake]:
    folder = tmp_path_factory.mktemp("fuzz")
    with ducklake_spark.attach(f"ducklake:{folder}/m.ducklake", name="lake", spark=spark) as lake:
        lake.create_table("t", {"a": "int", "b": "varchar"}).insert([(1, "x")])
        lake.create_schema("s1")
        lake.create_table("s1.u", {"a": "int[]"})
        lake.create_view("v", "SELECT a FROM t")
        lake.create_macro("add", "a + b", ["a", "b := 10"])
        lake.create_macro("m", "SELECT a FROM t WHERE a = k", ["k"], table=True)
        yield lake


@settings(max_examples=EXAMPLES, suppress_health_check=list(HealthCheck))
@given(
    text=queries, dialect=st.sampled_from(["spark", "duckdb"]), args=st.sampled_from([None, [1], {"p": 1}])
)
def test_a_query_gives_rows_or_an_error_of_ours(
    lake: ducklake_spark.Lake, text: str, dialect: str, args: object
) -> None:
    try:
        frame = lake.sql(text, dialect=dialect, args=args)
    except DuckLakeError as error:
        assert "Traceback" not in str(error) and "\tat org." not in str(error)
    else:
        assert isinstance(frame.columns, list)
    assert not [each for each in lake.spark.catalog.listTables() if each.name.startswith("ducklake_")]
