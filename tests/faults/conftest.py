"""A machine whose disk fails where a test wants it to."""

import pytest

from faults.operations import Machine, library


@pytest.fixture(scope="session")
def machine(tmp_path_factory):
    place = library()
    if place is None:
        pytest.skip("there is no C compiler, or this is not Linux: what fails below a program cannot be shown")
    environment = {"PARAPET_WORKER_KEY": "a worker key for tests only"}
    with Machine(place, tmp_path_factory.mktemp("machine"), environment) as running:
        yield running
