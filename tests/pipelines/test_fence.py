"""The fence around each record: one that makes Parapet or a plug-in raise costs that record, and not the run.

What is raised is injected: into functions of Parapet, where an argument holds the id of one record, and into a plug-in.
A run with such a fault writes what it writes where that record is bad of itself.
"""

import importlib
import json
import re
import shutil
from pathlib import Path
from typing import Any

import pytest
from kit import TWO_PROCESSES, TWO_THREADS, cases, files_of, json_of, rows_of, run, write
from plugin_packages import bring

from parapet.schemas.errors import ISSUES
from parapet.transforms.perturb import files
from parapet.transforms.perturb import files as corpus_files
from parapet.transforms.splits import few_shot

VICTIM, TRAINED = "1_victim", "1_trained"  # a dialogue of test, and one of train

SOME = '''
import parapet


class Some(parapet.Perturbation):
    """Fails on one dialogue."""

    name = "some"

    def perturb(self, dialogue, random):
        if dialogue["dialogue_id"] == "VICTIM":
            return self._failed(dialogue)
        turns = [{**turn, "utterance": turn["utterance"] + "!"} for turn in dialogue["turns"]]
        return parapet.Perturbed({**dialogue, "turns": turns})

    def _failed(self, dialogue):
        FAIL
'''
FAILURES = {
    "raises": ('return {}["a key"]', "plugin_error: KeyError: 'a key' (broken_some.py:17, in _failed)"),
    "id": (
        'return parapet.Perturbed({**dialogue, "dialogue_id": "same"})',
        "plugin_error: dialogue_id was changed to 'same' (Some.perturb)",
    ),
    "deep": ("return self._failed(dialogue)", "plugin_error: RecursionError: maximum recursion depth exceeded"),
    "row": (
        'return parapet.Perturbed(dialogue, [{"dialogue_id": "1", "turn": "x", "original": "a", "utterance": "b"}])',
        "some: its rows do not match its row_schema: Could not convert 'x' with type str: tried to convert to int32",
    ),
}

ERRORS = [KeyError("port alder"), RecursionError("deep"), UnicodeEncodeError("utf-8", "\ud800", 0, 1, "surrogates")]


def some(names, *quick):
    """Names as parameters; all but the quick ones are for ``make test-all``."""
    return [name if name in quick else pytest.param(name, marks=pytest.mark.thorough) for name in names]


def found(target):
    """The module or class that has what is named, and its name there."""
    place, _, name = target.rpartition(".")
    try:
        return importlib.import_module(place), name
    except ModuleNotFoundError:
        module, _, cls = place.rpartition(".")
        return getattr(importlib.import_module(module), cls), name


def poison(patch, target, error, victim=VICTIM, times=None):
    """Makes a function raise where an argument holds the id; gives a list that has an entry for each time it did."""
    owner, name = found(target)
    original = getattr(owner, name)
    raised = []

    def poisoned(*given, **named):
        if victim in repr((given, named)) and (times is None or len(raised) < times):
            raised.append(target)
            raise type(error)(*error.args)
        return original(*given, **named)

    patch.setattr(owner, name, poisoned)
    return raised


def contents(output):
    """The files of a run but for what says why records were left out."""
    files = {name: content for name, content in files_of(output).items() if name != "dead_letters.jsonl"}
    counts = json.loads(files.pop("run.json"))["counts"]
    counts.pop("faults", None)
    # A fault leaves a dialogue out of all sets at once.
    counts["left_out"] = sum(counts.pop(name) for name in [*counts] if name.startswith("left_out"))
    return {**files, "counts": json.dumps(counts).encode()}


@pytest.fixture(scope="module")
def corpora(sample, tmp_path_factory):
    """The sample's dialogues of train and test, and variants; and the same where a victim is bad of itself."""
    root = tmp_path_factory.mktemp("corpora")
    for split, victim in (("train", TRAINED), ("test", VICTIM)):
        shutil.copytree(sample / split, root / "variants/v1" / split, ignore=shutil.ignore_patterns("dialogues*"))
        for name in ("whole", VICTIM, TRAINED):
            shutil.copytree(sample / split, root / name / split)
            found = json_of(sample / split / "dialogues_001.json")
            found[3] = {**({} if name == victim else found[3]), "dialogue_id": victim}
            write(root / name / split / "dialogues_001.json", found)
    return root


@pytest.fixture(scope="module")
def without(corpora, tmp_path_factory):
    """The output of a command line on the corpus in which a victim is bad; each is run once."""
    folder, outputs = tmp_path_factory.mktemp("without"), dict[tuple[str, ...], Path]()

    def output_of(argv, victim):
        key = tuple(argv)
        if key not in outputs:
            outputs[key] = fenced(argv, corpora / victim, folder / str(len(outputs))).folder
        return outputs[key]

    return output_of


def fenced(argv, corpus, output, max_bad="50%", quiet=True, status=0):
    given = [flag.format(corpus=corpus) for flag in argv]
    return run(*given, output=output, max_bad=max_bad, quiet=quiet, status=status)


@pytest.mark.thorough
@pytest.mark.parametrize("failure", FAILURES)
def test_a_plugin_that_raises_on_one_dialogue(failure, corpora, site, tmp_path, monkeypatch):
    code, reason = FAILURES[failure]
    code = SOME.replace("VICTIM", VICTIM).replace("FAIL", code)
    bring(site, "broken_some", "parapet.perturbations", "some", "broken_some:Some", code)
    monkeypatch.setenv("PYTHONPATH", str(site))
    argv = ["perturb", "some", "--sgd", "{corpus}"]
    output = tmp_path / "out"
    workers = TWO_PROCESSES if failure == "raises" else []  # Beam prints tracebacks of threads
    ran = fenced([*argv, *workers], corpora / "whole", output, quiet=False)
    (letter,) = ran.dead_letters
    assert (letter["dialogue_id"], letter["file"]) == (VICTIM, "dialogues_001.json")
    assert letter["reason"].startswith(reason)
    errors = [line for line in ran.errors.splitlines() if "lost to a bug" in line]
    if failure != "row":
        (line,) = errors
        assert line.startswith("error: 1 record was lost to a bug in the plug-in 'some' (broken_some 0.3): ")
        assert reason.partition(": ")[2] in line
    assert contents(output) == contents(fenced(argv, corpora / VICTIM, tmp_path / "without").folder)
    message = fenced([*argv, *workers], corpora / "whole", tmp_path / "none", "0%", status=1).errors
    assert "1 of 8 dialogues could not be perturbed, but --max_bad allows none" in message
    assert message.count("Traceback") == (failure in ("raises", "deep"))
    if failure == "raises":
        assert 'broken_some.py", line 17, in _failed' in message
        assert message.endswith("KeyError: 'a key'\n")
    assert not (tmp_path / "none/run.json").exists()


@cases("sets", "", "'some', 'some'")
def test_a_plugin_that_returns_other_sets(sets, corpora, site, tmp_path):
    code = f"""\
import parapet


class Some(parapet.Perturbation):
    name = "some"

    def perturb(self, dialogue, random):
        return parapet.Perturbed(dialogue)

    def perturb_sets(self, item, state):
        return ((name, parapet.Perturbed(item.raw)) for name in [{sets}])
"""
    bring(site, "broken_some", "parapet.perturbations", "some", "broken_some:Some", code)
    ran = fenced(["perturb", "some", "--sgd", "{corpus}"], corpora / "whole", tmp_path / "out", status=1)
    assert "the counts do not balance for dialogues of some" in ran.errors


# Each: a command line, and a function of Parapet through which every dialogue goes.
FAULTS = {
    "typos": ("perturb typos", "perturbations.variations.user_turns"),
    "planned": ("language_variations --kinds simple --env 0.5 --split test", "perturbations.variations.user_turns"),
    "ood": ("ood --rates 0.2", "perturbations.ood.planning.places_of"),
    "unseen_entities": ("unseen_entities", "perturbations.entities.perturbation.replaced"),
    "studied": ("unseen_entities", "perturbations.entities.study.distinct_annotations"),
    "spoken": (
        "speech_errors --wer 0.8 --snr=-12,30 --longest 25 --split test",
        "perturbations.speech.spoken.voice_of",
    ),
    "rewrite": ("rewrite --variants {corpus}/../variants", "variants.perturbation.Places"),
    "augment": ("augment --sets none", "splits.augment.augmenting.row_of"),
    "few_shot": ("few_shot --sizes 2 --test 2", "splits.few_shot.candidates_of"),
}


@pytest.mark.parametrize("name", some(FAULTS, "typos", "few_shot"))
@cases("error", ERRORS[0], *(pytest.param(error, marks=pytest.mark.thorough) for error in ERRORS[1:]))
def test_a_fault_costs_the_record(name, error, corpora, without, tmp_path, monkeypatch):
    line, target = FAULTS[name]
    argv = [*line.split(), "--sgd", "{corpus}"]
    victim = TRAINED if name == "augment" else VICTIM
    with monkeypatch.context() as patch:
        raised = poison(patch, f"parapet.transforms.{target}", error, victim)
        made = fenced([*argv, *TWO_THREADS], corpora / "whole", tmp_path / "out")
        assert raised
        # in this process: worker processes would not have the patch
        message = fenced([*argv, "--workers=1"], corpora / "whole", tmp_path / "none", "0%", status=1).errors
    (letter,) = made.dead_letters
    assert letter["dialogue_id"] == victim
    assert letter["reason"].startswith(f"internal_error: {type(error).__name__}: ")
    assert letter["reason"].partition(" (")[2].startswith("transforms/")
    assert letter["trace"].startswith("Traceback (most recent call last):\n")
    assert made.errors.startswith("error: 1 record was lost to a bug in Parapet: ")
    assert made.errors.endswith(f"/out/dead_letters.jsonl; please report it at {ISSUES}\n")
    assert contents(tmp_path / "out") == contents(without(argv, victim))
    assert re.search(r"1 of \d+ dialogues( of v1| of original)? could not be \w+, but --max_bad allows none", message)
    assert (
        f"this is a bug in Parapet: please report it at {ISSUES}, or continue without them with --max_bad " in message
    )
    assert "Traceback" not in message
    assert not (tmp_path / "none/run.json").exists()


def test_a_dialogue_that_was_planned_and_then_lost(corpora, tmp_path, monkeypatch):
    """No set has it, not even the first, whose dialogue was there already; all others are as they were."""
    argv = ["perturb", "ood", "--rates", "0.1,0.2", "--sgd", "{corpus}"]
    fenced(argv, corpora / "whole", tmp_path / "clean")
    original, called = corpus_files.dialogue_text, list[str]()

    def second(dialogue, *args):
        called.extend([VICTIM] if dialogue["dialogue_id"] == VICTIM else [])
        if dialogue["dialogue_id"] == VICTIM and len(called) == 2:
            raise KeyError("second")
        return original(dialogue, *args)

    monkeypatch.setattr(corpus_files, "dialogue_text", second)
    ran = fenced(argv, corpora / "whole", tmp_path / "out")
    assert len(called) == 2
    (letter,) = ran.dead_letters
    assert (letter["dialogue_id"], letter["variant"]) == (VICTIM, "")
    for name in ("ood-10", "ood-20"):
        written, clean = (json_of(tmp_path / of / name / "test/dialogues_001.json") for of in ("out", "clean"))
        assert written == [dialogue for dialogue in clean if dialogue["dialogue_id"] != VICTIM]
        assert len(written) == len(clean) - 1
        place = f"{name}/turns/test/dialogues_001.parquet"
        rows, clean_rows = (rows_of(tmp_path / of / place) for of in ("out", "clean"))
        assert rows == [row for row in clean_rows if row["dialogue_id"] != VICTIM]


def doubled(patch, target):
    """Makes a function do what it did the first time when it is called the second time; gives its calls."""
    owner, name = found(target)
    original = getattr(owner, name)
    calls = []

    def replaced(*given):
        calls.append(given)
        return original(*calls[0 if len(calls) == 2 else -1])

    patch.setattr(owner, name, replaced)
    return calls


def test_one_lost(corpora, tmp_path, monkeypatch):
    original, calls = files.SetFiles.add, list[Any]()

    def add(*given):
        calls.append(given)
        if len(calls) != 2:
            original(*given)

    monkeypatch.setattr(files.SetFiles, "add", add)
    message = fenced(["perturb", "typos", "--sgd", "{corpus}"], corpora / "whole", tmp_path / "out", status=1).errors
    assert len(calls) > 2
    assert "counts do not balance for dialogues of typos" in message
    assert not (tmp_path / "out/run.json").exists()


def test_a_chosen_dialogue_lost(corpora, tmp_path, monkeypatch):
    original = few_shot.texts_of

    def texts_of(joined):
        first, *others = original(joined)
        return others if joined[0].startswith("train/") else [first, *others]

    monkeypatch.setattr(few_shot, "texts_of", texts_of)
    argv = ["few_shot", "--sizes", "2", "--test", "2", "--sgd", "{corpus}"]
    assert "the counts do not balance for chosen" in fenced(argv, corpora / "whole", tmp_path / "out", status=1).errors
