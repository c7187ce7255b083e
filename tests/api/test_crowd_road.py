"""The transforms of the crowd road in a user's own pipelines: the program of ``docs/running.md``, and each of them."""

import json
import pickle
import re
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

import apache_beam as beam
import pytest
from apache_beam.testing.util import assert_that, equal_to
from kit import cases, raised, rows_of, write

import parapet.beam
from parapet.schemas.decisions import Decision
from parapet.schemas.errors import InputError
from parapet.schemas.layout import sample_root
from parapet.schemas.rows import Assignment

PAGE = (Path(__file__).parents[2] / "docs" / "running.md").read_text(encoding="utf-8")
(PROGRAM,) = re.findall(r"^```python run\n(.*?)^```$", PAGE, re.M | re.S)
CROWD = sample_root() / "crowd"
FILES = [CROWD / "names.csv", CROWD / "descriptions.csv"]


def line_of(row):
    """A row of the sample as a user's table may have it."""
    answers = {name.removeprefix("Answer."): text for name, text in row.items() if name.startswith("Answer.")}
    answers = {name: text for name, text in answers.items() if text or name in row.get("Input.fields", "").split()}
    line = {name: row[name] for name in ("AssignmentId", "WorkerId", "AcceptTime", "SubmitTime")}
    return {**line, "RequesterAnnotation": row["Input.task_id"], "Source": "mturk", "Answers": answers}


@cases(
    "flags",
    pytest.param(
        ["--runner=FnApiRunner", "--direct_num_workers=2", "--direct_running_mode=multi_processing"],
        marks=pytest.mark.thorough,
    ),
    ["--runner=PortableRunner", "--job_endpoint=embed", "--environment_type=LOOPBACK"],
)
@pytest.mark.usefixtures("bundled_sample")
def test_a_users_pipeline_gives_the_variants_of_the_command(flags, tmp_path):
    lines = [line_of(row) for path in FILES for row in rows_of(path)]
    answers = write(tmp_path / "answers.jsonl", [*lines, {"AssignmentId": "3ODD"}])
    places = [sample_root(), answers, CROWD / "decisions.csv", tmp_path / "out"]
    program = [sys.executable, write(tmp_path / "program.py", PROGRAM), *places, *flags]
    subprocess.run(program, check=True, capture_output=True)
    services = {service.pop("service"): service for service in rows_of(tmp_path / "out/variants.jsonl")}
    composition = parapet.compose(sample_root(), FILES, CROWD / "decisions.csv", seed=1)
    assert services == {
        service["service_name"][:-1]: {name: variant_of(composition, name, service) for name in composition.variants}
        for of_split in composition.variants["v1"].values()
        for service in of_split
    }
    (letter,) = (tmp_path / "out/dead_letters.txt").read_text(encoding="utf-8").splitlines()
    assert letter.startswith("3ODD ")


def variant_of(composition, name, service):
    wanted = service["service_name"][:-1] + name[1:]
    return next(s for split in composition.variants[name].values() for s in split if s["service_name"] == wanted)


def keep(records, path):
    """Keeps the records of a collection in a file."""

    def append(record):
        with path.open("ab") as file:
            pickle.dump(record, file)

    path.touch()
    _ = records | f"Keep {path.name}" >> beam.Map(append)


def kept(path):
    with path.open("rb") as file, suppress(EOFError):
        while True:
            yield pickle.load(file)


def answers_of(folder, records, **vet):
    """The vetted answers to records, and the dead letters, of a pipeline."""
    with beam.Pipeline(runner="FnApiRunner") as pipeline:
        vetted = pipeline | beam.Create(records) | parapet.beam.Vet(sample_root(), **vet).with_outputs()
        keep(vetted.answers, folder / "answers")
        keep(vetted.dead_letters, folder / "dead")
    return {answer.response_id: answer for _, answer in kept(folder / "answers")}, list(kept(folder / "dead"))


def assignment(**facts):
    base = {"assignment_id": "3A", "service_name": "Gyms_1", "task": "names", "worker_hash": "w"}
    return Assignment(**{**base, "answers": {"slot_0": "town of the club"}, **facts})


def test_functions_are_vetting_rules(tmp_path):
    def mentions_a_club(answer):
        """Names a competitor."""
        return "club: not our word" if "club" in answer.words else None

    def too_short(answer):
        return "too_short" if len(answer.words) < 3 else None

    too_short.action = "reject"
    other = assignment(assignment_id="3B", worker_hash="x", answers={"slot_0": "place"})
    answers, _ = answers_of(tmp_path, [assignment(), other], rules=[mentions_a_club, too_short])
    fates = {key: (answer.disposition, answer.reason) for key, answer in answers.items()}
    assert fates == {"3A:slot_0": ("review", "club: not our word"), "3B:slot_0": ("rejected", "too_short")}
    assert "club: not our word" in answers["3A:slot_0"].flags


def test_decisions_and_what_cannot_be_used(tmp_path):
    decisions = [Decision("3A:slot_0", "reject", reason="odd"), Decision("3X:slot_0", "accept", source="d.csv: row 3")]
    records = [assignment(), assignment(assignment_id="3B", service_name="Gyms_9"), {"AssignmentId": "3C"}, {}]
    answers, dead = answers_of(tmp_path, records, decisions=decisions)
    assert [(answer.disposition, answer.reason) for answer in answers.values()] == [("rejected", "reviewer: odd")]
    reasons = sorted((letter.key, letter.reason.partition(":")[0]) for letter in dead)
    assert [reason for _, reason in reasons if reason.startswith("unknown_")] == ["unknown_service", "unknown_response"]
    assert len(reasons) == 4


def test_the_words_of_two_people_count_once_and_so_does_a_form_of_two_exports():
    same = assignment(assignment_id="3B", worker_hash="x", answers={"slot_0": "Town of the Club"})
    with beam.Pipeline(runner="FnApiRunner") as pipeline:
        forms = pipeline | beam.Create([assignment(source="a.csv"), same, assignment(source="b.jsonl")])
        vetted = forms | parapet.beam.Dedupe() | parapet.beam.Vet(sample_root())
        fates = vetted | beam.MapTuple(lambda service, answer: (service, answer.disposition))
        assert_that(fates, equal_to([("Gyms_1", "surplus"), ("Gyms_1", "duplicate")]))


def test_rankings_of_other_schemas_are_dead_letters_and_what_is_missing_is_an_output(sample, tmp_path):
    services = json.loads((sample / "test/schema.json").read_bytes())[:2]
    names = {service["service_name"] for service in services}
    with beam.Pipeline(runner="FnApiRunner") as pipeline:
        vetted = pipeline | parapet.beam.ReadAnswers(FILES) | parapet.beam.Dedupe() | parapet.beam.Vet(sample)
        made = vetted | parapet.beam.Rank() | parapet.beam.Compose(services).with_outputs()
        keep(made.dead_letters, tmp_path / "dead")
        keep(made.composed, tmp_path / "composed")
    composed = dict(kept(tmp_path / "composed"))
    assert composed.keys() == names
    assert all(outcome.short for outcome in composed.values() if not outcome.variants)
    dead = list(kept(tmp_path / "dead"))
    assert {letter.reason.partition(":")[0] for letter in dead} == {"unknown_element"}
    assert not {letter.key.partition("/")[0] for letter in dead} & names


@cases(
    "make message",
    (lambda: parapet.beam.ReadAnswers("none.csv"), "there is no such file"),
    (lambda: parapet.beam.ReadAnswers(FILES, encoding="utf-99"), "is not a text encoding"),
    (lambda: parapet.beam.Vet("none"), "none"),
    (lambda: parapet.beam.Vet(sample_root(), FILES[0]), "missing columns"),
    (lambda: parapet.beam.Rank("cosine"), "there is no distance 'cosine'"),
    (lambda: parapet.beam.Rank(selection="best"), "must be 'random' or 'diverse'"),
)
def test_mistakes_are_told_where_the_pipeline_is_built(make, message):
    assert message in str(raised(InputError, make))
