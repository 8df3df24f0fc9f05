"""Predicates of a query, and the files that cannot have a row for which they hold."""
