"""A short part of ``make fuzz``, every finding of before again, and whether the harness notices what it looks for."""

import itertools
import json
import os
import re
import shutil
import time
from pathlib import Path
from random import Random
from unittest import mock

import pytest
from commands import made, path_of, ready
from hypothesis import given
from hypothesis import strategies as st
from kit import cases, json_of, raised, sample_dialogues

from fuzzing import functions, mutations, rounds, watching
from parapet.evaluation.compare import board, page
from parapet.schemas.errors import InputError
from parapet.transforms.core.files import SetFiles
from parapet.transforms.core.seeding import stable_hash
from parapet.transforms.crowd.mturk import pay, publish
from parapet.transforms.perturb import files

DAY = int(os.environ.get("PARAPET_FUZZ_DAY", "0"))  # begins elsewhere
SLOW = ("speech_errors", "suite", "train", "predict classifier")


def test_damaged_inputs_end_in_an_output_a_dead_letter_or_an_error(place):
    """As many targets as a few seconds allow, the same in every run."""
    targets = [target for target in rounds.TARGETS if not target[0].startswith(SLOW)]
    targets.sort(key=lambda target: stable_hash("fuzz", *map(str, target), str(DAY)))
    end, found = time.process_time() + 2, []
    for target in targets:
        if time.process_time() < end:
            found += rounds.round_of(place, *target, Random(f"{DAY}:{target}"), set(), patience=0.0)
    assert [(one.line, one.file, one.finding) for one in found] == []


@pytest.mark.parametrize("name", functions.FUNCTIONS)
def test_functions_of_hostile_records(name):
    assert functions.round_of(name, Random(f"{DAY}:{name}"), set(), calls=30) == []


@pytest.mark.parametrize("record", ["i\udfffn", "=" * 6_000, "http://x.y/zv\udfff1", "aA" * 5_000])
@pytest.mark.parametrize("name", functions.OF_TEXTS)
def test_texts_that_were_too_much_once(name, record):
    assert watching.call(lambda: functions.OF_TEXTS[name](record), 5.0) is None


@pytest.mark.parametrize("seed", sorted(rounds.SEEDS.glob("*.json")), ids=lambda path: path.stem)
def test_what_was_found_before_is_found_no_more(seed, place):
    assert rounds.again(place, seed) == []


BONUSES = b'"assignment_id","amount","reason"\r\n"3A","0.50","good"\r\n"3B","1e+308","better"\r'
SUBMISSION = b'name = "a"\nauthorsate =' + b"1" * 5_000


@cases(
    "name data read",
    ("bonuses.csv", BONUSES, lambda path: pay.read_bonuses(str(path), {"3A": {}, "3B": {}})),
    ("submission.toml", SUBMISSION, lambda path: page.read_submission(path.parent, ["dst"])),
    ("leaderboard.json", b'{"systems": ["\x88', lambda path: board.read_board(str(path))),
    ("run.json", b'{"version": "0.2.0", "pipeline": "hits", "options": -0.0}', None),
    ("manifest.jsonl", None, None),
)
def test_files_that_broke_a_reader_once_are_refused(name, data, read, place, tmp_path):
    if read is None:
        shutil.copytree(made(place, "hits names"), tmp_path, dirs_exist_ok=True)
    path = tmp_path / name
    path.write_bytes(data or re.sub(rb'"reward":"[^"]*"', b'"reward":"NaN"', path.read_bytes()))
    raised(InputError, read or (lambda path: list(publish.read_hits(str(path.parent), publish.PRODUCTION))), path)


@given(st.integers(0, 2**32))
def test_mutations_are_json_and_of_the_seed(seed):
    record = sample_dialogues()[seed % 6]
    before = json.dumps(record)
    one, two = (json.dumps(mutations.mutated(record, Random(seed), [record])) for _ in range(2))
    assert (one, json.dumps(record)) == (two, before)
    again = json.loads(mutations.reformatted(before.encode(), Random(seed)))
    assert [turn["utterance"] for turn in again["turns"]] == [turn["utterance"] for turn in record["turns"]]


def dialogues_of(place):
    return json_of(Path(path_of(ready(place, "perturb")[3])) / "test/dialogues_001.json")


def test_a_planted_fault_is_found_and_traced_to_its_record(place, monkeypatch):
    real = files.dialogue_text

    def text(dialogue, *args):
        return real({**dialogue, "x": {}["planted"]} if "fuzz" in dialogue else dialogue, *args)

    monkeypatch.setattr(files, "dialogue_text", text)
    dialogues = dialogues_of(place)
    dialogues[2]["fuzz"] = 1
    file, data = "test/dialogues_001.json", json.dumps(dialogues).encode()

    def kinds(data):
        return [one.kind for one in rounds.findings(place, "perturb", 3, file, data)]

    whole = kinds(data)
    assert whole
    left = json.loads(rounds.smaller(file, data, lambda some: kinds(some) == whole, 60.0))
    assert (dialogues[2] in left, len(left) <= 2) == (True, True)  # of a bad one alone nothing would be made


def test_a_dialogue_that_is_lost_is_found(place, monkeypatch):
    real = SetFiles.add

    def add(self, folder, text, *one):
        return None if b"fuzz-me" in text else real(self, folder, text, *one)

    monkeypatch.setattr(SetFiles, "add", add)
    dialogues = dialogues_of(place)
    dialogues[0]["dialogue_id"] = "fuzz-me"
    data = json.dumps(dialogues).encode()
    assert rounds.findings(place, "perturb", 3, "test/dialogues_001.json", data)  # by the frame itself, or the harness


def test_what_hangs_and_what_is_no_input_error_are_found():
    assert watching.call(lambda: [None for _ in itertools.count()], 0.05).kind.startswith(watching.HANGS)
    assert watching.call(mock.Mock(side_effect=InputError("no"))) is None
    assert watching.call(lambda: {}["a"]).kind.startswith("KeyError")


@cases(
    "name content problem",
    ("a.json", b"{", "JSONDecodeError"),
    ("a.html", b"<p><img src=x onerror=fuzz()></p>", "markup of the input"),
    ("a.md", mutations.CANARY.encode(), "markup of the input"),
    ("a.csv", b"a,b\n1\n", "rows of several widths"),
    ("a.parquet", b"PAR1", "Arrow"),
    ("a.xml", b"<a>", "ParseError"),
    ("dead_letters.jsonl", b'{"reason": "internal_error: KeyError at a/b.py:3"}\n', "internal_error"),
)
def test_output_that_nobody_can_read_is_found(name, content, problem, tmp_path):
    (tmp_path / name).write_bytes(content)
    (found,) = watching.output_findings(tmp_path)
    assert problem in found.kind
