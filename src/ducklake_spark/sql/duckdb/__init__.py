"""DuckDB's dialect on Spark: each construct as a Spark query with DuckDB's answers."""
