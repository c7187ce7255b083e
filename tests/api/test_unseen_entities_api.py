"""``parapet.perturb(corpus, "unseen_entities")`` gives what the command writes, and refuses what it cannot use."""

import pytest

import parapet


def test_what_was_seen_must_be_known():
    sample = parapet.load_corpus()
    corpus = parapet.corpus_of({"test": sample.dialogues("test")}, {"test": sample.services("test")})
    message = r"^nobody knows what was seen .there are no dialogues in 'train'; there are in: test.; give training ROOT"
    with pytest.raises(parapet.InputError, match=message):
        parapet.perturb(corpus, "unseen_entities")
