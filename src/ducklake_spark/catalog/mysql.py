"""A catalog in MySQL or MariaDB, through PyMySQL.

DDL is not transactional there, and writers take turns by a named lock.
"""

from __future__ import annotations

import configparser
import datetime
import decimal
import hashlib
import os
import re
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from typing import Any

from ..errors import CatalogConnectionError, CatalogError, InvalidInputError, MissingDriverError
from .location import Location
from .pool import PooledStore, WriteSession, formatted, quoted
from .store import CommitOutcomeUnknown, Failure, Query, Row, Session
from .tables import ALL_TABLES, insert_columns

try:
    import pymysql
    from pymysql.constants import CLIENT
    from pymysql.optionfile import Parser
except ImportError as error:
    raise MissingDriverError(
        'A MySQL catalog needs the driver PyMySQL: pip install "ducklake-spark[mysql]"'
    ) from error

Connection = Any  # PyMySQL has no types of its own

_COLLISION = {1050, 1062, 1586}  # 1050: a table, made by somebody who took the same ids
_TRANSIENT = {1205, 1213}
_LOST = {1040, 1053, 1077, 1152, 1158, 1159, 1160, 1161, 1927, 2002, 2003, 2006, 2013, 2055, 4031}
_TABLE_EXISTS, _UNKNOWN_DATABASE, _LOCK_WAIT_TIMEOUT = 1050, 1049, 1205
_SETTLING_SECONDS = 120
_WAIT_TIMEOUT = 60  # a client that vanished without a word must not keep the lake locked
_STATEMENT_BYTES = 500_000  # well below every max_allowed_packet
_MODE = "ANSI_QUOTES,PIPES_AS_CONCAT,STRICT_ALL_TABLES,NO_ENGINE_SUBSTITUTION"
_TEXT = "LONGTEXT CHARACTER SET utf8mb4 COLLATE utf8mb4_bin"  # TEXT ends at 64 KB; _bin compares exactly
_ESCAPES = str.maketrans(
    {"\0": "\\0", "\n": "\\n", "\r": "\\r", "\x1a": "\\Z", '"': '\\"', "'": "\\'", "\\": "\\\\"}
)


def _text_literal(value: str) -> str:
    return f"'{value.translate(_ESCAPES)}'"


def _time_literal(value: datetime.datetime) -> str:
    if value.tzinfo is not None:
        value = value.astimezone(datetime.timezone.utc).replace(tzinfo=None)
    return f"'{value.isoformat(sep=' ')}'"


_LITERALS: dict[type, Callable[[Any], str]] = {
    type(None): lambda _value: "NULL",
    bool: lambda value: "1" if value else "0",
    int: str,
    float: repr,
    str: _text_literal,
    bytes: lambda value: f"x'{value.hex()}'",
    datetime.datetime: _time_literal,
    decimal.Decimal: lambda value: f"{value:f}",
}


def _literal(value: Any) -> str:
    """An SQL literal for the session's sql_mode. PyMySQL too puts values into the text; this is its fast part."""
    write = _LITERALS.get(type(value))
    return write(value) if write else _text_literal(str(value))


def _text(sql: str, params: Sequence[Any] = ()) -> str:
    return formatted(sql) % tuple(map(_literal, params))


def _send(connection: Connection, statements: Sequence[str]) -> list[Row]:
    """Sends statements in one message. The rows are those of the last one."""
    with connection.cursor() as cursor:
        cursor.execute(";".join(statements))
        while cursor.nextset():  # also raises the error of each
            pass
        return list(cursor.fetchall())


def _execute(connection: Connection, sql: str, params: Sequence[Any] = ()) -> list[Row]:
    return _send(connection, [_text(sql, params)])


class MySQLSession(WriteSession[Connection]):
    """Holds the lake's named lock. The transaction begins at the first statement that writes: DDL would end it.

    What writes waits until somebody wants to know how it went, and goes in one message.
    """

    def __init__(self, connection: Connection, lock: str) -> None:
        super().__init__(connection)
        self.token = connection.thread_id()
        self._lock = lock
        self._begun = False
        self._created: list[str] = []
        self._waiting: list[str] = []
        self._size = 0

    def query(self, sql: str, params: Sequence[Any] = ()) -> list[Row]:
        # Under the lock nobody else writes: a look before the first write needs no transaction
        waiting, self._waiting, self._size = self._waiting, [], 0
        return _send(self.connection, [*waiting, _text(sql, params)])

    def execute(self, sql: str, params: Sequence[Any] = ()) -> None:
        self._write(_text(sql, params))

    def insert(self, table: str, rows: Sequence[Row]) -> None:
        names = insert_columns(table, len(rows[0])) if rows else ""
        for values in _bundles(rows):
            self._write(f"INSERT INTO {quoted(table)}{names} VALUES {values}")

    def _write(self, statement: str) -> None:
        if not self._begun:
            self._waiting.append("START TRANSACTION")
            self._begun = True
        if self._size + len(statement) > _STATEMENT_BYTES:
            self.flush()
        self._waiting.append(statement)
        self._size += len(statement)

    def flush(self) -> None:
        waiting, self._waiting, self._size = self._waiting, [], 0
        if waiting:
            _send(self.connection, waiting)

    def create_table(self, sql: str) -> None:
        if self._begun:
            raise RuntimeError(
                "on MySQL, tables are created before the first row of a transaction is written"
            )
        match = re.match(r'CREATE TABLE "((?:[^"]|"")+)"', sql)
        name = match[1].replace('""', '"') if match else ""
        try:
            _execute(self.connection, sql)
        except pymysql.MySQLError as error:
            if error.args[0] != _TABLE_EXISTS or not self._replaceable(name):
                raise
            if name.startswith("ducklake_inlined_delete_"):
                return  # it is found by its name alone: an empty one is harmless, another must be kept
            _execute(self.connection, f"DROP TABLE {quoted(name)}")
            _execute(self.connection, sql)
        if name:
            self._created.append(name)

    def _replaceable(self, name: str) -> bool:
        if name in ALL_TABLES:
            return False
        registered = _execute(
            self.connection, "SELECT 1 FROM ducklake_inlined_data_tables WHERE table_name = ?", [name]
        )
        return name.startswith("ducklake_inlined_") and not registered

    def commit(self) -> None:
        _execute(self.connection, "COMMIT")

    def rollback(self) -> None:
        _execute(self.connection, "ROLLBACK")
        for name in self._created:
            if name not in ALL_TABLES:
                _execute(self.connection, f"DROP TABLE IF EXISTS {quoted(name)}")

    def finish(self) -> None:
        _execute(self.connection, "SELECT RELEASE_LOCK(?)", [self._lock])


class MySQLStore(PooledStore[Connection]):
    kind = "mysql"
    needs_marker = True
    now_sql = "UTC_TIMESTAMP(6)"
    columns_sql = (
        "SELECT column_name FROM information_schema.columns WHERE table_name = ? AND table_schema = DATABASE() "
        "ORDER BY ordinal_position"
    )
    types = {  # noqa: RUF012  # a constant
        "BIGINT": "BIGINT", "VARCHAR": _TEXT, "BOOLEAN": "BOOLEAN", "UUID": _TEXT, "TIMESTAMPTZ": "DATETIME(6)",
    }  # fmt: skip
    identifier_limit = 64  # in characters really; a name of 64 bytes has no more of them
    column_limit = 190  # a row has to fit into half a page of 16 KB, with 40 bytes for each text
    transactional_ddl = False
    driver_errors = (pymysql.MySQLError,)

    def __init__(
        self,
        location: Location,
        *,
        metadata_schema: str | None = None,
        read_only: bool = False,
        busy_timeout: int = 5000,
    ) -> None:
        super().__init__(location, metadata_schema=metadata_schema, read_only=read_only)
        self._schema = metadata_schema or location.parameters["database"]
        self._busy_timeout = busy_timeout / 1000
        self._lock = "ducklake:" + hashlib.sha256(self._schema.lower().encode()).hexdigest()[:48]
        self._widened = False
        self._options = _connect_options(location.parameters)

    def _connect(self) -> Connection:
        connection = pymysql.connect(**self._options)
        _execute(connection, f"SET SESSION wait_timeout = {_WAIT_TIMEOUT}")
        try:
            connection.select_db(self._schema)
        except pymysql.MySQLError as error:
            if error.args[0] != _UNKNOWN_DATABASE or self.metadata_schema is None:
                connection.close()
                raise
        return connection

    def _fetch(self, connection: Connection, queries: Sequence[Query]) -> list[list[Row]]:
        return [_execute(connection, sql, params) for sql, params in queries]

    def _session(self, connection: Connection) -> MySQLSession:
        [(got,)] = _execute(connection, "SELECT GET_LOCK(?, ?)", [self._lock, self._busy_timeout])
        if not got:
            raise pymysql.err.OperationalError(_LOCK_WAIT_TIMEOUT, "another writer holds the lake's lock")
        if not self._widened:
            self._widen(connection)
            self._widened = True
        return MySQLSession(connection, self._lock)

    def _widen(self, connection: Connection) -> None:
        """Mends a lake that the extension made: times of whole seconds, and text in the server's default charset."""
        columns = _execute(
            connection,
            "SELECT table_name, column_name FROM information_schema.columns WHERE table_schema = ? AND "
            "data_type = 'datetime' AND datetime_precision < 6 AND column_name IN ('snapshot_time', 'schedule_start')",
            [self._schema],
        )
        for table, column in columns:
            if table in ALL_TABLES:
                _execute(connection, f"ALTER TABLE {quoted(table)} MODIFY {quoted(column)} DATETIME(6)")
        narrow = _execute(
            connection,
            "SELECT DISTINCT table_name FROM information_schema.columns WHERE table_schema = ? AND "
            "(collation_name <> 'utf8mb4_bin' OR data_type = 'text')",
            [self._schema],
        )
        for (table,) in narrow:
            if table in ALL_TABLES:
                changes = ", ".join(
                    f"MODIFY {quoted(column.name)} {_TEXT}{' NOT NULL' if column.not_null else ''}"
                    for column in ALL_TABLES[table].columns
                    if self.types[column.type] == _TEXT
                )
                _execute(connection, f"ALTER TABLE {quoted(table)} {changes}")

    def classify(self, error: BaseException) -> Failure:
        if not isinstance(error, pymysql.MySQLError):
            return Failure.FATAL
        number = error.args[0] if error.args else None
        if number in _COLLISION:
            return Failure.COLLISION
        if number in _TRANSIENT:
            return Failure.TRANSIENT
        # InterfaceError 0: a connection that was lost before, and is used again
        lost = number in _LOST or (isinstance(error, pymysql.InterfaceError) and number in (0, "(0, '')"))
        return Failure.LOST if lost else Failure.FATAL

    def _abandon(self, connection: Connection) -> None:
        self._kill(connection.thread_id())

    def _kill(self, thread: int) -> None:
        if self.query("SELECT IS_USED_LOCK(?)", [self._lock]) == [(thread,)]:
            with suppress(CatalogError):  # it ended by itself in between
                self.query(f"KILL CONNECTION {thread:d}")

    def settled(self, error: CommitOutcomeUnknown) -> bool | None:
        self.forget_connections()
        end = time.monotonic() + _SETTLING_SECONDS
        while time.monotonic() < end:
            # The old session holds the lock until it is over
            [(freed,)] = self.query(
                "SELECT CASE WHEN GET_LOCK(?, 1) = 1 THEN RELEASE_LOCK(?) END", [self._lock, self._lock]
            )
            if freed:
                return None
            if isinstance(error.token, int):
                self._kill(error.token)  # the server may not notice for hours that nobody is at the other end
        raise CatalogConnectionError(
            f"The catalog {self.display} still runs a transaction whose connection was lost."
        )

    def can_hold(self, columns: Sequence[str]) -> bool:
        """Names there have no case in any language, no characters of four bytes, and no space at the end."""
        return (
            super().can_hold(columns)
            and len({name.casefold() for name in columns}) == len(columns)
            and not any(name != name.rstrip() or any(c > "\uffff" for c in name) for name in columns)
        )

    def micros_sql(self, expression: str) -> str:
        return f"TIMESTAMPDIFF(MICROSECOND, '1970-01-01 00:00:00', {expression})"

    def inlined_type(self, column_type: str) -> str | None:
        # The extension cannot inline on MySQL (it loses fractions of seconds and fails on lists), so the encoding is
        # ours: that of SQLite, whole numbers as BIGINT and everything else as the text that DuckDB casts it to.
        column_type = column_type.lower()
        if column_type in ("variant", "geometry"):
            return None
        if column_type in ("boolean", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32"):
            return "BIGINT"
        return "LONGBLOB" if column_type == "blob" else _TEXT

    def indexes_sql(self) -> str:
        return (
            "SELECT DISTINCT index_name FROM information_schema.statistics "
            f"WHERE table_schema = {_text_literal(self._schema)}"
        )

    def tables_sql(self) -> str:
        return (
            "SELECT table_name AS table_name FROM information_schema.tables WHERE table_type = 'BASE TABLE' "
            f"AND table_schema = {_text_literal(self._schema)}"
        )

    def create_schema(self, session: Session) -> None:
        if self.metadata_schema is not None:
            session.create_table(f"CREATE DATABASE IF NOT EXISTS {quoted(self.metadata_schema)}")
            session.create_table(f"USE {quoted(self.metadata_schema)}")


def _bundles(rows: Sequence[Row]) -> Iterator[str]:
    """The rows as VALUES lists of bounded size."""
    bundle: list[str] = []
    size = 0
    for row in rows:
        text = f"({', '.join(map(_literal, row))})"
        if bundle and size + len(text) > _STATEMENT_BYTES:
            yield ", ".join(bundle)
            bundle, size = [], 0
        bundle.append(text)
        size += len(text)
    if bundle:
        yield ", ".join(bundle)


def _of_option_file(given: Mapping[str, str]) -> dict[str, str]:
    """What the user's option file says; of the server only when none is given, because a socket would win."""
    file = os.path.expanduser("~/.my.cnf")
    wanted = ["user", "password"]
    if "host" not in given and "socket" not in given:
        wanted += ["host", "port", "socket"]
    parser = Parser(strict=False)
    try:
        parser.read(file, encoding="utf-8")
        section = dict(parser.items("client")) if parser.has_section("client") else {}
        found = {key: parser.get("client", key) for key in wanted if section.get(key)}
        int(found.get("port", 0))
    except (configparser.Error, ValueError):  # what it says may quote the password
        raise InvalidInputError(f"The option file {file} is not one that MySQL can read: mend it.") from None
    return found


def _connect_options(given: Mapping[str, str]) -> dict[str, Any]:
    parameters = {**_of_option_file(given), **given}
    options: dict[str, Any] = {
        "host": parameters.get("host") or "localhost",
        "port": int(parameters.get("port") or 0) or 3306,
        "charset": "utf8mb4",
        "autocommit": True,
        "sql_mode": _MODE,
        "init_command": "SET SESSION TRANSACTION ISOLATION LEVEL READ COMMITTED",
        "program_name": "ducklake-spark",
        "client_flag": CLIENT.MULTI_STATEMENTS,
    }
    if parameters.get("user"):
        options["user"] = parameters["user"]
    if parameters.get("password"):
        options["password"] = parameters["password"].encode()  # PyMySQL would take it for Latin-1
    if parameters.get("socket"):
        options["unix_socket"] = parameters["socket"]
    authority = parameters.get("ssl_ca") or parameters.get("ssl_capath")
    mode = parameters.get("ssl_mode", "verify_ca" if authority else "preferred").lower()
    modes = ("disabled", "preferred", "required", "verify_ca", "verify_identity")
    if mode not in modes:
        raise InvalidInputError(f'The MySQL ssl_mode is one of {", ".join(modes)}, not "{mode}".')
    if mode.startswith("verify_") and not authority:
        raise InvalidInputError(f"The MySQL ssl_mode {mode} needs ssl_ca or ssl_capath: what to verify with.")
    for key in ("ssl_crl", "ssl_crlpath"):
        if parameters.get(key):
            raise InvalidInputError(f"PyMySQL does not check revocation lists: remove {key}.")
    tls = {
        key: parameters[f"ssl_{key}"]
        for key in ("ca", "capath", "cert", "key", "cipher")
        if f"ssl_{key}" in parameters
    }
    if mode == "disabled":
        options["ssl_disabled"] = True
    elif tls or mode != "preferred":
        verify = mode.startswith("verify_")
        options["ssl"] = tls | {"verify_mode": verify, "check_hostname": mode == "verify_identity"}
    return options
