"""Tiny translation models, for the tests of the local engine."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from tiny_models import Models


@pytest.fixture(scope="session")
def models(tmp_path_factory: pytest.TempPathFactory) -> Models:
    import torch

    torch.set_num_threads(1)
    return Models(tmp_path_factory.mktemp("tiny_models"))


@pytest.fixture
def copy(models: Models, tmp_path: Path) -> Callable[[str], Path]:
    """Copies a model's folder, so that it may be changed."""
    return lambda name: Path(shutil.copytree(models[name], tmp_path / f"copy-{name}"))
