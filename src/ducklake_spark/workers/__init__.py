"""What runs in Spark's Python workers. Its classes and functions travel by value, so workers need not have the package.

A worker needs Python's own library, DuckDB, PyArrow and pandas. So a module here imports nothing of the package but
pure functions of `format/`, and uses those by their names (`from x import f`), as a module does not travel.
"""
