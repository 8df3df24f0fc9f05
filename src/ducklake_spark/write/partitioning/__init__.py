"""Partition keys in a write: values, folders, buckets, and whole partitions that are replaced."""
