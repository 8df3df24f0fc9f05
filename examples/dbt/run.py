"""Runs dbt with a Spark session that knows the lake: python run.py build"""

import os
import sys

from dbt.cli.main import dbtRunner
from pyspark.sql import SparkSession

import ducklake_spark

os.chdir(os.path.dirname(os.path.abspath(__file__)))
builder = SparkSession.builder.master("local[*]").config("spark.ui.enabled", "false")
lake = os.environ.get("LAKE", "ducklake:shop.ducklake")
# dbt-spark names tables by schema and name: the lake is the catalog in which they are looked up.
builder = ducklake_spark.configure(builder.config("spark.sql.defaultCatalog", "shop"), shop=lake)
spark = builder.getOrCreate()
spark.sparkContext.setLogLevel("ERROR")
result = dbtRunner().invoke(sys.argv[1:])
spark.stop()
sys.exit(not result.success)
