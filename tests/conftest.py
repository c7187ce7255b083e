"""Shared by all tests: a fixed worker key, the place of the real data, and where the sample lies."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
import quick_beam
from hypothesis import HealthCheck, settings

from schemas import layout

KEY = "a worker key for tests only"

# How quickly examples are made is the machine's, and what else it does.
settings.register_profile("parapet", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("parapet")


@pytest.fixture(autouse=True)
def worker_key(monkeypatch: pytest.MonkeyPatch) -> None:
    """Tests must not make, or depend on, the key of whoever runs them."""
    monkeypatch.setenv("PARAPET_WORKER_KEY", KEY)


@pytest.fixture(autouse=True)
def _quick_beam() -> None:
    """Pipelines that run in this process are made quickly, from when a test has loaded Beam."""
    if quick_beam.wanted():
        quick_beam.install()


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
