"""Vet rewritings automatically: answers that break a rule of the page are rejected, odd ones are held.

The rules of the page (``hit_rewrites.js``) are checked again because scripts may have been off; answers that it accepts
must not be rejected. Each answer gets at most one reason: the first that applies, rejections before reviews.
"""

from __future__ import annotations

import unicodedata
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import cached_property, lru_cache

import msgspec

from parapet.schemas.rows import Assignment, Kind
from parapet.transforms.crowd import lexicon
from parapet.transforms.crowd.hits.markup import find_word, speakable
from parapet.transforms.crowd.rewritten_turns.tasks import Place, SourceTurn, find_units, interchangeable
from parapet.transforms.crowd.rules import (
    ENGLISH_FROM_WORDS,
    PASS,
    PLACEHOLDERS,
    Verdict,
    first_verdict,
    is_too_fast,
)
from parapet.transforms.crowd.rules import EXPLANATIONS as SCHEMA_REASONS
from parapet.transforms.crowd.worker_ids import has_mask
from parapet.transforms.reports.text import clean, words
from parapet.transforms.variants.distance import levenshtein

# Reason id to an explanation for reviewers and requesters.
EXPLANATIONS = {
    **SCHEMA_REASONS,
    "placeholder": "A filler such as n/a, test or a compliment, not an answer.",
    "too_long": "Is far longer than the sentence.",
    "lost_value": "A slot value is missing or changed.",
    "copy": "Has the words of the sentence in the same order.",
    "too_many_typos": "More is changed than typing mistakes would.",
    "not_longer": "Should be longer, but has no more words.",
    "not_shorter": "Should be shorter, but has no fewer words.",
    "leaked_value": "Contains a value of the dialogue that the sentence does not contain.",
    "meaning": "A negation or a yes was added or removed: it may mean the opposite.",
    "other_number": "Contains other numbers than the sentence.",
    "swapped_values": "Two slots have the same value in this turn: once they are moved, it is unclear which is which.",
    "common_value": "Contains a common word that is also a value of the dialogue, but not of this sentence.",
    "near_original": "Differs from the sentence by two letters or fewer: looks mistyped rather than reworded.",
    "single_character": "Adds a single letter or digit that the sentence does not have.",
    "other_script": "Has letters of another script.",
    "same_answer": "The worker gave the same words in another field of the form.",
    "repeated_answer": "The worker gave the same words for several different sentences.",
    "not_drawn": "Another good answer was drawn at random.",
    "duplicate_of": "Has the same words as another answer for the turn and kind, which counts for both.",
}

# Placeholders of schema tasks that users do say to a dialogue system.
_SAYABLE = """
none, nothing, not sure, unsure, no idea, idk, i dont know, dont know, do not know, unknown, maybe, yes, no, ok, okay,
good, nice, great, very good, very nice, good job, nice job, thanks, thank you, hello, hi, same
"""
_FILLERS = PLACEHOLDERS - {tuple(phrase.split()) for phrase in _SAYABLE.split(",")}

# The same limits as on the page.
MORE_WORDS, MORE_LETTERS = 40, 300
TYPO_SHARE, TYPOS_ALWAYS = 0.3, 2
SHORT = 3  # words; shorter sentences need not become shorter

NEAR = 2  # letters
UNCOMMON = 4.0  # Zipf frequency; "jazz" is below it, "cheap" is not
_DAYS = "monday tuesday wednesday thursday friday saturday sunday today tonight tomorrow noon midnight"
_TELLING = frozenset(_DAYS.split())

# Shorter answers such as "Yes please" may be good for many turns.
LEAST_WORDS, LEAST_SENTENCES = 4, 3

_CURLY = "\u2018\u2019\u201c\u201d"
_STRAIGHT = str.maketrans(_CURLY, "''\"\"")

_YES_WORDS = "yes yeah yea yep yup"

# Other words of agreement, which may replace a yes or be replaced by one.
_AGREEING_WORDS = """
sure ok okay alright right correct exactly absolutely definitely certainly indeed agreed fine good great perfect
wonderful excellent sounds works please deal nice awesome cool confirm confirmed course true
"""

_NO_WORDS = """
no nope nah not never none nothing nobody neither nor without cannot cant dont doesnt didnt wont isnt arent wasnt
werent wouldnt couldnt shouldnt havent hasnt hadnt aint neednt mustnt
"""

_FROM_TWO = """
two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen sixteen seventeen eighteen nineteen
"""

_TENS = "twenty thirty forty fifty sixty seventy eighty ninety hundred"

_YES = frozenset(_YES_WORDS.split())

_AGREEING = _YES | frozenset(_AGREEING_WORDS.split())

_NO = frozenset(_NO_WORDS.split())

_ECHOES = {("i", "do"), ("we", "do"), ("it", "does"), ("that", "does")}

_NUMBERS = {
    **{word: str(n) for n, word in enumerate(_FROM_TWO.split(), 2)},
    **{word: str(10 * n) for n, word in enumerate(_TENS.split(), 2)},
    "couple": "2",
    "pair": "2",
    "thousand": "1000",
}


class Answer(msgspec.Struct, frozen=True, dict=True):
    """The input of the rules: an answer's text as it would be written to the output, and the turn."""

    kind: Kind
    text: str
    turn: SourceTurn

    @property
    def is_mistyped(self) -> bool:
        """Whether the answer must have typos."""
        return self.kind == "typos"

    @cached_property
    def words(self) -> tuple[str, ...]:
        """Return the words of the text."""
        return words_of(self.text)

    @cached_property
    def original(self) -> tuple[str, ...]:
        """Return the words of the sentence."""
        return words_of(self.turn.utterance)

    @cached_property
    def places(self) -> list[Place | None]:
        """Return the positions of the sentence's units."""
        return find_units(self.turn.units, self.text)

    @cached_property
    def own(self) -> str:
        """Return the text without the values."""
        text = self.text
        for start, end in sorted((place for place in self.places if place), reverse=True):
            text = f"{text[:start]} {text[end:]}"
        return " ".join(text.split())

    @cached_property
    def new_words(self) -> tuple[str, ...]:
        """Return the words that are not in the sentence."""
        known = set(self.original)
        return tuple(word for word in self.words if word not in known)

    @cached_property
    def leaks(self) -> list[str]:
        """Return values of the rest of the dialogue that occur in the text."""
        text = self.text.casefold()
        return [value for value in self.turn.others if value in text and find_word(text, value) is not None]


def vet_answer(answer: Answer) -> Verdict:
    """Vet an answer by its text alone."""
    return first_verdict(answer, _REJECT, _REVIEW)


def unacceptable(answer: Answer) -> str:
    """Return why not even a reviewer can accept an answer (lost values or no change), or an empty string."""
    if not answer.words:
        return "the text contains no word"
    lost = [unit.text for unit, place in zip(answer.turn.units, answer.places, strict=True) if place is None]
    if lost:
        return f"the text must contain {', '.join(map(repr, lost))} unchanged: use 'fix' with a text that keeps it"
    return "the text is identical to the sentence" if answer.text == answer.turn.utterance else ""


def vet_worker(assignment: Assignment, text: str, fields: list[str]) -> Verdict:
    """Vet an answer by how its assignment was filled in.

    Args:
      assignment: one worker's form.
      text: the answer.
      fields: the form fields to consider.
    """
    if assignment.rejected:
        return Verdict("reject", "assignment_rejected")
    answers = [words for field in fields if (words := words_of(assignment.answers.get(field, "")))]
    if answers.count(words_of(text)) > 1:
        return Verdict("review", "same_answer")
    if answers and is_too_fast(assignment, len(fields) if assignment.asked else len(answers)):
        return Verdict("review", "too_fast")
    return PASS


def flags(answer: Answer) -> Iterator[str]:
    """Yield every reason that applies, for the review page."""
    for reason, applies in (*_REJECT, *_REVIEW):
        if applies(answer):
            yield reason


def typo_bound(utterance: str) -> int:
    """Return the maximum number of letters that may be mistyped."""
    return max(TYPOS_ALWAYS, int(TYPO_SHARE * len(utterance)))


def _placeholder(answer: Answer) -> bool:
    return answer.words in _FILLERS and not set(answer.words) <= set(answer.original)


def _too_long(answer: Answer) -> bool:
    return (
        len(answer.words) > MORE_WORDS + len(answer.original)
        or len(answer.text) > MORE_LETTERS + len(answer.turn.utterance)
    )  # fmt: skip


def _too_many_typos(answer: Answer) -> bool:
    if answer.kind != "typos":
        return False
    return levenshtein(answer.text.lower(), answer.turn.utterance.lower()) > typo_bound(answer.turn.utterance)


def _not_shorter(answer: Answer) -> bool:
    if answer.kind != "simple":
        return False
    had = len(answer.original)
    most = max(had - 1 if had > SHORT else had, len(words_of(" ".join(answer.turn.values))))
    return len(answer.words) > most


def _is_telling(value: str) -> bool:
    """Whether a value is unlikely to occur by chance: several words, a longer number, a day, or a rare word."""
    value_words = words_of(value)
    if len(value_words) > 1 or (len(value) > 1 and any(map(str.isdigit, value))):
        return True
    return not value.isdigit() and (value in _TELLING or lexicon.word_frequency("".join(value_words)) < UNCOMMON)


def _meaning(answer: Answer) -> bool:
    if answer.kind == "typos":
        return turns_on(answer.original, answer.words)
    return turns_around(answer.original, answer.words, shorter=answer.kind == "simple")


def _near_original(answer: Answer) -> bool:
    if answer.kind != "paraphrase":
        return False
    return levenshtein(" ".join(answer.words), " ".join(answer.original)) <= NEAR


def _single_character(answer: Answer) -> bool:
    return (
        answer.kind != "typos"
        and lexicon.is_single_character(answer.text)
        and not set(answer.words) <= set(answer.original)
    )


def _other_script(answer: Answer) -> bool:
    if answer.text.isascii():
        return False
    known = set(answer.turn.utterance)
    return any(
        c.isalpha() and not c.isascii() and c not in known and not unicodedata.name(c, "").startswith("LATIN")
        for c in answer.text
    )


def _other_language(answer: Answer) -> bool:
    if answer.kind == "typos" or len(words_of(answer.own)) < ENGLISH_FROM_WORDS:
        return False
    return lexicon.language(answer.own) != "en"


def _profanity(answer: Answer) -> bool:
    known = set(lexicon.rude_words(answer.original))
    new = [rude for rude in lexicon.rude_words(answer.words) if rude not in known]
    if answer.kind == "typos":  # a typo, as in "I wang a room", is not rude
        new = [rude for rude in new if all(levenshtein(rude, word) > NEAR for word in answer.original)]
    return bool(new)


Rule = tuple[str, Callable[[Answer], bool]]

_REJECT: tuple[Rule, ...] = (
    ("blank", lambda answer: not answer.words),
    ("too_long", _too_long),  # first, to keep the other rules from reading long texts
    ("worker_id", lambda answer: has_mask(answer.text)),
    ("markup", lambda answer: lexicon.has_markup(answer.text) and not lexicon.has_markup(answer.turn.utterance)),
    ("placeholder", _placeholder),
    ("lost_value", lambda answer: None in answer.places),
    ("copy", lambda answer: answer.words == answer.original),
    ("too_many_typos", _too_many_typos),
    ("not_longer", lambda answer: answer.kind == "verbose" and len(answer.words) <= len(answer.original)),
    ("not_shorter", _not_shorter),
    ("leaked_value", lambda answer: any(map(_is_telling, answer.leaks))),
)
_REVIEW: tuple[Rule, ...] = (
    ("single_character", _single_character),
    ("gibberish", lambda answer: not answer.is_mistyped and lexicon.is_gibberish(" ".join(answer.new_words))),
    ("other_script", _other_script),
    ("other_language", _other_language),
    ("meaning", _meaning),
    ("other_number", lambda answer: not answer.is_mistyped and other_numbers(answer.turn.utterance, answer.text)),
    ("swapped_values", lambda answer: not answer.is_mistyped and interchangeable(answer.turn.units)),
    ("common_value", lambda answer: bool(answer.leaks)),
    ("near_original", _near_original),
    ("profanity", _profanity),
    ("unknown_word", lambda answer: not answer.is_mistyped and bool(lexicon.unknown_words(answer.new_words))),
)


def repeated_answers(answers: Iterable[tuple[str, str, str]]) -> list[tuple[str, tuple[str, ...]]]:
    """Return the (worker hash, words) of answers that a worker gave for several different sentences.

    Args:
      answers: (worker hash, text, the sentence it rewrites) of all answers.
    """
    sentences: dict[tuple[str, tuple[str, ...]], set[tuple[str, ...]]] = defaultdict(set)
    for worker, text, sentence in answers:
        written = words_of(text)
        if len(written) >= LEAST_WORDS:
            sentences[worker, written].add(words_of(sentence))
    return [key for key, of_text in sentences.items() if len(of_text) >= LEAST_SENTENCES]


def canonical_text(text: str, original: str) -> str:
    """Normalise spaces, invisible characters, quotes and accents, unless the original sentence has such characters.

    Letters and their case are unchanged, since values must be kept and typos are intended.

    Args:
      text: the text as typed.
      original: the sentence to be rewritten, as the page shows it.
    """
    text = speakable(text)
    if text.isascii():
        return text
    if not any(quote in original for quote in _CURLY):
        text = text.translate(_STRAIGHT)
    kept = set(original)
    text = "".join(c for c in text if c.isascii() or c in kept or c.isspace() or clean(c))
    if unicodedata.is_normalized("NFC", original):
        text = unicodedata.normalize("NFC", text)
    return " ".join(text.split())


@lru_cache(maxsize=1 << 14)
def words_of(text: str) -> tuple[str, ...]:
    """Split a text into the words by which equal texts are recognised, as the page does."""
    return words(text if text.isascii() else unicodedata.normalize("NFKC", text))


def turns_around(original: Sequence[str], answer: Sequence[str], shorter: bool = False) -> bool:
    """Whether a negation or a yes was added or removed.

    Args:
      original: the words of the sentence.
      answer: the words of its rewriting.
      shorter: whether the rewriting must be shorter; then a yes may be removed.
    """
    before, after = set(original), set(answer)
    if bool(before & _NO) != bool(after & _NO):
        return True
    came = bool(after & _YES) and not _agrees(original)
    went = bool(before & _YES) and not _agrees(answer) and not shorter
    return came or went


def _agrees(text: Sequence[str]) -> bool:
    return not _AGREEING.isdisjoint(text) or tuple(text[:2]) in _ECHOES


def turns_on(original: Sequence[str], answer: Sequence[str]) -> bool:
    """Whether a yes or a negation was added; in a sentence with typos, one may be removed."""
    before, after = set(original), set(answer)
    return any(after & signs and not before & signs for signs in (_YES, _NO))


def other_numbers(original: str, answer: str) -> bool:
    """Whether two texts contain different numbers; "one" is ignored because of phrases like "the cheaper one"."""
    return _numbers(original) != _numbers(answer)


def _numbers(text: str) -> set[str]:
    numbers = (_NUMBERS.get(word, word) for word in words(text))
    return {word for word in numbers if word.isdigit()} - {"1"}


RewriteText = Answer
