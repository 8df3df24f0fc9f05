"""Java classes of ours in Spark's JVM: compiled at run time, kept, loaded, and answered by Python."""
