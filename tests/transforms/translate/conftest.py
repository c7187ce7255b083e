"""Tiny translation models, for the tests of the local engine."""

import shutil
from pathlib import Path

import pytest
from tiny_models import Models


@pytest.fixture(scope="session")
def models(tmp_path_factory):
    return Models(tmp_path_factory.mktemp("tiny_models"))


@pytest.fixture
def copy(models, tmp_path):
    """Copies a model's folder, so that it may be changed."""
    return lambda name: Path(shutil.copytree(models[name], tmp_path / f"copy-{name}"))
