"""Class files in the user's cache folder: private, whole, and used only if nobody else could have changed them.

A folder holds the classes of one unit as one Spark version compiled it, under a name made of both. A manifest beside
them has a hash of each file; a folder that is another's, that others may write to, or that is not what its manifest
says is not used.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import shutil
import stat
import tempfile
from collections.abc import Mapping
from pathlib import Path

_MANIFEST = "manifest.json"


def cache_folder() -> Path:
    """Where compiled classes are kept: `$XDG_CACHE_HOME/ducklake-spark`, by default below `~/.cache`."""
    given = os.environ.get("XDG_CACHE_HOME", "")
    root = Path(given) if os.path.isabs(given) else Path.home() / ".cache"
    return root / "ducklake-spark"


def find(key: str) -> Path | None:
    """The folder with this key's class files, or None if there is none that can be trusted."""
    try:
        folder = cache_folder() / key
        _require_private(folder.parent)
        _verify(folder)
    except (OSError, RuntimeError, ValueError):
        return None
    return folder


def keep(key: str, classes: Mapping[str, bytes]) -> Path:
    """Writes class files, by their class names, and says where they are.

    If the cache folder cannot be used, that is a folder for this process alone, which goes when the process ends.
    """
    try:
        return _keep_in_cache(key, classes)
    except (OSError, RuntimeError, ValueError):
        folder = Path(tempfile.mkdtemp(prefix="ducklake-spark-"))
        import atexit

        atexit.register(shutil.rmtree, folder, ignore_errors=True)
        _write(folder, classes)
        return folder


def _keep_in_cache(key: str, classes: Mapping[str, bytes]) -> Path:
    root = cache_folder()
    root.mkdir(mode=0o700, parents=True, exist_ok=True)
    _require_private(root)
    made = Path(tempfile.mkdtemp(prefix=".new-", dir=root))
    folder = root / key
    try:
        _write(made, classes)
        with contextlib.suppress(OSError, ValueError):
            _verify(folder)  # another process was faster
            return folder
        # What stands there cannot be used: it is put aside, so that the new folder appears whole or not at all.
        aside = made.with_name(made.name + ".old")
        with contextlib.suppress(FileNotFoundError):
            os.rename(folder, aside)
        os.rename(made, folder)
        if aside.is_symlink():
            aside.unlink()
        shutil.rmtree(aside, ignore_errors=True)
        _verify(folder)
        return folder
    finally:
        shutil.rmtree(made, ignore_errors=True)


def _write(folder: Path, classes: Mapping[str, bytes]) -> None:
    hashes = {}
    for name, code in classes.items():
        *packages, simple = name.split(".")
        place = folder
        for package in packages:  # with `parents=True` only the last of them would be private
            place /= package
            place.mkdir(mode=0o700, exist_ok=True)
        path = place / f"{simple}.class"
        _write_private(path, code)
        hashes[str(path.relative_to(folder))] = hashlib.sha256(code).hexdigest()
    _write_private(folder / _MANIFEST, json.dumps(hashes, sort_keys=True).encode())


def _write_private(path: Path, content: bytes) -> None:
    with open(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
        file.write(content)


def _verify(folder: Path) -> None:
    """Raises unless the folder is ours alone and holds just what its manifest says."""
    _require_private(folder)
    hashes = json.loads((folder / _MANIFEST).read_bytes())
    found = set()
    for place, folders, files in os.walk(folder):
        for name in (*folders, *files):
            _require_private(Path(place, name))
        found |= {str(Path(place, name).relative_to(folder)) for name in files}
    if not isinstance(hashes, dict) or not hashes or found != {*hashes, _MANIFEST}:
        raise ValueError(f"{folder} is not what its manifest says")
    for name, expected in hashes.items():
        if hashlib.sha256((folder / name).read_bytes()).hexdigest() != expected:
            raise ValueError(f"{folder / name} was changed")


def _require_private(path: Path) -> None:
    """Raises for a link, and where somebody else owns or may write it. Windows has no such bits: its profiles do."""
    about = path.lstat()
    if stat.S_ISLNK(about.st_mode):
        raise ValueError(f"{path} is a link")
    if hasattr(os, "getuid") and (about.st_uid != os.getuid() or about.st_mode & 0o077):
        raise ValueError(f"{path} is not private")
