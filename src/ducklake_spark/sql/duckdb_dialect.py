"""DuckDB's trees -> Spark's, with DuckDB's answers."""

from __future__ import annotations

from sqlglot import exp


def translate(tree: exp.Expr) -> exp.Expr:
    """A tree that Spark's generator prints as SQL with DuckDB's meaning."""
    return tree.transform(_plain_function)


def _plain_function(node: exp.Expr) -> exp.Expr:
    """Functions as people write them: DuckDB prints some with their schema, and `count(*)` as `count_star()`."""
    if isinstance(node, exp.Dot) and node.this.name in ("main", "pg_catalog"):
        called = node.expression
        if isinstance(called, exp.Func) and isinstance(called, exp.Expr):
            return _plain_function(called)
    if isinstance(node, exp.EQ) and isinstance(node.expression, exp.Any):
        query = node.expression.this
        if isinstance(query, exp.Query):
            return exp.In(
                this=node.this, query=query if isinstance(query, exp.Subquery) else exp.Subquery(this=query)
            )
    if isinstance(node, exp.Anonymous):
        name = node.name.lower()
        if name == "count_star":
            return exp.Count(this=exp.Star())
        if name == "list_value":
            return exp.Array(expressions=node.expressions)
    return node
