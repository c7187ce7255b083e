"""``parapet.beam.ScoreStates``: the metrics of the command and of the function, and nothing lost in the join."""

import json

import apache_beam as beam
import pytest
from apache_beam.testing.util import assert_that, equal_to
from hypothesis import given, settings
from hypothesis import strategies as st
from kit import cases, raised
from state_predictions import CORPUS, DIALOGUES, PREDICTIONS, by_command, lines_of, metrics_of, wrong

import parapet
from parapet.schemas.layout import dialogue_bytes


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
