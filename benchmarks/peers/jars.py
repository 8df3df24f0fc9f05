"""The peers' jars, out of Maven Central into a folder that git ignores."""

from __future__ import annotations

import shutil
import subprocess
import tempfile
from dataclasses import dataclass
from pathlib import Path

PLUGIN = "org.apache.maven.plugins:maven-dependency-plugin:3.8.1"


@dataclass(frozen=True)
class Jar:
    """An artifact, whose name has the release of Spark that it is made for."""

    group: str
    artifact: str
    version: str
    with_dependencies: bool


# The newest Spark for which both exist is 4.1; a change here wants one in the Makefile, which installs that PySpark.
SPARK = "4.1"
JARS = {
    "delta": Jar("io.delta", f"delta-spark_{SPARK}_2.13", "4.4.0", with_dependencies=True),
    "iceberg": Jar(
        "org.apache.iceberg", f"iceberg-spark-runtime-{SPARK}_2.13", "1.12.0", with_dependencies=False
    ),
}
# Spark has these, partly in other versions: only what it lacks is added to it.
IN_SPARK = (
    "org.apache.spark,org.scala-lang,org.apache.hadoop,org.apache.parquet,org.apache.logging.log4j,org.slf4j,\
com.fasterxml.jackson.core,com.fasterxml.jackson.datatype,org.roaringbitmap,org.xerial.snappy,com.github.luben,\
commons-logging,com.google.code.findbugs,javax.annotation,io.airlift,commons-pool"
)


class NoJars(Exception):
    """A peer that cannot be had here."""


def fetched(name: str, folder: Path) -> list[Path]:
    """The jars of a peer, fetched where they are missing."""
    jar = JARS[name]
    target = folder.resolve() / f"{name}-{jar.version}-{SPARK}"  # Maven takes others as below its pom.xml
    if not target.exists():
        if not shutil.which("mvn"):
            raise NoJars(f"{name}: mvn is not installed, and {target} is missing")
        target.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=target.parent) as work:
            _fetch(jar, Path(work))
            Path(work, "jars").rename(target)
    return sorted(target.glob("*.jar"))


def _fetch(jar: Jar, work: Path) -> None:
    (work / "pom.xml").write_text(
        '<project xmlns="http://maven.apache.org/POM/4.0.0"><modelVersion>4.0.0</modelVersion>'
        "<groupId>peers</groupId><artifactId>jars</artifactId><version>1</version><packaging>pom</packaging>"
        f"<dependencies><dependency><groupId>{jar.group}</groupId><artifactId>{jar.artifact}</artifactId>"
        f"<version>{jar.version}</version></dependency></dependencies></project>"
    )
    command = ["mvn", "-q", "-B", f"{PLUGIN}:copy-dependencies", "-f", str(work / "pom.xml")]
    command += [
        f"-DoutputDirectory={work / 'jars'}",
        "-DincludeScope=runtime",
        f"-DexcludeGroupIds={IN_SPARK}",
    ]
    command += [] if jar.with_dependencies else ["-DexcludeTransitive=true"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode or not list((work / "jars").glob("*.jar")):
        last = (done.stdout + done.stderr).strip().splitlines()[-1:] or ["nothing was said"]
        raise NoJars(f"{jar.artifact} {jar.version} cannot be fetched from Maven Central: {last[0]}")
