"""What statements on one handle share, as on a connection of DuckDB: attached lakes, USE, variables, temporary objects.

Every lake that a handle attaches by SQL has the same session as the handle itself.
"""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from ducklake_spark.engine import lakes as registry
from ducklake_spark.engine.scope import scope_of
from ducklake_spark.errors import DuckLakeError, InvalidInputError, NotFoundError, TransactionError
from ducklake_spark.format.types import fold

if TYPE_CHECKING:
    from ducklake_spark.api.lake import Lake

SCRATCH = ("temp", "memory")
"""Databases that every session has: temporary objects, and DuckDB's database in memory. Each is a lake of its own that
nobody else sees, in a folder that goes when the session ends."""


@dataclass
class Session:
    """The state of a handle between its statements."""

    home: Lake
    current: Lake
    attached: dict[str, Lake] = field(default_factory=dict)
    scratch: dict[str, Lake] = field(default_factory=dict)
    borrowed: dict[int, tuple[Lake, Lake]] = field(default_factory=dict)
    """Lakes of other handles, each with the handle of this session to it: its transactions are the session's own."""
    prepared: dict[str, str] = field(default_factory=dict)
    secrets: dict[str, dict[str, Any]] = field(default_factory=dict)
    detached: set[str] = field(default_factory=set)
    in_transaction: bool = False
    only_reads: bool = False
    """Whether the running transaction is READ ONLY: temporary objects alone can be changed in it."""
    duckdb: Any = None
    """A DuckDB of the driver; see `local_duckdb`."""
    zone: str | None = None
    """The time zone of that DuckDB."""
    first_zone: str | None = None
    """The time zone that Spark's session had before statements set it."""
    sources: set[str] = field(default_factory=set)
    """Databases that are no lakes, which the DuckDB of the driver has attached to be read."""
    settings: dict[str, str] = field(default_factory=dict)
    """Settings of DuckDB that statements set."""

    # Lakes.

    def lakes(self) -> Iterator[Lake]:
        """The open lakes that this session knows by itself, its scratch databases last."""
        seen: set[int] = set()
        borrowed = (own for origin, own in self.borrowed.values() if fold(origin.name) not in self.attached)
        for lake in (self.home, *self.attached.values(), *borrowed, *self.scratch.values()):
            if id(lake) not in seen and not scope_of(lake).is_closed:
                seen.add(id(lake))
                yield lake

    def named(self, name: str) -> Lake | None:
        """The lake of a name, ready to be used in the running transaction."""
        found = self.find(name)
        return None if found is None else self.joined(found)

    def own(self, name: str) -> Lake | None:
        """The lake of a name that this session attached, or that it belongs to."""
        return next((lake for lake in self.lakes() if fold(lake.name) == fold(name)), None)

    def find(self, name: str) -> Lake | None:
        """The lake of a name, which may be another handle's."""
        key = fold(name)
        found = self.own(name)
        if found is not None:
            return found
        if key in SCRATCH:
            return self.scratch_lake(key)
        origin = None if key in self.detached else registry.named(name)
        return None if origin is None else self._borrow(origin)

    def _borrow(self, origin: Lake) -> Lake:
        """Another handle's lake, as a second connection of DuckDB sees it."""
        if id(origin) not in self.borrowed:
            own = type(origin)(scope_of(origin).apart())
            self._share(own)
            self.borrowed[id(origin)] = origin, own
        return self.borrowed[id(origin)][1]

    def joined(self, lake: Lake) -> Lake:
        """The lake; in a transaction of the session it takes part from now on."""
        scope = scope_of(lake)
        if self.in_transaction and scope.transaction is None and not scope.config.read_only:
            self._begin_in(lake)
        return lake

    def _begin_in(self, lake: Lake) -> None:
        if self.only_reads and lake.name != "temp":
            scope_of(lake).begin_read_only()
        else:
            lake.begin()

    def scratch_lake(self, name: str) -> Lake:
        """The scratch database of a name, made when it is first needed."""
        if name not in self.scratch:
            folder = tempfile.mkdtemp(prefix=f"ducklake_{name}_")
            session = scope_of(self.home).session
            with registry.unlisted():  # others do not see it
                uri = f"ducklake:{folder}/{name}.ducklake"
                made = registry.attach(uri, name=name, spark=session, catalog=False)
            scope_of(made).on_close.append(lambda: shutil.rmtree(folder, ignore_errors=True))
            self._share(made)
            self.scratch[name] = made
        return self.scratch[name]

    def new_scratch(self, name: str) -> None:
        """ATTACH ':memory:': another database that only this session sees."""
        self.attached[fold(name)] = self.scratch_lake(fold(name))
        self.detached.discard(fold(name))

    def temporary(self) -> Lake | None:
        """The scratch database of temporary objects, if there is one yet."""
        return self.scratch.get("temp")

    def _share(self, lake: Lake) -> None:
        scope_of(lake).sql_session = self

    def attach(self, lake: Lake) -> None:
        """Makes a lake one of this session."""
        key = fold(lake.name)
        self._share(lake)
        self.attached[key] = lake
        self.detached.discard(key)
        if scope_of(self.current).is_closed or (
            fold(self.home.name) == key and scope_of(self.home).is_closed and self.current.name in SCRATCH
        ):
            self.current = lake

    def detach(self, lake: Lake) -> None:
        """Closes a lake."""
        key = fold(lake.name)
        if scope_of(lake).transaction is not None:
            raise TransactionError(
                f'The lake "{lake.name}" is in a transaction: end it, then detach the lake.'
            )
        is_home = lake is self.home
        self.attached.pop(key, None)
        for origin, own in list(self.borrowed.values()):
            if own is lake:
                del self.borrowed[id(origin)]
                scope_of(origin).close()
        self.detached.add(key)
        if self.current is lake:
            others = [each for each in self.lakes() if each is not lake and each.name not in SCRATCH]
            self.current = (
                self.home if not is_home and others and self.home in others else self.scratch_lake("memory")
            )
        scope = scope_of(lake)
        if is_home:
            scope.on_close[:] = [each for each in scope.on_close if each != self.close]
        scope.close()
        if is_home:
            scope.on_close.append(self.close)  # the handle still ends the session

    def close(self) -> None:
        """Forgets what belongs to the session alone."""
        for lake in (*self.attached.values(), *self.scratch.values()):
            if lake is not self.home and not scope_of(lake).is_closed:
                scope_of(lake).close()
        self.attached.clear()
        self.scratch.clear()
        self.borrowed.clear()

    # Transactions.

    def begin(self) -> None:
        """BEGIN: every lake takes part in it from its first use on."""
        self._begin(only_reads=False)

    def begin_read_only(self) -> None:
        """BEGIN READ ONLY."""
        self._begin(only_reads=True)

    def _begin(self, *, only_reads: bool) -> None:
        if self.in_transaction or scope_of(self.current).transaction is not None:
            raise TransactionError(
                "A transaction is running already, and they cannot be nested. End it first with COMMIT or ROLLBACK."
            )
        self.only_reads = only_reads
        if not scope_of(self.current).config.read_only:
            self._begin_in(self.current)
        self.in_transaction = True

    def require_one_changed(self, lake: Lake) -> None:
        """Raises when the running transaction has changed another lake."""
        if not self.in_transaction or lake.name in SCRATCH:
            return
        for other in self._running():
            if other is not lake and other.name not in SCRATCH and _has_changes(other):
                raise TransactionError(
                    f'The transaction changed the lake "{other.name}" already, and one transaction can change one '
                    f'lake. End it before changing "{lake.name}".'
                )

    def _running(self) -> list[Lake]:
        return [lake for lake in self.lakes() if scope_of(lake).transaction is not None]

    def commit(self) -> None:
        """COMMIT; as in DuckDB, only one lake can have been changed."""
        if not self.in_transaction:
            self.current.commit()
            return
        running = self._running()
        self.in_transaction = False
        failed: DuckLakeError | None = None
        for lake in sorted(running, key=lambda each: each.name in SCRATCH):
            if failed is not None:
                lake.rollback()
                continue
            try:
                lake.commit()
            except DuckLakeError as error:
                failed = error
        if failed is not None:
            raise failed

    def rollback(self) -> None:
        """ROLLBACK."""
        if not self.in_transaction:
            self.current.rollback()
            return
        self.in_transaction = False
        for lake in self._running():
            lake.rollback()

    # Names.

    def target(
        self, name: tuple[str, ...], *, longest: int = 3, new: bool = False
    ) -> tuple[Lake, tuple[str, ...]]:
        """The lake that a name is about, and the name without that lake in front.

        Args:
            name: One to `longest` parts.
            longest: How many parts a name with a lake and a schema has.
            new: Whether the object is to be made: it is not looked for among temporary ones.

        Raises:
            InvalidInputError: The first part is the name of a lake and of a schema of the lake in use.
        """
        current = self.current
        if len(name) >= 2:
            lake = self.named(name[0])
            has_schema = len(name) < longest and _schema(current, name[0])
            if lake is not None and has_schema and not scope_of(current).is_closed:
                raise InvalidInputError(
                    f'"{name[0]}" is the name of a lake and of a schema. Write all parts: '
                    f'"{current.name}.{name[0]}.{name[-1]}" or "{name[0]}.main.{name[-1]}".'
                )
            if lake is not None:
                return lake, name[1:]
            if len(name) == longest:
                raise NotFoundError(f'There is no attached lake "{name[0]}".')
        elif not new and (temporary := self.temporary()) is not None and self._holds(temporary, name[0]):
            return self.joined(temporary), name
        return self.joined(current), name

    def _holds(self, lake: Lake, name: str) -> bool:
        tx = scope_of(lake).read_transaction()
        main = tx.schema("main")
        assert main is not None
        macros = (fold(macro.name) for macro in tx.macros(main))
        return tx.table(main, name) is not None or tx.view(main, name) is not None or fold(name) in macros


def _schema(lake: Lake, name: str) -> bool:
    return not scope_of(lake).is_closed and scope_of(lake).read_transaction().schema(name) is not None


def _has_changes(lake: Lake) -> bool:
    transaction = scope_of(lake).transaction
    return transaction is not None and bool(transaction.edits)


def session_of(lake: Lake) -> Session:
    """The session of a handle."""
    scope = scope_of(lake)
    if scope.sql_session is None:
        made = Session(lake, lake)
        scope.sql_session = made
        scope.on_close.append(made.close)
    found: Session = scope.sql_session
    return found


def own_session_of(lake: Lake) -> Session | None:
    """The session of a handle, if a statement made one."""
    found: Session | None = scope_of(lake).sql_session
    return found
