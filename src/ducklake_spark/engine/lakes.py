"""The lakes of this process by name, so that a query on one can name tables of another. Holds none of them alive."""

from __future__ import annotations

import weakref
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any

from ducklake_spark.engine.scope import scope_of
from ducklake_spark.format.types import fold

if TYPE_CHECKING:
    from ducklake_spark.api.lake import Lake

_lakes: weakref.WeakValueDictionary[str, Lake] = weakref.WeakValueDictionary()
_attach: list[Callable[..., Lake]] = []
_is_listing: ContextVar[bool] = ContextVar("is_listing", default=True)


def remember(lake: Lake) -> None:
    """Makes a lake known; the last one of a name is the one that is meant."""
    if _is_listing.get():
        _lakes[fold(lake.name)] = lake


def named(name: str) -> Lake | None:
    """The open lake of this name."""
    lake = _lakes.get(fold(name))
    return None if lake is None or scope_of(lake).is_closed else lake


def known() -> dict[str, Lake]:
    """The open lakes by their names."""
    found = [lake for _, lake in sorted(_lakes.items()) if not scope_of(lake).is_closed]
    return {lake.name: lake for lake in found}


def attach_with(attach: Callable[..., Lake]) -> None:
    """Tells how a lake is attached, which only the public face knows."""
    _attach[:] = [attach]


def attach(uri: str, **options: Any) -> Lake:
    """`ducklake_spark.attach()`, for statements of SQL."""
    return _attach[0](uri, **options)


@contextmanager
def unlisted() -> Iterator[None]:
    """Inside, lakes are attached that are not known by their names: only who attached them may use them."""
    before = _is_listing.set(False)
    try:
        yield
    finally:
        _is_listing.reset(before)
