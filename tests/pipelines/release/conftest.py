"""A small release, and what it is made of."""

import pytest
from release_corpora import Built, add_set, build, make

from parapet.schemas import layout


@pytest.fixture
def toml(tmp_path, sample):
    """A ``release.toml`` of one's own, to change."""
    return make(tmp_path, sample)


@pytest.fixture(scope="session")
def built(tmp_path_factory):
    """A release to look at."""
    folder = tmp_path_factory.mktemp("release")
    toml = make(folder, layout.sample_root())
    return Built(toml, build(toml, folder / "out", "--quiet").folder / "small" / "1.0.0")


@pytest.fixture(scope="session")
def suite_release(tmp_path_factory):
    """All that a suite puts into a release: dialogues, variants, a perturbed set, audit, tables, statistics."""
    folder = tmp_path_factory.mktemp("suite")
    toml = make(folder, layout.sample_root())
    add_set(toml)
    return Built(toml, build(toml, folder / "out", "--quiet").folder / "small" / "1.0.0")
