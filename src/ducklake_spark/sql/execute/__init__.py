"""Statements become calls of `Lake` and `Table`, and queries DataFrames."""
