"""A lake as a catalog of Spark's own: what Spark asks of it and wants done becomes calls of the lake."""
