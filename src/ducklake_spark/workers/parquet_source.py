"""How DuckDB reads and writes Parquet files, encrypted ones too. Keys never stand in the text of a query.

DuckDB's errors quote queries, so a key is put into a variable of the connection, and the query names the variable.
"""

from __future__ import annotations

import importlib.util
import json
import uuid
from collections.abc import Iterator, Sequence
from pathlib import Path

import duckdb

from ducklake_spark.format.encryption import FileKey, InvalidKeyError
from ducklake_spark.format.types import text_literal

FAILURE_MARK = "ducklake-spark failure: "
"""Stands before a JSON text in the exceptions of workers, so that the driver can say what went wrong."""
MISSING = "no such file"
NO_CRYPTO = "DuckDB cannot encrypt"
WRONG_KEY = "wrong key"
NOT_ENCRYPTED = "not encrypted"
_CRYPTO = "httpfs"
"""The extension of DuckDB that brings OpenSSL. What DuckDB has built in, it does not trust with writing."""


def failure(reason: str, path: str) -> RuntimeError:
    """What a worker raises of a file; where DuckDB cannot encrypt, its version takes the place of the path."""
    return RuntimeError(FAILURE_MARK + json.dumps({"column": None, "value": path, "reason": reason}))


def parquet(
    connection: duckdb.DuckDBPyConnection,
    paths: str | Sequence[str],
    key: FileKey | None = None,
    *options: str,
) -> str:
    """What stands behind FROM to read files of one key on this connection."""
    listed = [paths] if isinstance(paths, str) else list(paths)
    given = ["[" + ", ".join(map(text_literal, listed)) + "]", "hive_partitioning = false", *options]
    if key is not None:
        given.append(f"encryption_config = {_config(connection, key, listed[0])}")
    return f"read_parquet({', '.join(given)})"


def encryption_options(connection: duckdb.DuckDBPyConnection, key: FileKey | None) -> tuple[str, ...]:
    """The options of COPY that encrypt a file with a key; none without one.

    Raises:
        RuntimeError: This DuckDB cannot encrypt.
    """
    if key is None:
        return ()
    load_crypto(connection)
    return (f"ENCRYPTION_CONFIG {_config(connection, key, '')}",)


def load_crypto(connection: duckdb.DuckDBPyConnection) -> None:
    """Lets DuckDB encrypt: files, and what it spills.

    Raises:
        RuntimeError: It cannot.
    """
    if not any(_loaded(connection, source) for source in _statements_to_load()):
        raise failure(NO_CRYPTO, duckdb.__version__)
    connection.execute("SET temp_file_encryption = true")


def unreadable(error: BaseException, path: str) -> RuntimeError | None:
    """What DuckDB says of a file whose key is not the right one, as a worker's exception; None for other errors."""
    text = str(error)
    if "AES tag differs" in text or "is encrypted, but" in text:
        return failure(WRONG_KEY, path)
    if "is not encrypted, but" in text:
        return failure(NOT_ENCRYPTED, path)
    return None


def _config(connection: duckdb.DuckDBPyConnection, key: FileKey, path: str) -> str:
    name = f"key_{uuid.uuid4().hex}"
    try:
        raw = key.raw
    except InvalidKeyError:
        raise failure(WRONG_KEY, path) from None
    connection.execute(f"SET VARIABLE {name} = ?", [raw])
    return f"{{footer_key_value: getvariable('{name}')}}"


def _statements_to_load() -> Iterator[str]:  # a name that is no module's of duckdb, which would travel along
    """What loads the extension: from the package of PyPI, as it is installed, as DuckDB itself would fetch it."""
    found = importlib.util.find_spec(f"duckdb_extension_{_CRYPTO}")
    if found is not None and found.origin is not None:
        for file in sorted(
            Path(found.origin).parent.glob(f"extensions/v{duckdb.__version__}/*.duckdb_extension")
        ):
            yield f"LOAD {text_literal(str(file))}"
    yield f"LOAD {_CRYPTO}"
    yield f"INSTALL {_CRYPTO}; LOAD {_CRYPTO}"


def _loaded(connection: duckdb.DuckDBPyConnection, statement: str) -> bool:
    try:
        connection.execute(statement)
    except duckdb.Error:
        return False
    return True
