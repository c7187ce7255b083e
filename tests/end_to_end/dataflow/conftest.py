"""A storage emulator in place of Google's, for all tests of this folder."""

import pytest

from dataflow.bucket import Bucket


@pytest.fixture(scope="package")
def bucket():
    """``gs://corpora``, with the sample as ``sgd``; Google's own clients reach it, in this process and in others."""
    with Bucket("corpora") as made:
        yield made
