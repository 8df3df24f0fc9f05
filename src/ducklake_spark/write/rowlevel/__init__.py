"""Changes of single rows: deletes, updates, the matching of a merge, and truncation."""
