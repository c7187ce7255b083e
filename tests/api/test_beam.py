"""``parapet.beam`` on PCollections of dialogues and predictions: those of the API, and nothing is lost."""

import json
import re
from collections import Counter
from pathlib import Path
from typing import Any

import apache_beam as beam
import pytest
from apache_beam.options.pipeline_options import PipelineOptions
from apache_beam.testing.util import assert_that, equal_to
from hypothesis import given, settings
from hypothesis import strategies as st
from kit import THOROUGH, TWO_WORKERS, cases, raised, write
from state_predictions import CORPUS, DIALOGUES, PREDICTIONS, by_command, lines_of, metrics_of, wrong
from test_same_as_commands import FOREIGN

import parapet
from parapet.schemas.layout import dialogue_bytes, sample_root

TEST = sample_root() / "test"
ROOT = Path(__file__).parents[2]
BROKEN = [{"dialogue_id": "broken"}, {"turns": []}, {"turns": [], "services": []}]
OF_BROKEN = ["broken", "[0]", "[0]"]  # their ids in dead letters


@pytest.fixture(scope="module")
def dialogues():
    return list(parapet.load_corpus(TEST).dialogues())


@pytest.fixture(scope="module")
def source(tmp_path_factory):
    return write(tmp_path_factory.mktemp("source") / "foreign.txt", "\n".join(FOREIGN) + "\n")


def same(expected):
    """A check that a PCollection has these elements, in any order."""
    wanted = sorted(json.dumps(one, sort_keys=True) for one in expected)

    def check(found):
        assert sorted(json.dumps(one, sort_keys=True) for one in found) == wanted

    return check


@pytest.mark.parametrize("flags", [[], TWO_WORKERS] if THOROUGH else [TWO_WORKERS])
def test_it_gives_what_the_api_gives_and_loses_nothing(dialogues, source, flags):
    """Every dialogue is in exactly one output, and the others are what they are without the broken ones."""
    ood, unseen = {"source": source, "seed": 3}, {"training": sample_root(), "seed": 2}
    odd = {**dialogues[0], "dialogue_id": "odd", "extra": {1, 2}}
    own = parapet.perturb(TEST, "ood", rates=0.05)
    rows = Counter(row["label"] for row in own.rows.to_pylist())
    assert rows["ood"] == int(0.05 * rows["in_domain"] + 0.5) > 0
    with beam.Pipeline("FnApiRunner", options=PipelineOptions(flags)) as pipeline:
        read = pipeline | beam.Create([*BROKEN, *dialogues])
        for name, options in (("typos", {"seed": 1}), ("unseen_entities", unseen), ("ood", {**ood, "rates": 0.3})):
            expected = parapet.perturb(TEST, name, **options)
            more = [read, pipeline | "Odd" >> beam.Create([odd])] if name == "ood" else [read]
            given = more | f"All of {name}" >> beam.Flatten()
            outputs = given | parapet.beam.Perturb(name, corpus=TEST, **options).with_outputs()
            letters = outputs.dead_letters | name >> beam.Map(
                lambda one: [one.dialogue_id, one.reason.partition(":")[0]]
            )
            wrong = [[name, "not_sgd"] for name in OF_BROKEN] + [["odd", "is not JSON"]] * (name == "ood")
            assert_that(outputs.dialogues, same(expected.dialogues()), f"dialogues of {name}")
            assert_that(outputs.rows, same(expected.rows.to_pylist()), f"rows of {name}")
            assert_that(letters, same(wrong), f"dead letters of {name}")
        whole = pipeline | "Whole" >> beam.Create(dialogues)
        perturbed = whole | parapet.beam.Perturb("ood", set_name="ood-50", corpus=TEST, rates=(0.2, 0.5), **ood)
        expected = parapet.perturb_sets(TEST, "ood", rates=(0.2, 0.5), **ood)["ood-50"]
        assert_that(perturbed, same(expected.dialogues()), "of a source")
        perturbed = whole | parapet.beam.Perturb("ood", rates=0.05, corpus=TEST)
        assert_that(perturbed, same(own.dialogues()), "own utterances")


@cases(
    "name bad message",
    ("typos", {"dialogue_id": "b"}, r"^dialogue b: not_sgd: Object missing required field `services`"),
    ("ood", "again", r"^dialogue 1_00000: 2 dialogues have this id"),
)
def test_the_first_bad_dialogue_fails_the_pipeline(dialogues, source, name, bad, message):
    options = {"rates": 0.3, "source": source} if name == "ood" else {}
    pipeline = beam.Pipeline("FnApiRunner")
    bad = dialogues[0] if bad == "again" else bad
    _ = pipeline | beam.Create([*dialogues, bad]) | parapet.beam.Perturb(name, corpus=TEST, **options)
    raised(parapet.InputError, lambda: pipeline.run().wait_until_finish(), match=message)


VARIANTS = {
    name: {"test": [dict(one, service_name=one["service_name"] + name) for one in parapet.load_corpus(TEST).services()]}
    for name in ("v1", "v2")
}


def test_variants_are_those_of_the_api(dialogues):
    expected = parapet.apply_variants(TEST, VARIANTS)
    pairs = [[name, dialogue] for name, corpus in expected.items() for dialogue in corpus.dialogues()]
    assert len(pairs) == 2 * len(dialogues)
    foreign = {**dialogues[0], "dialogue_id": "foreign", "services": ["Nobodys_1"]}
    with beam.Pipeline("FnApiRunner") as pipeline:
        read = pipeline | beam.Create([*dialogues, foreign, *BROKEN])
        outputs = read | parapet.beam.ApplyVariants(VARIANTS, corpus=TEST).with_outputs()
        letters = outputs.dead_letters | beam.Map(lambda one: [one.dialogue_id, one.variant])
        assert_that(outputs.dialogues, same(pairs), "dialogues")
        of_broken = [[name, ""] for name in OF_BROKEN]
        assert_that(letters, same([["foreign", "v1"], ["foreign", "v2"], *of_broken]), "dead letters")


@cases(
    "transform",
    lambda: parapet.beam.Perturb("typos"),
    lambda: parapet.beam.Perturb("ood", rates=0.1, corpus=TEST).with_outputs(),
    lambda: parapet.beam.ApplyVariants(VARIANTS, corpus=TEST).with_outputs(),
)
def test_texts_are_refused_when_the_pipeline_is_made(transform):
    pipeline = beam.Pipeline("FnApiRunner")
    with pytest.raises(beam.typehints.TypeCheckError, match=r"expected Dict.*, got <class 'str'>"):
        _ = pipeline | beam.Create(["a text"]) | transform()


def test_labels_can_be_read():
    pipeline = beam.Pipeline("FnApiRunner")
    read = pipeline | beam.Create([]).with_output_types(dict[str, Any])
    for name, options in (("typos", {}), ("typos", {"env": 0.5, "set_name": "typos-env1"}), ("ood", {"rates": 0.1})):
        _ = read | parapet.beam.Perturb(name, corpus=TEST, **options)
    _ = read | parapet.beam.ApplyVariants(VARIANTS, corpus=TEST)
    labels = pipeline.applied_labels
    top = {label.partition("/")[0] for label in labels} - {"", "Create"}
    assert top == {"Perturb(typos)", "Perturb(typos-env1)", "Perturb(ood-10)", "ApplyVariants"}
    ours = "|".join(path.name for folder in ("parapet", "transforms") for path in (ROOT / folder).rglob("*.py"))
    assert not [label for label in labels if re.search(rf"<lambda at ({ours})", label)]
    assert "Perturb(ood-10)/Read file" in {label.rpartition("/")[0] for label in labels}


@cases(
    "name options message",
    ("ood", {"rates": 0.1}, r"^ood learns from a corpus: give corpus=parapet.load_corpus"),
    ("ood", {"corpus": TEST}, r"^ood makes 3 sets: set_name is required and must be one of ood-10, ood-20, ood-50$"),
    ("ood", {"rates": 0.1, "corpus": "nowhere"}, r"^nowhere: there is no such file or folder$"),
)
def test_mistakes(name, options, message):
    raised(parapet.InputError, parapet.beam.Perturb, name, match=message, **options)


def test_no_dialogues_and_what_it_gives_has_a_type(source):
    ood = parapet.beam.Perturb("ood", rates=0.3, source=source, corpus=TEST)
    with beam.Pipeline("FnApiRunner") as pipeline:
        none = pipeline | beam.Create([]).with_output_types(dict[str, Any])
        assert_that((none | ood.with_outputs()).dialogues, same([]))
        assert (none | parapet.beam.Perturb("typos")).element_type == none.element_type
        renamed = none | parapet.beam.ApplyVariants(VARIANTS, corpus=TEST)
        assert renamed.element_type == beam.typehints.Tuple[str, none.element_type]


def in_pipeline(references, predictions, expected, **options):
    with beam.Pipeline() as pipeline:
        metrics = {
            "references": pipeline | "References" >> beam.Create(references),
            "predictions": pipeline | "Predictions" >> beam.Create(predictions),
        } | parapet.beam.ScoreStates(corpus=CORPUS, split="test", **options)
        assert_that(metrics, equal_to([expected]))


def test_lines_and_pairs_are_taken_by_a_pipeline_too():
    expected = parapet.score_states(CORPUS, PREDICTIONS, across_turn=True, fuzzy=False).metrics
    in_pipeline(DIALOGUES, lines_of(PREDICTIONS), expected, across_turn=True, fuzzy=False)
    with beam.Pipeline() as pipeline:
        pair = (pipeline | "R" >> beam.Create(DIALOGUES), pipeline | "P" >> beam.Create(PREDICTIONS))
        metrics = pair | parapet.beam.ScoreStates(corpus=CORPUS, seen=[])
        assert_that(metrics, equal_to([parapet.score_states(CORPUS, PREDICTIONS, seen=[]).metrics]))


@cases(
    "references predictions reason",
    (DIALOGUES, PREDICTIONS[1:], f"no prediction for dialogue {DIALOGUES[0]['dialogue_id']!r}"),
    (DIALOGUES[1:], PREDICTIONS, f"the reference lacks, such as {DIALOGUES[0]['dialogue_id']!r}"),
    (DIALOGUES[:1] * 2, PREDICTIONS[:1], "appears twice"),
    (DIALOGUES[:1], PREDICTIONS[:1] * 2, "appears twice"),
    (DIALOGUES[:1], [{"turns": []}], "a dialogue has no dialogue_id"),
)
def test_a_dialogue_that_is_not_on_both_sides_fails_the_pipeline(references, predictions, reason):
    raised(Exception, in_pipeline, references, predictions, None, match=reason)


@pytest.mark.thorough
@given(st.integers(0, 10_000), st.floats(0, 1), st.integers(1, len(DIALOGUES)))
@settings(max_examples=3)
def test_any_predictions_give_the_same_in_memory_in_files_and_in_a_pipeline(tmp_path_factory, seed, share, n):
    references, predicted = DIALOGUES[:n], wrong(DIALOGUES[:n], seed, share)
    found = parapet.score_states(references, predicted, schemas=CORPUS.services("test"), seen=[])
    folder = tmp_path_factory.mktemp("corpus")
    cut = seed % (n + 1)
    for root, dialogues in (("references", references), ("predictions", predicted)):
        (folder / root / "test").mkdir(parents=True)
        for name, part in (("dialogues_001.json", dialogues[:cut]), ("dialogues_002.json", dialogues[cut:])):
            (folder / root / "test" / name).write_bytes(dialogue_bytes(part))
    (folder / "references" / "test" / "schema.json").write_text(json.dumps(CORPUS.services("test")))
    flags = ["--reference", folder / "references", "--predictions", folder / "predictions"]
    assert metrics_of(by_command(folder / "out", *flags)) == found.metrics
    assert parapet.score_states(folder / "references", folder / "predictions").metrics == found.metrics
    in_pipeline(references, predicted, found.metrics, seen=[])


def test_official_passes_over_what_is_missing_as_the_function_does():
    some = parapet.score_states(CORPUS, PREDICTIONS[2:], official=True)
    assert some.passed_over == {"missing_dialogues": 2, "missing_turns": 0, "unknown_slots": 0}
    in_pipeline(DIALOGUES, PREDICTIONS[2:], some.metrics, official=True)
