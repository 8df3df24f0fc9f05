"""Text becomes statements: our grammar on top of sqlglot's dialects, and statements as values."""
