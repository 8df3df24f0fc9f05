"""What the session's Hadoop knows of object stores: whether it can reach one, and with which settings.

Spark reads and lists with these settings. Workers, which have no Hadoop, get what they need of them as an `Access`.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from ducklake_spark.errors import FileError, InvalidInputError, did_you_mean
from ducklake_spark.workers.object_store import Access, bucket_of, family_of

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

OPTIONS = {
    "s3": (
        *("key_id", "secret", "session_token", "region", "endpoint", "url_style", "use_ssl"),
        *("role_arn", "anonymous"),
    ),
    "gs": ("endpoint", "anonymous"),
    "azure": (
        *("account_name", "account_key", "sas_token", "tenant_id", "client_id", "client_secret"),
        "endpoint",
    ),
}
"""Names of settings by kind of store; as in DuckDB's secrets, where that has them."""

_S3 = {
    "access.key": "key_id",
    "secret.key": "secret",
    "session.token": "session_token",
    "endpoint.region": "region",
    "endpoint": "endpoint",
    "assumed.role.arn": "role_arn",
}
_SECRETS = ("access.key", "secret.key", "session.token")
_STYLE, _SSL, _PROVIDER = "path.style.access", "connection.ssl.enabled", "aws.credentials.provider"
_S3A = "org.apache.hadoop.fs.s3a.S3AFileSystem"
_AZURE_KEY, _AZURE_SAS = "fs.azure.account.key", "fs.azure.sas.fixed.token"
_AZURE_TYPE, _AZURE_OAUTH = "fs.azure.account.auth.type", "fs.azure.account.oauth2.client"
_AZURE_ENDPOINT, _AZURE_HTTPS = "fs.azure.abfs.endpoint", "fs.azure.always.use.https"
_HDFS = (
    *("fs.defaultFS", "dfs.nameservices", "dfs.ha.", "dfs.namenode.rpc-address", "dfs.client.failover."),
    *("dfs.client.use.datanode.hostname", "fs.viewfs.mounttable."),
)
"""How the settings begin that tell where the name nodes of HDFS are."""
_CLIENT_CREDENTIALS = "org.apache.hadoop.fs.azurebfs.oauth2.ClientCredsTokenProvider"
_ARTIFACTS = {
    "s3": "org.apache.hadoop:hadoop-aws:{hadoop}",
    "gs": "com.google.cloud.bigdataoss:gcs-connector (the shaded jar)",
    "azure": "org.apache.hadoop:hadoop-azure:{hadoop}",
}


def check_options(given: Any, data_path: str | None) -> dict[str, str]:
    """Settings that a user gave for the store of the data path. Values may be secrets: no error shows them.

    Raises:
        InvalidInputError: They are no settings of that store.
    """
    if given is None:
        return {}
    if not isinstance(given, Mapping):
        raise InvalidInputError(
            f"storage_options takes a dict of names and values, not a {type(given).__name__}."
        )
    known = OPTIONS.get(family_of(data_path or ""))
    if known is None:
        return {str(key): str(value) for key, value in given.items()}
    for key in given:
        if str(key).lower() not in known:
            raise InvalidInputError(
                f'storage_options has no setting "{key}" for {data_path}.{did_you_mean(str(key), known)} It has '
                f"{', '.join(known)}."
            )
    return {
        str(key).lower(): str(value).lower() if isinstance(value, bool) else str(value)
        for key, value in given.items()
    }


def prepare(spark: SparkSession, path: str, options: Mapping[str, str] | None = None) -> None:
    """Lets the session's Hadoop reach the store of a path.

    Where it has a file system for `s3a://` only, that one is used for `s3://` as well, which is how DuckDB writes it.

    Raises:
        FileError: It has no file system for such paths.
    """
    family = family_of(path)
    if not hasattr(spark, "_jsparkSession"):
        return  # the server has its own settings
    jvm: Any = spark.sparkContext._jvm
    hadoop: Any = spark.sparkContext._jsc.hadoopConfiguration()
    scheme = path.partition("://")[0].lower()
    if scheme in ("http", "https"):
        raise FileError(
            f"Spark cannot read data files at {scheme}://{bucket_of(path)}: the web has no files that can be read in "
            "parts by it. Give the folder or bucket that they are in as data_path, with override_data_path=True."
        )
    known = spark._jsparkSession.sessionState().newHadoopConf()
    if family == "s3" and scheme != "s3a" and not _has_system(jvm, known, scheme):
        _require_system(jvm, known, "s3a", family, path)
        hadoop.set(f"fs.{scheme}.impl", known.get("fs.s3a.impl") or _S3A)
    else:
        _require_system(jvm, known, scheme, family, path)
    for key, value in _hadoop_settings(family, path, options or {}).items():
        hadoop.set(key, value)


def access(spark: SparkSession, path: str, options: Mapping[str, str] | None = None) -> Access:
    """What workers need to reach the store of a path, and others that Hadoop knows: its settings, then those given."""
    stores: list[tuple[str, str, tuple[tuple[str, str], ...]]] = []
    if hasattr(spark, "_jsparkSession"):
        hadoop = spark._jsparkSession.sessionState().newHadoopConf()
        family = family_of(path)
        if family == "azure":
            stores.append(("azure", "", _pairs(_azure_settings(hadoop, path))))
        elif family == "hdfs":
            stores.append(("hdfs", "", _pairs(_hdfs_settings(hadoop))))
        stores += _s3_settings(hadoop, bucket_of(path) if family == "s3" else "")
    if options:
        stores.append((family_of(path), bucket_of(path), _pairs(options)))
    return Access(tuple(stores))


def access_by(path: str, options: Mapping[str, str]) -> Access:
    """The same without a session: by settings that were given, and the environment."""
    return Access(((family_of(path), bucket_of(path), _pairs(options)),))


def _pairs(settings: Mapping[str, str]) -> tuple[tuple[str, str], ...]:
    return tuple(sorted(settings.items()))


def _has_system(jvm: Any, hadoop: Any, scheme: str) -> bool:
    from py4j.protocol import Py4JJavaError

    try:
        jvm.org.apache.hadoop.fs.FileSystem.getFileSystemClass(scheme, hadoop)
    except Py4JJavaError:
        return False
    return True


def _require_system(jvm: Any, hadoop: Any, scheme: str, family: str, path: str) -> None:
    if _has_system(jvm, hadoop, scheme):
        return
    version = str(jvm.org.apache.hadoop.util.VersionInfo.getVersion())
    artifact = _ARTIFACTS.get(family, "").format(hadoop=version)
    what = (
        f"Start Spark with spark.jars.packages={artifact}"
        if artifact
        else "Start Spark with a jar that has one"
    )
    raise FileError(
        f"{scheme}://{bucket_of(path)} cannot be reached: this Spark has no file system for {scheme}://. {what}; "
        "see docs/storage.md."
    )


def _s3_settings(hadoop: Any, bucket: str) -> list[tuple[str, str, tuple[tuple[str, str], ...]]]:
    """General settings, and those of buckets that have some of their own."""
    general = {key.removeprefix("fs.s3a."): value for key, value in _properties(hadoop, "fs.s3a.").items()}
    for key in _SECRETS:
        general[key] = _secret(hadoop, f"fs.s3a.{key}") or ""
    found = [("s3", "", _pairs(_s3_names(general)))]
    names = (*_S3, _STYLE, _SSL, _PROVIDER)
    buckets: dict[str, dict[str, str]] = {}
    for key, value in _properties(hadoop, "fs.s3a.bucket.").items():
        for name in names:
            # `endpoint` ends `b.endpoint` as well as `b.other.endpoint`, but no setting has such a name.
            if key.endswith(f".{name}"):
                buckets.setdefault(key.removesuffix(f".{name}"), {})[name] = value
    if bucket:
        for key in _SECRETS:
            own = _secret(hadoop, f"fs.s3a.bucket.{bucket}.{key}")
            if own:
                buckets.setdefault(bucket, {})[key] = own
    return found + [("s3", name, _pairs(_s3_names(known))) for name, known in buckets.items()]


def _s3_names(known: Mapping[str, str]) -> dict[str, str]:
    found = {ours: known[theirs] for theirs, ours in _S3.items() if known.get(theirs)}
    if "endpoint" in found and found["endpoint"].endswith("amazonaws.com"):
        del found["endpoint"]  # Amazon's own: the region tells it
    if known.get(_STYLE):
        found["url_style"] = "path" if known[_STYLE] == "true" else "vhost"
    if known.get(_SSL):
        found["use_ssl"] = known[_SSL]
    if "AnonymousAWSCredentialsProvider" in known.get(_PROVIDER, ""):
        found["anonymous"] = "true"
    if found.get("role_arn") and "AssumedRole" not in known.get(_PROVIDER, ""):
        del found["role_arn"]
    return found


def _azure_settings(hadoop: Any, path: str) -> dict[str, str]:
    server = bucket_of(path).rpartition("@")[2]

    def known(name: str) -> str | None:
        return _secret(hadoop, f"{name}.{server}") or _secret(hadoop, name)

    found: dict[str, str | None] = {"account_key": known(_AZURE_KEY), "sas_token": known(_AZURE_SAS)}
    if (known(_AZURE_TYPE) or "").lower() == "oauth":
        tenant = re.match(r"https://[^/]+/([^/]+)/", known(f"{_AZURE_OAUTH}.endpoint") or "")
        names = {"client_id": f"{_AZURE_OAUTH}.id", "client_secret": f"{_AZURE_OAUTH}.secret"}
        found = {ours: known(theirs) for ours, theirs in names.items()}
        found["tenant_id"] = tenant[1] if tenant is not None else None
        if not all(found.values()):
            found = {"client_id": found["client_id"]}  # an identity of the machine, by its name
    endpoint = known(_AZURE_ENDPOINT)
    if endpoint:
        secure = path.lower().startswith("abfss:") or (known(_AZURE_HTTPS) or "true") == "true"
        found["endpoint"] = f"{'https' if secure else 'http'}://{endpoint}"
    return {key: value for key, value in found.items() if value}


def _hdfs_settings(hadoop: Any) -> dict[str, str]:
    return {
        prefix + key: value for prefix in _HDFS for key, value in _properties(hadoop, prefix).items() if value
    }


def _properties(hadoop: Any, prefix: str) -> dict[str, str]:
    return {str(key): str(value) for key, value in dict(hadoop.getPropsWithPrefix(prefix)).items()}


def _secret(hadoop: Any, name: str) -> str | None:
    """A setting that may be kept by a credential provider of Hadoop."""
    found = hadoop.getPassword(name)
    return None if found is None else "".join(str(letter) for letter in found)


def _hadoop_settings(family: str, path: str, options: Mapping[str, str]) -> dict[str, str]:
    """What Hadoop calls settings, for one bucket or account only."""
    bucket, found = bucket_of(path), dict[str, str]()
    if family == "s3":
        prefix = f"fs.s3a.bucket.{bucket}."
        names = {ours: theirs for theirs, ours in _S3.items()}
        found = {prefix + names[key]: value for key, value in options.items() if key in names}
        if "url_style" in options:
            found[prefix + _STYLE] = "false" if options["url_style"] == "vhost" else "true"
        if "use_ssl" in options:
            found[prefix + _SSL] = options["use_ssl"]
        if options.get("anonymous") == "true":
            found[prefix + _PROVIDER] = "org.apache.hadoop.fs.s3a.AnonymousAWSCredentialsProvider"
        elif "role_arn" in options:
            found[prefix + _PROVIDER] = "org.apache.hadoop.fs.s3a.auth.AssumedRoleCredentialProvider"
        elif "key_id" in options:
            simple = "SimpleAWSCredentialsProvider" if "session_token" not in options else ""
            simple = simple or "TemporaryAWSCredentialsProvider"
            found[prefix + _PROVIDER] = f"org.apache.hadoop.fs.s3a.{simple}"
    elif family == "azure":
        found = _azure_names(bucket.rpartition("@")[2], options)
    elif family == "hdfs":
        found = dict(options)  # Hadoop's own names
    return found


def _azure_names(server: str, options: Mapping[str, str]) -> dict[str, str]:
    found: dict[str, str] = {}
    if "account_key" in options:
        found[f"{_AZURE_KEY}.{server}"] = options["account_key"]
    elif "sas_token" in options:
        found[f"{_AZURE_TYPE}.{server}"] = "SAS"
        found[f"{_AZURE_SAS}.{server}"] = options["sas_token"]
    elif all(key in options for key in ("tenant_id", "client_id", "client_secret")):
        found[f"{_AZURE_TYPE}.{server}"] = "OAuth"
        found[f"fs.azure.account.oauth.provider.type.{server}"] = _CLIENT_CREDENTIALS
        found[f"{_AZURE_OAUTH}.id.{server}"] = options["client_id"]
        found[f"{_AZURE_OAUTH}.secret.{server}"] = options["client_secret"]
        login = f"https://login.microsoftonline.com/{options['tenant_id']}/oauth2/token"
        found[f"{_AZURE_OAUTH}.endpoint.{server}"] = login
    host = options.get("endpoint", "").rpartition("://")[2]
    if ":" in host:  # what Hadoop takes as one: an address with a port
        found[f"{_AZURE_ENDPOINT}.{server}"] = host
    return found
