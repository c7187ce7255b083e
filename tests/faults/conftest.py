"""A machine whose disk fails where a test wants it to."""

import pytest

from faults.operations import Machine


@pytest.fixture(scope="session")
def machine(tmp_path_factory):
    with Machine(tmp_path_factory.mktemp("faults") / "machine") as running:
        yield running
