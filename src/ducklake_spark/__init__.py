"""The DuckLake 1.0 lakehouse format on Apache Spark, in the same lake and at the same time as DuckDB."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from ducklake_spark.api.attach import attach
from ducklake_spark.api.attach import attached_lakes as lakes
from ducklake_spark.api.configure import configure
from ducklake_spark.api.lake import Lake
from ducklake_spark.api.row_sources import RowSource
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
    NativeUnavailableError,
    NotADuckLakeError,
    NotFoundError,
    ReadOnlyError,
    RetryLimitError,
    SchemaChangedError,
    SnapshotNotFoundError,
    SparkUnavailableError,
    StreamingError,
    TransactionError,
    TypeChangeError,
    UnsafePathError,
    WorkerError,
)
from ducklake_spark.format.duckdb_sql import Expression
from ducklake_spark.format.objects import TableDef, ViewDef

if TYPE_CHECKING:
    from ducklake_spark.api.data_source import register
    from ducklake_spark.api.merge import (
        MatchedBySourceClause,
        MatchedClause,
        MergeBuilder,
        NotMatchedClause,
    )
    from ducklake_spark.api.plots import LakePlots, TablePlots
    from ducklake_spark.engine.merge import MergeResult
    from ducklake_spark.explorer.server import Explorer

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
    "Explorer",
    "Expression",
    "FileError",
    "InvalidInputError",
    "Lake",
    "LakePlots",
    "MatchedBySourceClause",
    "MatchedClause",
    "MergeBuilder",
    "MergeResult",
    "MissingDriverError",
    "NativeUnavailableError",
    "NotADuckLakeError",
    "NotFoundError",
    "NotMatchedClause",
    "ReadOnlyError",
    "RetryLimitError",
    "RowSource",
    "SchemaChangedError",
    "SnapshotNotFoundError",
    "SparkUnavailableError",
    "StreamingError",
    "Table",
    "TableDef",
    "TablePlots",
    "TransactionError",
    "TypeChangeError",
    "UnsafePathError",
    "ViewDef",
    "WorkerError",
    "__version__",
    "attach",
    "configure",
    "lakes",
    "register",
]

_LATE = {
    "Explorer": "explorer.server",
    "LakePlots": "api.plots",
    "MatchedBySourceClause": "api.merge",
    "MatchedClause": "api.merge",
    "MergeBuilder": "api.merge",
    "MergeResult": "api.merge",
    "NotMatchedClause": "api.merge",
    "TablePlots": "api.plots",
    "register": "api.data_source",
}
"""Where names are that need PySpark, which takes a second to import and is not needed to attach a lake, and others."""


def __getattr__(name: str) -> Any:
    """Names that are imported when they are asked for."""
    if name in _LATE:
        return getattr(import_module(f"ducklake_spark.{_LATE[name]}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
