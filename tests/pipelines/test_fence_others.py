"""The fence around records that are no dialogues of a corpus: answers, assignments, services, chats, calls, turns."""

import shutil

import pytest
from dstc2_calls import asian_oriental, cheap_chinese, write_lists
from kit import json_of, refused, rows_of, run, write
from test_fence import doubled, poison, some

from parapet.schemas.errors import ISSUES

ERROR = KeyError("A2RB7XC0WJHN5S")  # which may be a worker's id
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


def test_a_bug_fails_the_run_with_the_name_of_the_service(gyms, tmp_path, monkeypatch):
    victim = rows_of(gyms / "names.csv")[0]["AssignmentId"]
    poison(monkeypatch, "parapet.transforms.crowd.vet._answer", ERROR, victim)
    message = compose(gyms / "schema.json", gyms, tmp_path / "out", status=1).errors
    assert "the answers about Gyms_1 could not be judged: KeyError" in message
    assert not (tmp_path / "out/run.json").exists()


def test_an_answer_lost_and_another_twice(gyms, tmp_path, monkeypatch):
    doubled(monkeypatch, "parapet.transforms.crowd.vet._answer")
    message = compose(gyms / "schema.json", gyms, tmp_path / "out", status=1).errors
    assert "the counts do not balance for answers_given" in message
    assert not (tmp_path / "out/run.json").exists()


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
    cheap_chinese(tmp_path / "dstc2", names[0])
    asian_oriental(tmp_path / "dstc2", names[1])
    write_lists(tmp_path / "dstc2", train=names)
    poison(monkeypatch, f"parapet.transforms.simulators.task6.{target}", ERROR, names[1])
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
    poison(monkeypatch, f"parapet.transforms.{target}", ERROR, "Gyms_1" if "Gyms_1" in place else "")
    given = [flag.format(sample=sample, variants=variants) for flag in flags.split()]
    message = refused(name, *given, output=tmp_path / "out", status=1)
    assert f"{place}: a bug in Parapet: KeyError: 'A2RB7XC0WJHN5S' (transforms/" in message
    assert message.endswith(REPORTED)
    assert "Traceback" not in message
    assert not (tmp_path / "out/run.json").exists()


class Broken:
    """A translation engine that knows no Japanese."""

    provider, model, parallel = "broken", "1", 1
    dollars_per_million = 0.0

    def translate(self, texts, source, target):
        return [{"zh": "x", "en": "y"}[target] + text for text in texts]


def test_an_engine_that_raises_costs_its_texts():
    from parapet.transforms.translate.memory import Batch
    from parapet.transforms.translate.translate import Untranslated, _Translate

    translate = _Translate(Broken(), "")
    ((outcomes, sent),) = translate._requests(Batch("en", "ja", ("a", "b")))
    assert (sent, [type(one) for one in outcomes]) == (0, [Untranslated, Untranslated])
    assert outcomes[0].reason.startswith("plugin_error: KeyError: 'ja' (test_fence_others.py:")
    ((outcomes, _),) = translate._requests(Batch("en", "zh", ("a", "b")))
    assert [one.translation for one in outcomes] == ["xa", "xb"]
