"""What the readers of answers find, for the tests of both formats."""

import io
from unittest import mock

from parapet.schemas.rows import Assignment, DeadLetter
from parapet.transforms.crowd import answer_files

KEY = b"a key of at least sixteen bytes"
WORKERS = ["A3ZOYR34V3P4T6", "A1ROEDVMTO9Y3X", "AXXXXXXXXXXXXX"]


def read_file(name, data, encoding="utf-8"):
    """The records of a file with these bytes."""
    with mock.patch.object(answer_files, "open_input", return_value=io.BufferedReader(io.BytesIO(data))):
        return list(answer_files.read_responses(name, KEY, encoding))


def assignments(found):
    return {one.assignment_id: one for one in found if isinstance(one, Assignment)}


def dead(found):
    return [one for one in found if isinstance(one, DeadLetter)]


def reasons(found):
    return [(letter.key, letter.reason) for letter in dead(found)]


def check_letters(found, source):
    """Every dead letter is of one row, and names no worker."""
    for letter in dead(found):
        assert (letter.stage, letter.source) == ("ingest", source)
        assert not any(worker in letter.payload + letter.key + letter.reason for worker in WORKERS)
