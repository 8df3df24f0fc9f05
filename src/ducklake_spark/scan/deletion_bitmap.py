"""Deleted rows as bits, which a scan asks without a join.

A join with deleted positions costs a stage of its own, a broadcast, and a look-up in a hash table for each row. Where
the deleted rows are few enough to be read by the driver, which a broadcast does as well, this is several times cheaper.

Where Spark's reader can leave out rows itself, each file comes with bits of its own (`DeletedRows`). Elsewhere a filter
asks one array of numbers (`DeletedBits`). It begins with one number for each id from the lowest file's to the highest
file's: where the bits of that file begin, in its upper half, and how many numbers they take, in its lower half. The
bits follow.
"""

from __future__ import annotations

import functools
import hashlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from io import BytesIO
from typing import TYPE_CHECKING, Any

from pyspark.sql import Column
from pyspark.sql import functions as F

from ducklake_spark.catalog.store import Store
from ducklake_spark.errors import FileError
from ducklake_spark.format.deletion_vector import is_container, vector_positions
from ducklake_spark.scan.planning.listing import DeletesOfFile, ScanFile, delete_files
from ducklake_spark.scan.planning.plan import DeleteSources, ScanPlan
from ducklake_spark.scan.projection.column import SNAPSHOT_ID_NAME
from ducklake_spark.spark.file_checks import require_whole
from ducklake_spark.spark.file_index import IndexedFile
from ducklake_spark.storage import local_path
from ducklake_spark.workers.deletes import positions_at

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

    Positions = npt.NDArray[np.int64]

_MAX_FILES = 100
_MAX_FILES_APART = 1000
"""Where each file has its own, which is read once."""
_MAX_POSITIONS = 2_000_000
_MAX_ROWS = 1 << 27
"""Rows of all files with deletes: their bits take 16 MB."""
_MAX_IDS = 1 << 20
_AT_ONCE = 8
_WORD = 6
"""A number has two to this power bits."""


@dataclass(frozen=True)
class DeletedBits:
    """The deleted rows of files with ids in a range.

    Args:
        store: The catalog.
        plan: The table at its snapshot.
        read: Reads a small file, whole.
        ids: The lowest and the highest id.
        pairs: Deleted rows that are known already: the file's id and the position.
    """

    store: Store
    plan: ScanPlan
    read: Callable[[str], bytes]
    ids: tuple[int, int]
    pairs: tuple[tuple[int, int], ...] = ()

    @property
    def title(self) -> str:
        return f"deletes of {self.plan.title}"

    @property
    def token(self) -> str:
        plan = self.plan
        where = f"deleted {self.store.display} {self.store.metadata_schema} {plan.lake.data_path}"
        at = f"{plan.table.table_id} {plan.snapshot.snapshot_id} {plan.newest_snapshot}"
        return f"{where} {at} {self.ids} {hash(self.pairs)}"

    def numbers(self) -> bytes:
        """The array, big end first. Lists the delete files, and reads them."""
        import numpy as np

        found: dict[int, list[Positions]] = {}
        for file_id, positions in (*self._from_files(), *_by_file(self.pairs)):
            if self.ids[0] <= file_id <= self.ids[1] and len(positions):
                found.setdefault(file_id, []).append(positions)
        return packed({file_id: np.concatenate(parts) for file_id, parts in found.items()}, self.ids)

    def kept(self, bits: Column, file_id: Column, position: Column) -> Column:
        """Whether a row is not deleted."""
        return is_unset(bits, file_id - F.lit(self.ids[0]).cast("long"), position)

    def _from_files(self) -> Iterable[tuple[int, Positions]]:
        # Of both kinds, whatever there was when the scan was planned: a later delete may have made one of the other.
        reader = DeleteFileReader(self.plan, self.read)
        for kind in ("parquet", "puffin"):
            listed = delete_files(self.store, self.plan, kind)
            files = [file for file in listed if self.ids[0] <= file.data_file_id <= self.ids[1]]
            reader.require_whole(files, kind)
            with ThreadPoolExecutor(_AT_ONCE) as pool:
                found = pool.map(lambda file, kind=kind: reader.positions(file, kind)[0], files)
                yield from zip((file.data_file_id for file in files), found, strict=True)


@dataclass(frozen=True)
class DeletedRows:
    """The deleted rows of each file by itself.

    Args:
        plan: The table at its snapshot.
        read: Reads a small file, whole.
        pending: Positions that a transaction deleted, by the file's id.
    """

    plan: ScanPlan
    read: Callable[[str], bytes]
    pending: Mapping[int, tuple[int, ...]]
    _known: dict[str, DeletesOfFile] = field(default_factory=dict, compare=False)
    """What names stand for."""

    @property
    def token(self) -> str:
        """Two with the same token are of the same rows, of one table at one snapshot."""
        return _digest(sorted(self.pending.items())) if self.pending else ""

    def names(self, files: Sequence[ScanFile], deletes: Mapping[int, DeletesOfFile]) -> dict[int, str]:
        """A name for what is deleted in each file that has deletes, by the file's id.

        Raises:
            FileError: A delete file is not what the catalog says.
        """
        found: dict[int, str] = {}
        listed: list[ScanFile] = []
        at = self.plan.snapshot.snapshot_id
        for file in files:
            known, own = deletes.get(file.data_file_id), self.pending.get(file.data_file_id, ())
            if known is None and not own:
                continue
            known = known or DeletesOfFile()
            positions = (*known.positions, *own)
            parts = [each.path if newest is None else f"{each.path} {at}" for each, _, newest in known.files]
            name = "\n".join((*parts, _digest(positions) if positions else ""))
            self._known[name] = replace(known, positions=positions)
            listed += [each for each, kind, _ in known.files if kind == "parquet"]
            found[file.data_file_id] = name
        DeleteFileReader(self.plan, self.read).require_whole(listed, "parquet")
        return found

    def bits(self, names: Sequence[str]) -> bytes:
        """What names stand for, as `DeletingSource.deleted` says."""
        reader = DeleteFileReader(self.plan, self.read)
        with ThreadPoolExecutor(_AT_ONCE) as pool:
            return b"".join(pool.map(functools.partial(self._bits, reader), names))

    def _bits(self, reader: DeleteFileReader, name: str) -> bytes:
        import numpy as np

        known = self._known[name]
        parts, is_lasting = [np.array(known.positions, np.int64)], True
        for file, kind, newest in known.files:
            positions, is_stamped = reader.positions(file, kind)
            parts.append(positions)
            # A file that has stamps, though the catalog does not say so, is another one at each snapshot.
            is_lasting = is_lasting and (newest is not None or not is_stamped)
        words = _words(np.concatenate(parts))
        length = len(words) if is_lasting else -1 - len(words)
        return np.array([length], ">i8").tobytes() + words.astype(">i8").tobytes()


@dataclass(frozen=True)
class DeleteFileReader:
    """Reads delete files of a table at a snapshot."""

    plan: ScanPlan
    read: Callable[[str], bytes]

    @property
    def title(self) -> str:
        """The files as messages name them."""
        return f"deletes of {self.plan.title}"

    def require_whole(self, files: Sequence[ScanFile], kind: str) -> None:
        """Raises for a file that is not what the catalog says."""
        if kind == "parquet":
            require_whole([IndexedFile(file.path, file.size) for file in files], self.title)

    def positions(self, file: ScanFile, kind: str) -> tuple[Positions, bool]:
        """The positions that are deleted at the snapshot, and whether there may be others at other ones.

        Raises:
            FileError: It cannot be read.
        """
        return self._from_parquet(file) if kind == "parquet" else self._from_vector(file)

    def _from_parquet(self, file: ScanFile) -> tuple[Positions, bool]:
        import numpy as np
        import pyarrow
        import pyarrow.parquet

        local = local_path(file.path)
        if file.key is not None and local is not None:
            try:
                found = positions_at(local, file.key, self.plan.snapshot.snapshot_id)
            except RuntimeError:
                raise self._unreadable(file, "its key in the catalog does not decrypt it") from None
            return self._possible(found, file.path), True
        try:
            content = pyarrow.parquet.ParquetFile(BytesIO(self._content(file)))
            # Iceberg's third column is called otherwise.
            names = [name for name in ("pos", SNAPSHOT_ID_NAME) if name in content.schema_arrow.names]
            rows = content.read(names, use_threads=False)
            positions: Positions = rows["pos"].to_numpy().astype(np.int64)
            if SNAPSHOT_ID_NAME in names:
                stamps = rows[SNAPSHOT_ID_NAME].fill_null(0).to_numpy()
                positions = positions[stamps <= self.plan.snapshot.snapshot_id]
        except (pyarrow.ArrowException, KeyError) as error:
            raise self._unreadable(file, error) from error
        return self._possible(positions, file.path), SNAPSHOT_ID_NAME in names

    def _from_vector(self, file: ScanFile) -> tuple[Positions, bool]:
        at = self.plan.snapshot.snapshot_id
        content = self._content(file)
        positions = vector_positions(content, f"{file.path} of {self.plan.title}", at)
        return self._possible(positions, file.path), is_container(content)

    def _content(self, file: ScanFile) -> bytes:
        try:
            return self.read(file.path)
        except OSError as error:
            raise self._unreadable(file, error) from error

    def _unreadable(self, file: ScanFile, error: Exception | str) -> FileError:
        return FileError(f"A delete file of {self.plan.title} cannot be read: {file.path}: {error}.")

    def _possible(self, positions: Positions, path: str) -> Positions:
        if len(positions) and not 0 <= int(positions.min()) <= int(positions.max()) < 2 * _MAX_ROWS:
            wrong = next(int(p) for p in positions if not 0 <= p < 2 * _MAX_ROWS)
            raise FileError(
                f"A delete file of {self.plan.title} is damaged: {path} names row {wrong}. Restore it."
            )
        return positions


def few_enough(deletes: DeleteSources, others: int, ids: tuple[int, int], records: int) -> bool:
    """Whether deleted rows are few enough for the driver to read them, and for every task to have them.

    Args:
        deletes: The table's deletes.
        others: How many deleted rows are known already.
        ids: The lowest and the highest id of the files to be read.
        records: How many rows those have.
    """
    return (
        sum(deletes.formats.values()) <= _MAX_FILES
        and deletes.positions + others <= _MAX_POSITIONS
        and records <= _MAX_ROWS
        and ids[1] - ids[0] < _MAX_IDS
    )


def is_unset(bits: Column, file: Column, position: Column) -> Column:
    """Whether the bit of a row is 0, of the file with this number from 0 on."""
    entry = F.get(bits, file)
    word = F.shiftright(position, _WORD)
    number = F.get(bits, F.shiftright(entry, 32) + word)
    bit = F.call_function("getbit", number, position.bitwiseAND((1 << _WORD) - 1).cast("int"))
    return (word >= entry.bitwiseAND(F.lit(0xFFFFFFFF))) | (bit == 0)


def few_enough_apart(deletes: DeleteSources, others: int, records: int) -> bool:
    """The same where each file has bits of its own."""
    return (
        sum(deletes.formats.values()) <= _MAX_FILES_APART
        and deletes.positions + others <= _MAX_POSITIONS
        and records <= _MAX_ROWS
    )


def packed(positions: dict[int, Positions], ids: tuple[int, int]) -> bytes:
    """The array of numbers for positions by file, big end first.

    >>> import numpy as np
    >>> array = np.frombuffer(packed({7: np.array([0, 65, 64])}, (6, 7)), ">i8")
    >>> [int(number) for number in array[:1]], divmod(int(array[1]), 1 << 32), [int(n) for n in array[2:]]
    ([0], (2, 2), [1, 3])
    """
    import numpy as np

    count = ids[1] - ids[0] + 1
    entries = np.zeros(count, np.int64)
    parts: list[Any] = [entries]
    start = count
    for file_id, rows in positions.items():
        words = _words(rows)
        parts.append(words)
        entries[file_id - ids[0]] = start << 32 | len(words)
        start += len(words)
    return b"".join(part.astype(">i8").tobytes() for part in parts)


def _words(positions: Positions) -> Positions:
    """Numbers whose bits stand for positions."""
    import numpy as np

    if not len(positions):
        return np.zeros(0, np.int64)
    bits = np.zeros(((int(positions.max()) >> _WORD) + 1) << _WORD, np.bool_)
    bits[positions] = True
    return np.packbits(bits, bitorder="little").view("<i8")


def _digest(value: object) -> str:
    return hashlib.sha256(repr(value).encode()).hexdigest()


def _by_file(pairs: Sequence[tuple[int, int]]) -> Iterable[tuple[int, Positions]]:
    import numpy as np

    found: dict[int, list[int]] = {}
    for file_id, position in pairs:
        found.setdefault(file_id, []).append(position)
    return [(file_id, np.array(rows, dtype=np.int64)) for file_id, rows in found.items()]
