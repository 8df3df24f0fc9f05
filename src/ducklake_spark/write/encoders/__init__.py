"""How rows become Parquet files by Spark's own writer, and the statistics of files that were written."""
