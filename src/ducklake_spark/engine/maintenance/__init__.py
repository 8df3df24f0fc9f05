"""Maintenance: the jobs that keep a lake small, fast and clean."""
