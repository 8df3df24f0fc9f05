"""Tables of a lake as sources and sinks of streams."""
