"""The same work on plain Parquet, Delta Lake, Apache Iceberg, DuckDB's extension and ours: `make bench-peers`."""
