"""Nothing is lost: faults put into the composition must fail the run, unpublished; and how the audit is written."""

from hypothesis import given
from hypothesis import strategies as st
from kit import run

from parapet.transforms.crowd import composing, services
from parapet.transforms.crowd.lexicon import _profanity, rude_words, spelling_rank
from parapet.transforms.crowd.services import SchemaTask, settle_service
from parapet.transforms.reports.text import words


def failing(out):
    """What a run says that fails, and publishes nothing."""
    said = run("compose", output=out, status=1).errors
    assert not (out / "run.json").exists()
    assert not (out / "responses.parquet").exists()
    return said


def test_an_answer_that_a_service_loses_fails_the_run(tmp_path, monkeypatch):
    def losing(*args, **options):
        outcome = settle_service(*args, **options)
        del outcome.audit[3]
        return outcome

    monkeypatch.setattr(services, "settle_service", losing)
    assert "balance for answers_given" in failing(tmp_path / "out")


def test_assignments_lost_on_the_way_to_their_service_fail_the_run(tmp_path, monkeypatch):
    settle = SchemaTask.settle
    monkeypatch.setattr(SchemaTask, "settle", lambda self, assignments, decisions: settle(self, assignments[1:], {}))
    assert "balance for assignments" in failing(tmp_path / "out")


def test_assignments_lost_after_reading_fail_the_run(tmp_path, monkeypatch):
    merge = composing.merge
    monkeypatch.setattr(composing, "merge", lambda read, decisions: merge(read[1:], decisions))
    assert "balance for assignments_read" in failing(tmp_path / "out")


#


def rank(canonical, typed=None):
    return spelling_rank(canonical, words(canonical), canonical if typed is None else typed)


@given(st.text(), st.text())
def test_any_text_has_a_rank(canonical, typed):
    assert len(rank(canonical, typed)) == len(rank("a"))
    assert all(part >= 0 for part in rank(canonical, typed))


#


RUDE = sorted(_profanity()[0])
PHRASES = [*RUDE[:200], *(phrase for phrase in RUDE if " " in phrase), "of a"]
WORDS = st.sampled_from(sorted({word for phrase in PHRASES for word in phrase.split()}))


@given(st.lists(WORDS, max_size=8).map(tuple))
def test_rude_words_are_those_of_all_runs(words):
    runs = [" ".join(words[i : i + n]) for n in (1, 2, 3) for i in range(len(words) - n + 1)]
    assert rude_words(words) == [run for run in runs if run in RUDE]
