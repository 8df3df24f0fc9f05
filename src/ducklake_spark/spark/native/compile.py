"""Java sources become classes that Spark finds by their names: compiled by the Janino that Spark ships, kept, loaded.

`load(spark, unit)` is all that others need. A `Unit` is a few `.java` files of one package in the folder `java/`.
Janino's Java has no lambdas, no inferred generics, and does not see through bridges of covariant methods.
"""

from __future__ import annotations

import atexit
import hashlib
import shutil
import tempfile
import threading
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ducklake_spark.errors import NativeUnavailableError
from ducklake_spark.spark.native import class_files

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_FOLDER = Path(__file__).parent / "java"
_LOADER = "org.apache.spark.util.MutableURLClassLoader"
_TARGET = 8  # of the class files; older ones cannot call static methods of interfaces


@dataclass(frozen=True)
class Unit:
    """Sources that are compiled together: files of the folder `java/`, all of one package.

    `needs` are units whose classes they use; those are loaded before.
    """

    name: str
    files: tuple[str, ...]
    needs: tuple[Unit, ...] = ()

    def source(self) -> str:
        """The files as one compilation unit, as Janino takes it."""
        texts = [(_FOLDER / file).read_text(encoding="utf-8") for file in self.files]
        lines = [line for text in texts for line in text.splitlines()]
        packages = {line for line in lines if line.startswith("package ")}
        if len(packages) != 1:
            raise ValueError(f"The files of {self.name} are not of one package, but of {sorted(packages)}.")
        imports = dict.fromkeys(line for line in lines if line.startswith("import "))
        rest = [line for line in lines if not line.startswith(("package ", "import "))]
        return "\n".join([*packages, *imports, *rest]) + "\n"

    def digest(self) -> str:
        """What the class files depend on, but for Spark's version."""
        texts = [self.source(), f"target {_TARGET}", *(unit.digest() for unit in self.needs)]
        return hashlib.sha256("\0".join(texts).encode()).hexdigest()


class Loaded:
    """The classes of a unit in a JVM."""

    def __init__(self, gateway: Any, loader: Any, folder: Path) -> None:
        self._gateway, self._loader, self._folder = gateway, loader, folder

    def send(self, spark: SparkSession) -> bool:
        """Lets the executors of a cluster have the classes, of which tasks may need some; whether they have them."""
        from py4j.protocol import Py4JError

        context: Any = spark.sparkContext._jsc.sc()
        if context.isLocal():
            return True
        folder = Path(tempfile.mkdtemp(prefix="ducklake-spark-"))
        atexit.register(shutil.rmtree, folder, ignore_errors=True)
        jar = shutil.make_archive(str(folder / f"ducklake-{self._folder.name}"), "zip", self._folder)
        try:
            context.addJar(shutil.move(jar, jar.removesuffix(".zip") + ".jar"))
        except Py4JError:  # some services let nobody add jars
            return False
        return True

    def new(self, name: str) -> Any:
        """An object of a public class (with its package) that has a constructor without arguments."""
        nothing = self._gateway.new_array(self._gateway.jvm.java.lang.Class, 0)
        none = self._gateway.new_array(self._gateway.jvm.java.lang.Object, 0)
        return self._loader.loadClass(name).getConstructor(nothing).newInstance(none)


_loaded: dict[tuple[int, str], tuple[Any, Loaded | NativeUnavailableError]] = {}
_lock = threading.RLock()


def load(spark: SparkSession, unit: Unit) -> Loaded:
    """The unit's classes in the session's JVM, compiled or taken from the cache once per JVM.

    Raises:
        NativeUnavailableError: Nothing can be compiled or loaded there; the same reason again each time.
    """
    if not hasattr(spark, "_jsparkSession"):
        raise NativeUnavailableError(
            "A Spark Connect session has no JVM here in which classes of a lake could be loaded."
        )
    gateway: Any = spark.sparkContext._gateway
    with _lock:
        known = _loaded.get((id(gateway), unit.name))
        if known is None or known[0] is not gateway:
            for needed in unit.needs:
                load(spark, needed)
            known = _loaded[id(gateway), unit.name] = (gateway, _load_or_reason(spark, gateway, unit))
    if isinstance(known[1], NativeUnavailableError):
        raise known[1]
    return known[1]


def _load_or_reason(spark: SparkSession, gateway: Any, unit: Unit) -> Loaded | NativeUnavailableError:
    from py4j.protocol import Py4JError

    try:
        return _load(spark, gateway, unit)
    except NativeUnavailableError as error:
        return error
    except (Py4JError, OSError) as error:
        java = getattr(error, "java_exception", None)
        said = str(error if java is None else java.toString()).splitlines()[0]
        return NativeUnavailableError(
            f"The Java classes of the {unit.name} cannot be loaded on Spark {spark.version}: {said}"
        )


def _load(spark: SparkSession, gateway: Any, unit: Unit) -> Loaded:
    loader = _class_loader(gateway.jvm)
    key = f"spark-{spark.version}-{unit.name}-{unit.digest()[:40]}"
    folder = class_files.find(key)
    if folder is None:
        folder = class_files.keep(key, _compile(gateway.jvm, loader, unit))
    loader.addURL(gateway.jvm.java.io.File(str(folder)).toURI().toURL())
    return Loaded(gateway, loader, folder)


def _class_loader(jvm: Any) -> Any:
    """The outermost class loader of Spark's that takes more places to look in: those of sessions look there too."""
    kind = jvm.java.lang.Class.forName(_LOADER)
    found, loader = None, jvm.java.lang.Thread.currentThread().getContextClassLoader()
    first = loader
    while loader is not None:
        found = loader if kind.isInstance(loader) else found
        loader = loader.getParent()
    if found is None:
        name = "none" if first is None else first.getClass().getName()
        raise NativeUnavailableError(
            f"This JVM's class loader ({name}) takes no classes at run time; a JVM that PySpark or spark-submit "
            "starts does."
        )
    return found


def _compile(jvm: Any, loader: Any, unit: Unit) -> dict[str, bytes]:
    compiler = jvm.org.codehaus.janino.SimpleCompiler()
    compiler.setParentClassLoader(loader)
    compiler.setTargetVersion(_TARGET)
    compiler.setDebuggingInformation(True, True, False)
    compiler.cook(unit.source())
    return {str(name): bytes(code) for name, code in compiler.getBytecodes().items()}
