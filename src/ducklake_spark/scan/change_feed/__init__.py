"""The change data feed: what it reads, and its rows."""
