"""The fence around each record: one that makes Parapet or a plug-in raise costs that record, and not the run.

Records are dialogues, and below answers, assignments, services, chats, calls and turns.

What is raised is injected: into functions of Parapet, where an argument holds the id of one record, and into a plug-in.
A run with such a fault writes what it writes where that record is bad of itself.
"""

import json
import pkgutil
import re
import shutil
from pathlib import Path

import pytest
from dstc2_calls import asian_oriental, write_lists
from kit import TWO_PROCESSES, TWO_THREADS, cases, files_of, json_of, refused, rows_of, run, write
from plugin_packages import bring

from parapet.schemas.errors import ISSUES
from parapet.transforms.crowd import vet
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
    "raises": ('return {}["a key"]', "plugin_error: KeyError: 'a key' (broken_some.py:12, in _failed)"),
    "id": ('return parapet.Perturbed({**dialogue, "dialogue_id": "same"})', "plugin_error: dialogue_id was changed to"),
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


def poison(patch, target, error, victim=VICTIM):
    """Makes a function raise where an argument holds the id; gives a list that has an entry for each time it did."""
    original = pkgutil.resolve_name(target)
    raised = []

    def poisoned(*given, **named):
        if victim in repr((given, named)):
            raised.append(target)
            raise type(error)(*error.args)
        return original(*given, **named)

    patch.setattr(target, poisoned)
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
        assert 'broken_some.py", line 12, in _failed' in message
        assert message.endswith("KeyError: 'a key'\n")
    assert not (tmp_path / "none/run.json").exists()


OTHER_SETS = """
import parapet
class Some(parapet.Perturbation):
    name = "some"
    def perturb(self, dialogue, random):
        return parapet.Perturbed(dialogue)
    def perturb_sets(self, item, state):
        return ((name, parapet.Perturbed(item.raw)) for name in [SETS])
"""


@cases("sets", "", "'some', 'some'")
def test_a_plugin_that_returns_other_sets(sets, corpora, site, tmp_path):
    code = OTHER_SETS.replace("SETS", sets)
    bring(site, "broken_some", "parapet.perturbations", "some", "broken_some:Some", code)
    ran = fenced(["perturb", "some", "--sgd", "{corpus}"], corpora / "whole", tmp_path / "out", status=1)
    assert "the counts do not balance for dialogues of some" in ran.errors


# Each: a command line, and a function of Parapet through which every dialogue goes.
FAULTS = {
    "typos": ("perturb typos", "perturb.variations.user_turns"),
    "planned": ("language_variations --kinds simple --env 0.5 --split test", "perturb.variations.user_turns"),
    "ood": ("ood --rates 0.2", "perturb.ood.perturbation.places_of"),
    "unseen_entities": ("unseen_entities", "perturb.entities.perturbation.replaced"),
    "studied": ("unseen_entities", "perturb.entities.perturbation.distinct_annotations"),
    "spoken": ("speech_errors --wer 0.8 --snr=-12,30 --longest 25 --split test", "perturb.speech.spoken.voice_of"),
    "rewrite": ("rewrite --variants {corpus}/../variants", "variants.perturbation.Places"),
    "augment": ("augment --sets none", "splits.augment.row_of"),
    "few_shot": ("few_shot --sizes 2 --test 2", "splits.few_shot.candidates_of"),
}


@pytest.mark.parametrize("name", some(FAULTS, "typos", "augment", "few_shot"))
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
    told = f"this is a bug in Parapet: please report it at {ISSUES}, or continue without them with --max_bad "
    assert told in message
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


def test_a_chosen_dialogue_lost(corpora, tmp_path, monkeypatch):
    original = few_shot.texts_of

    def texts_of(joined):
        first, *others = original(joined)
        return others if joined[0].startswith("train/") else [first, *others]

    monkeypatch.setattr(few_shot, "texts_of", texts_of)
    argv = ["few_shot", "--sizes", "2", "--test", "2", "--sgd", "{corpus}"]
    assert "the counts do not balance for chosen" in fenced(argv, corpora / "whole", tmp_path / "out", status=1).errors


# Records that are no dialogues of a corpus.

WITH_ID = KeyError("A2RB7XC0WJHN5S")  # which may be a worker's id
REPORTED = f"please report it at {ISSUES}\n"


def compose(schemas, crowd, output, status=0):
    responses = {"responses": [crowd / "names.csv", crowd / "descriptions.csv"], "decisions": crowd / "decisions.csv"}
    return run("compose", "--quiet", schemas=schemas, **responses, output=output, status=status)


@pytest.fixture(scope="module")
def gyms(sample, tmp_path_factory):
    """One service of the sample with its answers."""
    folder = tmp_path_factory.mktemp("gyms")
    services = json_of(sample / "test/schema.json")
    write(folder / "schema.json", [one for one in services if one["service_name"] == "Gyms_1"])
    ids = set()
    for name in ("names", "descriptions"):
        rows = [row for row in rows_of(sample / f"crowd/{name}.csv") if row["Input.task_id"].startswith("Gyms_1")]
        write(folder / f"{name}.csv", rows)
        ids |= {row["AssignmentId"] for row in rows}
    decisions = rows_of(sample / "crowd/decisions.csv")
    write(folder / "decisions.csv", [row for row in decisions if row["response_id"].partition(":")[0] in ids])
    return folder


def test_a_bug_and_an_answer_lost_and_another_twice_fail_the_run(gyms, tmp_path, monkeypatch):
    def refusal():
        message = compose(gyms / "schema.json", gyms, tmp_path / "out", status=1).errors
        assert not (tmp_path / "out/run.json").exists()
        return message

    answer, calls = vet._answer, []

    def doubled(*given):
        calls.append(given)
        return answer(*calls[0 if len(calls) == 2 else -1])

    with monkeypatch.context() as patch:
        poison(patch, "parapet.transforms.crowd.vet._answer", WITH_ID, rows_of(gyms / "names.csv")[0]["AssignmentId"])
        assert "the answers about Gyms_1 could not be judged: KeyError" in refusal()
    monkeypatch.setattr(vet, "_answer", doubled)
    assert "the counts do not balance for answers_given" in refusal()


@pytest.mark.parametrize("target", some(("suspects_in", "_lines_of_files"), "_lines_of_files"))
def test_a_chat_that_raises(target, sample, tmp_path, monkeypatch):
    victim = "415-555-0132" if target == "_lines_of_files" else "under which number did you book"
    poison(monkeypatch, f"parapet.transforms.anonymise.writing.{target}", KeyError("Ann Lee"), victim)
    argv = ["anonymise", "--chats", sample / "chats.jsonl", "--output", tmp_path / "out", "--quiet"]
    made = run(*argv, max_bad="30%")
    assert made.errors.endswith(REPORTED)
    (letter,) = made.dead_letters
    assert letter["reason"].startswith("internal_error: KeyError (transforms/anonymise/writing.py:")
    assert letter["where"].startswith("line 1")
    assert "Ann Lee" not in (tmp_path / "out/dead_letters.jsonl").read_text()
    (chats,) = (tmp_path / "out/chats").iterdir()
    assert len(chats.read_text().splitlines()) == 4
    message = refused(*argv, status=1)
    assert "1 of 5 chats of --chats could not be anonymised" in message
    assert "Ann Lee" not in message


@pytest.mark.parametrize("target", some(("read_call", "rounds", "statements_of"), "rounds"))
def test_a_call_that_raises(target, tmp_path, monkeypatch):
    names = ["Mar13_S0A0/voip-1", "Mar13_S0A0/voip-2"]
    for name in names:
        asian_oriental(tmp_path / "dstc2", name)
    write_lists(tmp_path / "dstc2", train=names)
    poison(monkeypatch, f"parapet.transforms.simulators.task6.{target}", WITH_ID, names[1])
    made = run("babi_task6", "--quiet", logs=tmp_path / "dstc2", output=tmp_path / "out", max_bad="50%")
    assert made.errors.endswith(REPORTED)
    (letter,) = made.dead_letters
    assert letter["file"] == names[1]
    assert letter["reason"].startswith("internal_error: KeyError: ")
    counts = made.manifest["counts"]
    assert (counts["calls//train"], counts["dialogues//train"], counts["left_out//train"]) == (2, 1, 1)


NEEDED = {
    "reminders": ("--dialogues 3,0,2", "simulators.reminders_corpus.dialogue_text", "dialogue 0"),
    "restaurants": ("--tasks 1 --sizes 2", "simulators.restaurants_corpus.lines_of", "dialogue 0"),
    "statistics": ("--sgd {sample} --variants {variants}", "variants.table1.descriptions_of", "service: Gyms_1"),
    "back_translate": ("--schemas {sample}", "variants.back_translation.back_translated", "pt variant: Gyms_1"),
}


@pytest.mark.parametrize("name", some(NEEDED, "statistics"))
def test_a_record_that_a_run_cannot_do_without_is_named(name, sample, tmp_path, monkeypatch):
    flags, target, place = NEEDED[name]
    variants = tmp_path / "variants"
    shutil.copytree(sample, variants / "v1", ignore=shutil.ignore_patterns("dialogues*", "crowd"))
    poison(monkeypatch, f"parapet.transforms.{target}", WITH_ID, "Gyms_1" if "Gyms_1" in place else "")
    given = [flag.format(sample=sample, variants=variants) for flag in flags.split()]
    message = refused(name, *given, output=tmp_path / "out", status=1)
    assert f"{place}: a bug in Parapet: KeyError: 'A2RB7XC0WJHN5S' (transforms/" in message
    assert message.endswith(REPORTED)
    assert "Traceback" not in message
    assert not (tmp_path / "out/run.json").exists()
