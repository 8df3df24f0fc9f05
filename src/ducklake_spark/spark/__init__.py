"""Where Spark's JVM and sessions are known: the file index, writers, worker functions, errors and interrupts."""
