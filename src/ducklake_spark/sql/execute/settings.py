"""Settings of the extension: where a handle keeps each, and what it is when nobody set it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ducklake_spark.engine.scope import scope_of
from ducklake_spark.format.types import fold

if TYPE_CHECKING:
    from ducklake_spark.api.lake import Lake

RETRY: dict[str, tuple[str, type, Any]] = {
    "ducklake_max_retry_count": ("max_retry_count", int, 10),
    "ducklake_retry_wait_ms": ("retry_wait_ms", float, 100.0),
    "ducklake_retry_backoff": ("retry_backoff", float, 1.5),
}
"""How commits are tried again: the attribute of the policy, its type and its value at first."""
OPTIONS = {
    "ducklake_default_data_inlining_row_limit": "data_inlining_row_limit",
    "ducklake_target_file_size": "target_file_size",
    "ducklake_write_deletion_vectors": "write_deletion_vectors",
}
"""Options of a lake, as the handle has them."""


def setting_of(lake: Lake, name: str) -> Any:
    """The value of a setting of the extension; None when it is not set, or not one of these."""
    config = scope_of(lake).config
    if fold(name) in RETRY:
        return getattr(config.policy, RETRY[fold(name)][0])
    return config.attached_options.get(OPTIONS[fold(name)]) if fold(name) in OPTIONS else None


def setting_text(lake: Lake, name: str) -> str | None:
    """The value of a setting as `duckdb_settings()` shows it."""
    value = setting_of(lake, name)
    if value is None:
        return {
            "ducklake_default_data_inlining_row_limit": "10",
            "ducklake_write_deletion_vectors": "false",
        }.get(name)
    return f"{value:g}" if isinstance(value, float) and name != "ducklake_retry_backoff" else str(value)
