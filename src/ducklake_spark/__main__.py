"""`python -m ducklake_spark` is `ducklake-spark`."""

from ducklake_spark.cli import main

main()
