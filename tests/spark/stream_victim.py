"""A process that copies a table by a stream and kills itself, with its JVM, after its second commit."""

from __future__ import annotations

import os
import signal
import sys
from typing import Any

import ducklake_spark
from ducklake_spark.engine.streaming.sink import TableSink
from ducklake_spark.spark.session import start


def main(uri: str, checkpoint: str) -> None:
    spark = start({"spark.master": "local[1]"})
    ducklake_spark.register(spark)
    plain = TableSink.add
    commits = iter(range(10))

    def add(*args: Any) -> bool:
        done = plain(*args)
        if next(commits) == 1:
            os.kill(spark.sparkContext._gateway.proc.pid, signal.SIGKILL)
            os.kill(os.getpid(), signal.SIGKILL)
        return done

    TableSink.add = add  # type: ignore[method-assign,assignment]  # this process is not used for anything else
    reader = spark.readStream.format("ducklake").option("table", "src").option("maxFilesPerTrigger", 1)
    writer = reader.load(uri).writeStream.format("ducklake").option("table", "dst")
    writer.option("checkpointLocation", checkpoint).option("path", uri).start().awaitTermination()


if __name__ == "__main__":
    main(*sys.argv[1:])
