"""What names, clauses and calls in a query mean, and how the user's text is edited for it."""
