"""The lakes of this process by name, so that a query on one can name tables of another. Holds none of them alive."""

from __future__ import annotations

import weakref
from typing import TYPE_CHECKING

from ducklake_spark.engine.scope import scope_of
from ducklake_spark.format.types import fold

if TYPE_CHECKING:
    from ducklake_spark.api.lake import Lake

_lakes: weakref.WeakValueDictionary[str, Lake] = weakref.WeakValueDictionary()


def remember(lake: Lake) -> None:
    """Makes a lake known; the last one of a name is the one that is meant."""
    _lakes[fold(lake.name)] = lake


def named(name: str) -> Lake | None:
    """The open lake of this name."""
    lake = _lakes.get(fold(name))
    return None if lake is None or scope_of(lake).is_closed else lake
