"""The rows of the report by groups, and the work behind each: what all systems are asked, one after the other."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from benchmarks.peers import data
from benchmarks.peers.runner import Bench, Row

SUMS = "SELECT sum(l_quantity), sum(l_extendedprice), sum(l_discount) FROM {}"
Q6 = (
    "SELECT sum(l_extendedprice * l_discount) FROM {} WHERE l_shipdate >= DATE '1994-01-01' "
    "AND l_shipdate < DATE '1995-01-01' AND l_discount BETWEEN 0.05 AND 0.07 AND l_quantity < 24"
)


@dataclass
class Round:
    """What the work of a round needs."""

    bench: Bench
    data: Path
    number: int
    scans: int
    """How often a scan is repeated within a round."""
    appends: int
    merges: int
    files: int
    wide: int
    """Rows of the wide table."""
    batches: int
    lineitem: str = ""
    """The table of this round, once somebody asked for it."""

    @property
    def name(self) -> str:
        """For names of tables; rounds that warm up have numbers below 0."""
        return f"w{-self.number}" if self.number < 0 else str(self.number)

    def query(self, row: Row, table: str, text: str) -> None:
        """A query on one table, several times."""
        for _ in range(self.scans):
            self.bench.measure(row, "query", table, text=text.format("{" + table + "}"), tables=[table])

    def table(self) -> str:
        if not self.lineitem:
            self.lineitem = f"lineitem_{self.name}"
            self.bench.everyone("source", view="rows_of_lineitem", path=str(self.data / "lineitem"))
            text = "SELECT * FROM rows_of_lineitem"
            self.bench.measure(CREATE, "create", self.lineitem, table_name=self.lineitem, text=text)
        return self.lineitem

    def end(self) -> None:
        if self.lineitem:
            self.bench.everyone("drop", table_name=self.lineitem)


@dataclass(frozen=True)
class Group:
    """Rows that are measured together."""

    title: str
    rows: tuple[Row, ...]
    run: Callable[[Round], None]
    text: str = ""
    once: bool = False
    """Whether one measured round is enough, as it has many turns in itself."""


CREATE = Row("create", "create the table from a DataFrame")
SCANS = (
    Row("sums", "scan, three sums", scan=True),
    Row("q6", "scan, TPC-H's query 6", scan=True),
    Row("lookup", "point lookup", scan=True),
    Row("count", "`count(*)`", scan=True),
)


def scan(given: Round) -> None:
    table = given.table()
    sums, q6, lookup, count = SCANS
    given.query(sums, table, SUMS)
    given.query(q6, table, Q6)
    key = 32 * (abs(given.number) * 100 + 17) + 1
    given.query(
        lookup, table, f"SELECT l_linenumber, l_comment FROM {{}} WHERE l_orderkey = {key} ORDER BY 1"
    )
    given.query(count, table, "SELECT count(*) FROM {}")


CHANGES = (
    Row("delete", "delete 1 %, scattered"),
    Row("sums-deleted", "three sums after it", scan=True),
    Row("update", "update 1 %, scattered"),
    Row("update-range", "update 1 %, a range of keys"),
    Row("merge", "merge: 1 % updated, 1 % inserted"),
    Row("sums-changed", "three sums after all of that", scan=True),
    Row("travel", "time travel, `count(*)` of the first version", scan=True),
)


def rows(given: Round) -> None:
    table, bench = given.table(), given.bench
    delete, deleted, update, update_range, merge, changed, travel = CHANGES
    first = bench.everyone("version", f"{table} versions", table_name=table)
    bench.everyone("source", view="changes", path=str(given.data / "changes.parquet"))
    bench.measure(delete, "delete", table, table_name=table, condition=f"{data.SCATTERED} = 7")
    given.query(deleted, table, SUMS)
    bench.measure(update, "update", table, table_name=table, condition=f"{data.SCATTERED} = 21")
    some = "l_orderkey BETWEEN {low} AND {high}"
    last = int(float(given.data.name.split("-")[1]) * 6_000_000)
    ranged = some.format(low=last // 2, high=last // 2 + last // 100)
    bench.measure(update_range, "update", table, table_name=table, condition=ranged)
    bench.measure(merge, "merge", table, table_name=table, source="changes")
    given.query(changed, table, SUMS)
    versions = {name: {"version": version} for name, version in first.items()}
    for _ in range(given.scans):
        bench.measure(travel, "count_at", table, of_each=versions, table_name=table)


APPENDS = (
    Row("append", "append of 500 rows, each of many"),
    Row("append-scan", "scan of what they left", scan=True),
)


def appends(given: Round) -> None:
    bench, table = given.bench, f"appended_{given.name}"
    append, scanned = APPENDS
    bench.everyone("empty_for_appends", table, table_name=table)
    for turn in range(given.appends):
        bench.measure(append, "append", table, table_name=table, turn=turn, rows=500)
    given.query(scanned, table, "SELECT count(*), sum(id), min(who), max(amount) FROM {}")
    bench.everyone("drop", table, table_name=table)


TPCH = tuple(Row(f"tpch-{number}", f"query {number}", scan=True) for number in range(1, 23))
SPARK = ("parquet", "delta", "iceberg", "table", "sql")


def tpch(given: Round) -> None:
    bench = given.bench
    prefix = f"r{given.name}_"
    names = {name: f"{prefix}{name}" for name in data.TABLES}
    for name, table in names.items():
        file = given.data / (name if name == "lineitem" else f"{name}.parquet")
        bench.everyone("source", view="rows_of_it", path=str(file))
        bench.everyone("create", prefix, table_name=table, text="SELECT * FROM rows_of_it")
    for row, text in zip(TPCH, data.queries(), strict=True):
        bench.measure(row, "tpch", prefix, text=text, names=names, alike=SPARK)
    for table in names.values():
        bench.everyone("drop", prefix, table_name=table)


CURVE = (
    Row("curve-merge", "merge of 3 %, each of twenty"),
    Row("curve-scan", "three sums after each of them", scan=True),
    Row("curve-merge-compacted", "merge of 3 %, with a compaction after each fifth"),
    Row("curve-scan-compacted", "three sums after each of these", scan=True),
    Row("curve-compact", "the compaction"),
)


def curve(given: Round) -> None:
    bench = given.bench
    bench.everyone("source", view="rows_of_lineitem", path=str(given.data / "lineitem"))
    for compacted, (merge, scanned) in enumerate((CURVE[:2], CURVE[2:4])):
        table = f"curve_{given.name}_{compacted}"
        bench.everyone("create", table, table_name=table, text="SELECT * FROM rows_of_lineitem")
        for turn in range(given.merges):
            text = f"(l_partkey * 31 + l_suppkey) % 33 = {turn}"
            bench.everyone("changes_of", table, view="changes", condition=text)
            bench.measure(merge, "merge", table, table_name=table, source="changes")
            given.query(scanned, table, SUMS)
            if compacted and turn % 5 == 4:
                bench.measure(CURVE[4], "compact", table, table_name=table)
        bench.everyone("drop", table, table_name=table)


MEMORY = "memory of the driver with many files"
TIMES = {"files": 1, "files10": 10, "files100": 100}
"""How many times the number of files a group has."""


def many_files(key: str) -> Group:
    """A group of a table with that many files."""
    create, one, bounds, all_of_them = (
        Row(f"{key}-create", "write them"),
        Row(f"{key}-one", "scan one, by its partition", scan=True),
        Row(f"{key}-bounds", "scan one, by the bounds of another column", scan=True),
        Row(f"{key}-all", "scan all", scan=True),
    )
    times = TIMES[key]

    def files(given: Round) -> None:
        bench, table, number = given.bench, f"{key}_{given.name}", given.files * times
        # Each file has its own range of row_number.
        in_part = f"cast(floor(id / {number}) AS BIGINT)"
        columns = f"id % {number} * 10 + {in_part} AS row_number, id AS value, id % {number} AS part"
        text = f"SELECT {columns} FROM range({number * 10}) r(id)"
        bench.measure(create, "create_partitioned", table, table_name=table, text=text, by="part")
        given.query(one, table, f"SELECT count(*), sum(value) FROM {{}} WHERE part = {number // 2}")
        given.query(
            bounds, table, f"SELECT count(*), sum(value) FROM {{}} WHERE row_number = {number // 3 * 10 + 7}"
        )
        given.query(all_of_them, table, "SELECT count(*), sum(value) FROM {}")
        held = bench.everyone("memory_bytes", f"{table} memory")
        if not bench.warming:
            bench.results.figures[f"{MEMORY}: {key}"] = held
        bench.everyone("drop", table, table_name=table)

    said = f"{1000 * times:,} of them" if times > 1 else "1,000 of them"
    text = "One for each value of a partition, of ten rows each."
    return Group(f"Many files: {said}", (create, one, bounds, all_of_them), files, text, once=times > 1)


COLUMNS = 500
WIDE = (
    Row("wide-create", "create it"),
    Row("wide-three", "sums of three of its columns", scan=True),
    Row("wide-one", "one row, all columns", scan=True),
    Row("wide-append", "append of 100 rows, each of five"),
)


def wide(given: Round) -> None:
    bench, table = given.bench, f"wide_{given.name}"
    create, three, one, append = WIDE
    columns = ", ".join(
        f"id * {number} AS c{number}" if number % 2 else f"concat('v', id % {number + 2}) AS c{number}"
        for number in range(COLUMNS)
    )
    bench.measure(
        create, "create", table, table_name=table, text=f"SELECT {columns} FROM range({given.wide}) r(id)"
    )
    given.query(three, table, f"SELECT sum(c1), sum(c251), sum(c{COLUMNS - 1}) FROM {{}}")
    given.query(one, table, f"SELECT * FROM {{}} WHERE c1 = {given.wide // 2}")
    for turn in range(5):
        first = given.wide + turn * 100
        text = f"SELECT {columns} FROM range({first}, {first + 100}) r(id)"
        bench.measure(append, "insert", table, table_name=table, text=text)
    bench.everyone("drop", table, table_name=table)


NESTED = (
    Row("nested-create", "create it"),
    Row("nested-field", "fields of a struct", scan=True),
    Row("nested-list", "a list and a map", scan=True),
    Row("nested-delete", "delete 1 %, scattered"),
    Row("nested-update", "update 1 %, scattered"),
    Row("nested-after", "a list and a map, after that", scan=True),
)


def nested(given: Round) -> None:
    bench, table = given.bench, f"nested_{given.name}"
    create, field, listed, delete, update, after = NESTED
    bench.everyone("source", view="rows_nested", path=str(given.data / "nested.parquet"))
    bench.measure(create, "create", table, table_name=table, text="SELECT * FROM rows_nested")
    lists = "SELECT count(*), sum(cardinality(shares)) FROM {} WHERE array_contains(modes, 'AIR')"
    given.query(field, table, "SELECT sum(total.quantity), max(total.price) FROM {}")
    given.query(listed, table, lists)
    bench.measure(delete, "delete", table, table_name=table, condition="kind = 7")
    bench.measure(
        update, "update", table, table_name=table, condition="kind = 21", column="mark", value="mark + 1"
    )
    given.query(after, table, lists)
    bench.everyone("drop", table, table_name=table)


BATCHES = "batches of a stream"
STREAM = (
    Row("stream", "a stream of small files into a table, a batch for each"),
    Row("stream-scan", "scan of what it left", scan=True),
)


def stream(given: Round) -> None:
    bench, table = given.bench, f"streamed_{given.name}"
    streamed, scanned = STREAM
    folder = str(given.data / "stream")
    if not bench.warming:
        bench.results.figures[BATCHES] = given.batches
    bench.measure(streamed, "stream", table, table_name=table, folder=folder, batches=given.batches)
    given.query(scanned, table, "SELECT count(*), sum(l_quantity), max(l_comment) FROM {}")
    bench.everyone("drop", table, table_name=table)


COMPACT = (
    Row("small-scan", "three sums of many small files", scan=True),
    Row("small-compact", "the compaction"),
    Row("small-after", "three sums after it", scan=True),
)


def compact(given: Round) -> None:
    bench, table = given.bench, f"small_{given.name}"
    scanned, compacted, after = COMPACT
    bench.everyone("source", view="rows_of_lineitem", path=str(given.data / "lineitem"))
    bench.everyone("create_small", table, table_name=table, view="rows_of_lineitem", files=given.files * 2)
    given.query(scanned, table, SUMS)
    bench.measure(compacted, "compact", table, table_name=table)
    given.query(after, table, SUMS)
    bench.everyone("drop", table, table_name=table)


GROUPS = {
    "scan": Group("Create and scan", (CREATE, *SCANS), scan),
    "rows": Group("Changes of rows", CHANGES, rows),
    "appends": Group("Small appends", APPENDS, appends),
    "tpch": Group("TPC-H", TPCH, tpch, "The 22 queries, one after the other."),
    **{key: many_files(key) for key in TIMES},
    "wide": Group(f"A table of {COLUMNS} columns", WIDE, wide),
    "nested": Group(
        "Structs, lists and maps", NESTED, nested, "An order with its lines as a list, in a row."
    ),
    "stream": Group(
        "Streaming", STREAM, stream, "Spark's stream of Parquet files as source, all files at once."
    ),
    "compact": Group("Compaction of small files", COMPACT, compact),
    "curve": Group(
        "Twenty merges",
        CURVE,
        curve,
        "Each changes 3 % of the rows, other ones than those before; a scan follows each.",
        once=True,
    ),
}
