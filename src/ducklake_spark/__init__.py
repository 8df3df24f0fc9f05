"""The DuckLake 1.0 lakehouse format on Apache Spark, in the same lake and at the same time as DuckDB."""

from ducklake_spark.api.attach import attach
from ducklake_spark.api.lake import Lake
from ducklake_spark.api.table import Table
from ducklake_spark.errors import (
    AlreadyExistsError,
    AmbiguousMergeError,
    CatalogConnectionError,
    CatalogError,
    CatalogVersionError,
    ClosedError,
    CommitUnknownError,
    ConflictError,
    ConstraintError,
    DependencyError,
    DuckLakeError,
    FileError,
    InvalidInputError,
    MissingDriverError,
    NotADuckLakeError,
    NotFoundError,
    ReadOnlyError,
    RetryLimitError,
    SnapshotNotFoundError,
    SparkUnavailableError,
    TransactionError,
    TypeChangeError,
    WorkerError,
)
from ducklake_spark.format.duckdb_sql import Expression

__version__ = "0.1.0"

__all__ = [
    "AlreadyExistsError",
    "AmbiguousMergeError",
    "CatalogConnectionError",
    "CatalogError",
    "CatalogVersionError",
    "ClosedError",
    "CommitUnknownError",
    "ConflictError",
    "ConstraintError",
    "DependencyError",
    "DuckLakeError",
    "Expression",
    "FileError",
    "InvalidInputError",
    "Lake",
    "MissingDriverError",
    "NotADuckLakeError",
    "NotFoundError",
    "ReadOnlyError",
    "RetryLimitError",
    "SnapshotNotFoundError",
    "SparkUnavailableError",
    "Table",
    "TransactionError",
    "TypeChangeError",
    "WorkerError",
    "__version__",
    "attach",
]
