"""A storage emulator in place of Google's, for all tests of this folder."""

import logging

import pytest

from dataflow.bucket import Bucket


@pytest.fixture(scope="package")
def bucket():
    """``gs://corpora``, with the sample as ``sgd``; Google's own clients reach it, in this process and in others."""
    with Bucket("corpora") as made:
        yield made


@pytest.fixture(autouse=True)
def _logging_as_it_was():
    """A command sets up logging for its own process; the tests' must come back."""
    root = logging.getLogger()
    handlers, level = root.handlers[:], root.level
    yield
    root.handlers[:], root.level = handlers, level
