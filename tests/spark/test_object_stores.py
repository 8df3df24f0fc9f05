"""Settings of object stores, from the words of users and of Hadoop to those of the workers' clients. No Spark."""

from __future__ import annotations

import pickle
from typing import Any

import pytest

from ducklake_spark.errors import InvalidInputError
from ducklake_spark.spark.object_stores import _hadoop_settings, _s3_settings, access_by, check_options
from ducklake_spark.workers.object_store import Access, StoreError, job_place, job_suffix

SECRET = "very-secret"


class Hadoop:
    """What is asked of a Hadoop configuration."""

    def __init__(self, known: dict[str, str]) -> None:
        self.known = known

    def getPropsWithPrefix(self, prefix: str) -> dict[str, str]:
        return {
            key.removeprefix(prefix): value for key, value in self.known.items() if key.startswith(prefix)
        }

    def getPassword(self, name: str) -> list[str] | None:
        return list(self.known[name]) if name in self.known else None


def test_a_bucket_has_settings_of_its_own() -> None:
    known = {
        "fs.s3a.access.key": "general",
        "fs.s3a.secret.key": SECRET,
        "fs.s3a.endpoint": "s3.eu-west-1.amazonaws.com",
        "fs.s3a.path.style.access": "false",
        "fs.s3a.bucket.my.bucket.access.key": "own",
        "fs.s3a.bucket.my.bucket.endpoint": "http://minio:9000",
        "fs.s3a.bucket.my.bucket.path.style.access": "true",
        "fs.s3a.bucket.public.aws.credentials.provider": "org.apache.hadoop.fs.s3a.AnonymousAWSCredentialsProvider",
    }
    access = Access(tuple(_s3_settings(Hadoop(known), "my.bucket")))
    general = {"key_id": "general", "secret": SECRET, "url_style": "vhost"}
    assert access.settings("s3://any/x") == general, "the region tells where Amazon is"
    own = {"key_id": "own", "endpoint": "http://minio:9000", "url_style": "path"}
    assert access.settings("s3a://my.bucket/x") == general | own
    assert access.settings("s3://public/x") == general | {"anonymous": "true"}
    assert access.settings("gs://my.bucket/x") == {}


def test_settings_travel_and_do_not_show() -> None:
    access = access_by("s3://b/x", {"secret": SECRET})
    assert pickle.loads(pickle.dumps(access)).settings("s3://b/y") == {"secret": SECRET}
    assert SECRET not in repr(access) + str(access)
    error = pickle.loads(pickle.dumps(StoreError("s3://b/x", "why")))
    assert (error.path, error.reason) == ("s3://b/x", "why")


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"Secret_": SECRET}, 'no setting "Secret_".*Did you mean "secret"'),
        (SECRET, "takes a dict"),
    ],
)
def test_wrong_options_are_named_without_their_values(given: Any, said: str) -> None:
    with pytest.raises(InvalidInputError, match=said) as caught:
        check_options(given, "s3://b/x/")
    assert SECRET not in str(caught.value)


def test_options_are_told_to_hadoop_for_one_bucket() -> None:
    options = check_options(
        {"KEY_ID": "k", "secret": SECRET, "use_ssl": False, "url_style": "path"}, "s3://b/x/"
    )
    assert _hadoop_settings("s3", "s3://b/x/", options) == {
        "fs.s3a.bucket.b.access.key": "k",
        "fs.s3a.bucket.b.secret.key": SECRET,
        "fs.s3a.bucket.b.connection.ssl.enabled": "false",
        "fs.s3a.bucket.b.path.style.access": "true",
        "fs.s3a.bucket.b.aws.credentials.provider": "org.apache.hadoop.fs.s3a.SimpleAWSCredentialsProvider",
    }
    place = "abfss://c@a.dfs.core.windows.net/x"
    assert _hadoop_settings("azure", place, {"account_key": "k"}) == {
        "fs.azure.account.key.a.dfs.core.windows.net": "k"
    }


def test_files_of_a_job_end_like_it() -> None:
    job = job_place("s3://b/main/t/")
    assert (
        job.startswith("s3://b/main/t/job-") and job.endswith(job_suffix(job)) and len(job_suffix(job)) == 12
    )


def test_clients_that_are_missing_are_named(tmp_path: Any) -> None:
    with pytest.raises(StoreError, match="no client for nowhere://; install fsspec"):
        Access().fetch("nowhere://host/x", str(tmp_path / "x"))
