"""Shared by all tests: a fixed worker key, the place of the real data, and where the sample lies."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from schemas import layout

KEY = "a worker key for tests only"


@pytest.fixture(autouse=True)
def worker_key(monkeypatch: pytest.MonkeyPatch) -> None:
    """Tests must not make, or depend on, the key of whoever runs them."""
    monkeypatch.setenv("PARAPET_WORKER_KEY", KEY)


@pytest.fixture(scope="session")
def real_data() -> Path:
    """The real corpora; tests that need them skip where PARAPET_DATA does not say where they are."""
    place = os.environ.get("PARAPET_DATA")
    if not place:
        pytest.skip("PARAPET_DATA is not set: the real SGD data are not at hand")
    return Path(place)


@pytest.fixture(scope="session")
def sample() -> Path:
    return layout.sample_root()
