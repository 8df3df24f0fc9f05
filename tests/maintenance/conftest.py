"""Maintenance is compared over many versions of small tables: compiling their queries would take most of the time."""

from __future__ import annotations

import pytest


@pytest.fixture(scope="module", autouse=True)
def _interpreted(interpreted: None) -> None:
    """For all modules of the folder."""
