"""What is compared of utterances: their words, and those of them that say what they are about."""

from __future__ import annotations

from functools import cache
from importlib.util import find_spec
from pathlib import Path
from runpy import run_path

from parapet.transforms.text import words

CONTENT = 3  # an utterance with fewer content words could be said in any dialogue

# Courtesies, answers and requests of any domain, with contractions as ``words`` writes them, besides stopwords.
_FILLERS = """
absolutely actually alright appreciate assist assistance available awesome bye cant change choice choices confirm cool
correct day didnt doesnt dont else exactly excellent find fine get getting give glad going good goodbye got great
happy hello help helpful hey hi hmm hope id ill im instead isnt its ive know let lets like look looking lot love
lovely maybe mind moment need needs nice no nope number oh ok okay option options people perfect perhaps please prefer
right search sorry sound sounds sure tell thank thanks thankyou thats theres thing things think thinking try wait want
wants way welcome whats wonder wonderful wont work works wouldnt yeah yep yes youre yup
"""

# A date, a time or a count answers a question of any domain.
_DATES = """
january february march april may june july august september october november december monday tuesday wednesday
thursday friday saturday sunday today tomorrow tonight morning afternoon evening night noon midnight week weekend next
later ago hour minute year am pm oclock half past date time first second third
"""


@cache
def stopwords() -> frozenset[str]:
    """The words that say nothing of what an utterance is about: spaCy's English ones, fillers and dates."""
    spec = find_spec("spacy")
    place = (spec.submodule_search_locations if spec else None) or [""]
    # The list alone: all of spaCy takes two seconds to import, in each worker.
    stops = run_path(str(Path(place[0]) / "lang" / "en" / "stop_words.py"))["STOP_WORDS"]
    return frozenset(word for stop in stops for word in words(stop)) | {*_FILLERS.split(), *_DATES.split()}


def key_of(text: str) -> str:
    """The text by which utterances are the same: lower-cased words without punctuation, parted by blanks."""
    return " ".join(words(text))


def content_words(key: str, stops: frozenset[str]) -> frozenset[str]:
    """The words of a key that are neither stopwords nor begin with a digit."""
    return frozenset(word for word in key.split() if word not in stops and not word[0].isdigit())
