"""Text of users and of views becomes calls. Knows SQL dialects, and nothing of how a lake works."""
