"""Dead letters in parts: the file, the counts and the message are those of all of them in one list."""

from __future__ import annotations

import pickle
import shutil
import tempfile
from fractions import Fraction
from pathlib import Path
from unittest import mock

import pytest
from apache_beam.utils.windowed_value import WindowedValue
from hypothesis import given
from hypothesis import strategies as st

from parapet.schemas.errors import InputError
from parapet.transforms import dead_letter_parts
from parapet.transforms.dead_letter_parts import DeadPart, _SetAside, check_parts, write_dead_letters
from parapet.transforms.dead_letters import DeadLetter, Tally, check_bad, places_of, read_dead_letters, reasons_of
from parapet.transforms.files import STAGING, prepare

TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=5)
LETTER = st.builds(DeadLetter, TEXT, TEXT, TEXT, TEXT, TEXT, TEXT)
# Of each element its letters, by a key of its own: a tab and a line break in it, too.
ELEMENTS = st.dictionaries(TEXT, st.lists(LETTER, min_size=1, max_size=4), min_size=1, max_size=8)

Elements = dict[str, list[DeadLetter]]


def parts_of(elements: Elements, output: str, bundles: int) -> list[DeadPart]:
    """What some workers make of the elements."""
    parts: list[DeadPart] = []
    for i in range(bundles):
        worker = _SetAside(output)
        worker.start_bundle()
        for element in list(elements.items())[i::bundles]:
            parts += worker.process(element)
        for last in worker.finish_bundle():
            assert isinstance(last, WindowedValue)
            parts.append(last.value)
    return parts


@given(ELEMENTS, st.integers(1, 4))
def test_the_file_has_all_letters_by_key(elements: Elements, bundles: int) -> None:
    with tempfile.TemporaryDirectory() as output:
        prepare(output, "rewrite")
        with mock.patch.object(dead_letter_parts, "_PART_BYTES", 100):
            parts = parts_of(elements, output, bundles)
        path, _, size = write_dead_letters(parts, output)
        data = Path(output, STAGING, path).read_bytes()
    assert list(read_dead_letters(data.splitlines(keepends=True))) == [
        letter for key in sorted(elements) for letter in elements[key]
    ]
    assert size == len(data)


@given(ELEMENTS, st.integers(1, 4))
def test_the_message_is_that_of_one_list(elements: Elements, bundles: int) -> None:
    letters = [letter for key in sorted(elements) for letter in elements[key]]
    tallies = [Tally("dialogue", 99, len(letters), is_record=True)]
    with pytest.raises(InputError) as expected:
        check_bad(tallies, Fraction(0), "used", reasons_of(letters), places_of(letters))
    with pytest.raises(InputError) as found:
        check_parts(parts_of(elements, "", bundles), tallies, Fraction(0), "used")
    assert str(found.value) == str(expected.value)


def test_no_dead_letter_is_an_empty_file(tmp_path: Path) -> None:
    prepare(str(tmp_path), "rewrite")
    check_parts([], [Tally("dialogue", 1, 0, is_record=True)], Fraction(0), "used")
    assert write_dead_letters([], str(tmp_path))[2] == 0


def test_what_travels_is_small(tmp_path: Path) -> None:
    """Eight bytes for each bad record, whatever is said of it; the letters are in files."""
    prepare(str(tmp_path), "rewrite")
    elements = {
        f"test/{i:03}.json": [DeadLetter("v1", "test", f"{i:03}.json", f"{i}_{j}", "turns[0]", "bad: " + "x" * 500)]
        for i in range(100)
        for j in range(100)
    } | {"all": [DeadLetter("v1", "test", "a.json", str(j), "turns[0]", "bad: " + "x" * 500) for j in range(20_000)]}
    parts = parts_of(elements, str(tmp_path), 2)
    assert sum(len(pickle.dumps(part)) for part in parts) < 20_100 * 8 + 10_000 * len(parts)
    written = write_dead_letters(parts, str(tmp_path))[2]
    assert written > 20_000 * 500
    shutil.rmtree(tmp_path / STAGING)
