"""What is said of a file that Spark could not read: who refused it, or that it must be restored."""

from __future__ import annotations

import pytest

from ducklake_spark.spark.errors import remember_files, unreadable_file

PATH = "s3://bucket/lake/main/t/a.parquet"


@pytest.mark.parametrize(
    ("cause", "said"),
    [
        (
            "java.nio.file.AccessDeniedException: s3a://b/a: open: S3Exception: (Status Code: 403)",
            "store refused it",
        ),
        (
            'AbfsRestOperationException: Operation failed: "Not authorized", 403, GET, https://x',
            "store refused it",
        ),
        ("com.google.GoogleJsonResponseException: 403 Forbidden", "store refused it"),
        ("org.apache.hadoop.security.AccessControlException: Permission denied: user=x", "store refused it"),
        ("AWSServiceThrottledException: open: SlowDown: (Service: S3, Status Code: 503)", "did not answer"),
        ("java.net.SocketTimeoutException: Read timed out", "did not answer"),
        ("java.net.ConnectException: Connection refused", "did not answer"),
        ("java.lang.RuntimeException: a.parquet is not a Parquet file. Expected 403 bytes", "Restore it"),
    ],
)
def test_a_store_that_refuses_is_no_file_that_is_lost(cause: str, said: str) -> None:
    remember_files([PATH], "lake.main.t at snapshot 3")
    error = unreadable_file(
        f"org.apache.spark.SparkException: [FAILED_READ_FILE.NO_HINT] Encountered error while reading file {PATH}. "
        f"SQLSTATE: KD001\n\tat org.apache.spark.Task.run\nCaused by: {cause}\n\tat java.base/Forbidden.run\n"
    )
    assert str(error).startswith(f"A file of lake.main.t at snapshot 3 cannot be read: {PATH}: ")
    assert said in str(error)
    assert ("Restore it" in str(error)) == (said == "Restore it")
