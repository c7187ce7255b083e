from hypothesis import given
from hypothesis import strategies as st

from parapet.transforms.crowd.lexicon import _profanity, rude_words

RUDE = sorted(_profanity()[0])
PHRASES = [*RUDE[:200], *(phrase for phrase in RUDE if " " in phrase), "of a"]
WORDS = st.sampled_from(sorted({word for phrase in PHRASES for word in phrase.split()}))


@given(st.lists(WORDS, max_size=8).map(tuple))
def test_rude_words_are_those_of_all_runs(words):
    runs = [" ".join(words[i : i + n]) for n in (1, 2, 3) for i in range(len(words) - n + 1)]
    assert rude_words(words) == [run for run in runs if run in RUDE]
