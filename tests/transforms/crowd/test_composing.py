"""Nothing is lost: faults put into the composition must fail the run, unpublished; and how the audit is written."""

from hypothesis import given
from hypothesis import strategies as st
from kit import cases, run

from parapet.transforms.crowd import composing, services
from parapet.transforms.crowd.lexicon import _profanity, rude_words, spelling_rank
from parapet.transforms.crowd.services import SchemaTask, settle_service
from parapet.transforms.reports.text import words


def losing(*args, **options):
    outcome = settle_service(*args, **options)
    del outcome.audit[3]
    return outcome


settle, merge = SchemaTask.settle, composing.merge


@cases(
    "holder name lossy balance",
    (services, "settle_service", losing, "answers_given"),
    (SchemaTask, "settle", lambda self, assignments, _: settle(self, assignments[1:], {}), "assignments"),
    (composing, "merge", lambda read, decisions: merge(read[1:], decisions), "assignments_read"),
)
def test_what_gets_lost_fails_the_run(holder, name, lossy, balance, tmp_path, monkeypatch):
    monkeypatch.setattr(holder, name, lossy)
    result = run("compose", output=tmp_path / "out", status=1)
    assert f"balance for {balance}" in result.errors
    assert not {"run.json", "responses.parquet"} & result.files.keys()


#


def rank(canonical, typed=None):
    return spelling_rank(canonical, words(canonical), canonical if typed is None else typed)


@given(st.text(), st.text())
def test_any_text_has_a_rank(canonical, typed):
    assert len(rank(canonical, typed)) == len(rank("a"))
    assert all(part >= 0 for part in rank(canonical, typed))


#


RUDE = sorted(_profanity())
PHRASES = [*RUDE[:200], *(phrase for phrase in RUDE if " " in phrase), "of a"]
WORDS = st.sampled_from(sorted({word for phrase in PHRASES for word in phrase.split()}))


@given(st.lists(WORDS, max_size=8).map(tuple))
def test_rude_words_are_those_of_all_runs(words):
    runs = [" ".join(words[i : i + n]) for n in (1, 2, 3) for i in range(len(words) - n + 1)]
    assert rude_words(words) == [run for run in runs if run in RUDE]
