"""The turn of a rewriting task with the values that must be kept, and the rules that vet its rewritings.

Answers that break a rule of the page are rejected, odd ones are held. The rules of the page (``hit_rewrites.js``) are
checked again because scripts may have been off; answers that it accepts must not be rejected. Rules and their
explanations are as in ``crowd.rules``; a rule without docstring has the explanation of the rule for schemas.
"""

import re
import unicodedata
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cached_property, lru_cache
from typing import Any

import msgspec

from parapet.schemas.dialogue import Dialogue, Frame
from parapet.schemas.errors import InputError
from parapet.schemas.rows import KINDS, Assignment, Kind
from parapet.transforms.crowd import answer_files, lexicon, rules
from parapet.transforms.crowd.hits import dialogue_pages, page, terms
from parapet.transforms.crowd.hits.dialogue_pages import Mark, find_word, speakable
from parapet.transforms.perturb import corpora, edits
from parapet.transforms.report.text import clean, words
from parapet.transforms.variants.distance import levenshtein

# The form field of the page for each kind of variation.
FIELD_OF: Mapping[Kind, str] = dict(zip(KINDS, dialogue_pages.FIELDS, strict=True))

_TASK_ID = re.compile(r"(?P<service>.+:(?:0|[1-9][0-9]{0,8})):(?P<task>rewrites)")
_FIELD = re.compile("|".join(dialogue_pages.FIELDS))
REWRITING_TASKS = answer_files.TaskKind((terms.REWRITES,), _TASK_ID, "DIALOGUE_ID:TURN:rewrites", _FIELD)

# Values of states and actions that do not occur as words.
_UNSAID = frozenset({"", "true", "false", "dontcare", "none", "yes", "no"})


Place = tuple[int, int]


class Unit(msgspec.Struct, frozen=True):
    """A piece of text that must be kept: a value, or several overlapping values.

    Attributes:
      text: the text as the page shows it.
      marks: the values in it.
      whole: whether it consists of whole words; a span may be off by a letter.
    """

    text: str
    marks: tuple[Mark, ...]
    whole: bool


class SourceTurn(msgspec.Struct, frozen=True):
    """A user's turn that was to be rewritten.

    Attributes:
      services: the services of the turn, joined.
      before: the previous turn, as the page shows it; empty at the beginning of the dialogue.
      utterance: the sentence, as the page shows it.
      units: the texts that every rewriting must keep.
      others: values elsewhere in the dialogue that this turn neither contains nor means, in lower case.
    """

    dialogue_id: str
    turn: int
    services: str
    before: str
    utterance: str
    units: tuple[Unit, ...]
    others: tuple[str, ...]

    @property
    def place(self) -> str:
        """Returns ``DIALOGUE_ID:TURN``."""
        return f"{self.dialogue_id}:{self.turn}"


def source_turn(dialogue: Dialogue, position: int) -> SourceTurn | str:
    """Returns the turn that was to be rewritten, or the reason why it cannot have been."""
    if not 0 <= position < len(dialogue.turns):
        return f"unknown_turn: the dialogue has {len(dialogue.turns)} turns"
    if dialogue.turns[position].speaker != "USER":
        return "unknown_turn: this is a turn of the system, not of the user"
    rewriting = dialogue_pages.rewriting_of(dialogue, position)
    if isinstance(rewriting, str):
        return f"never_asked: {rewriting}"
    return SourceTurn(
        dialogue.dialogue_id,
        position,
        "+".join(corpora.services_in_turns(dialogue)[position]),
        speakable(dialogue.turns[position - 1].utterance) if position else "",
        rewriting.utterance,
        tuple(_units(rewriting)),
        tuple(_others(dialogue, position, rewriting.utterance)),
    )


def _units(rewriting: dialogue_pages.Rewriting) -> Iterator[Unit]:
    """Yields the units of a sentence, in order."""
    groups: list[list[Mark]] = []
    for mark in rewriting.marks:
        if groups and mark.start < max(other.end for other in groups[-1]):
            groups[-1].append(mark)
        else:
            groups.append([mark])
    for group in groups:
        text = rewriting.utterance[group[0].start : max(mark.end for mark in group)]
        yield Unit(text, tuple(group), find_word(rewriting.utterance, text) is not None)


def _others(dialogue: Dialogue, position: int, utterance: str) -> Iterator[str]:
    """Yields values elsewhere in the dialogue, except values that the turn paraphrases ("a couple" for 2)."""
    folded = utterance.casefold()
    own = {value for frame in dialogue.turns[position].frames for value in _of_turn(frame)}
    values: set[str] = set()
    for frame in (frame for turn in dialogue.turns for frame in turn.frames):
        values.update(_of_turn(frame), *(frame.state.slot_values.values() if frame.state else ()))
    for value in sorted({speakable(value).casefold() for value in values - own} - _UNSAID):
        if any(map(str.isalnum, value)) and find_word(folded, value) is None:
            yield value


def _of_turn(frame: Frame) -> Iterator[str]:
    for action in frame.actions or ():
        if action.slot not in ("", "intent", "count"):
            yield from action.values
            yield from action.canonical_values or ()


def read_tasks(folders: Iterable[str]) -> list[page.PageRecord]:
    """Reads the tasks in folders of ``hits``. Raises InputError if a folder is missing or has no rewriting tasks."""
    tasks: list[page.PageRecord] = []
    for folder in folders:
        if not (of_folder := [record for record in page.read_manifest(folder) if record.task == terms.REWRITES]):
            reason = "contains no rewriting tasks: make them with 'parapet hits --task rewrites'"
            raise InputError(reason, folder, "--hits")
        tasks += of_folder
    return tasks


def check_same(task: page.PageRecord, turn: SourceTurn | str) -> None:
    """Raises InputError unless the corpus still has the turn of the task."""
    if isinstance(turn, str):
        why = turn
    elif turn.utterance != task.utterance:
        why = f"workers saw {task.utterance!r}, but the corpus has {turn.utterance!r}"
    elif [mark.kept for unit in turn.units for mark in unit.marks] != task.values:
        why = "the annotation of its values has changed"
    else:
        return
    reason = f"{task.task_id} has changed: {why}; give the corpus and --split that you gave to 'parapet hits'"
    raise InputError(reason, "--hits")


def find_units(units: Sequence[Unit], text: str) -> list[Place | None]:
    """Finds the position of each unit in a rewriting, without overlaps; None for missing units.

    Longer units are found first, so that "2" is not found in "2 pm" if both are values; equal ones in their order.
    """
    places: dict[int, Place] = {}
    for i, unit in sorted(enumerate(units), key=lambda pair: -len(pair[1].text)):
        if (start := find_word(text, unit.text, [*places.values()], unit.whole)) is not None:
            places[i] = (start, start + len(unit.text))
    return [places.get(i) for i in range(len(units))]


def value_rows(units: Sequence[Unit], places: Sequence[Place | None]) -> Iterator[dict[str, Any]]:
    """Yields the rows of ``values`` in the audit: each value with its positions before and after.

    Args:
      units: the units of the sentence.
      places: their positions in the rewriting.
    """
    for unit, place in zip(units, places, strict=True):
        for mark in unit.marks:
            start = None if place is None else place[0] + mark.start - unit.marks[0].start
            yield {
                **msgspec.structs.asdict(mark.kept),
                "start": mark.start,
                "exclusive_end": mark.end,
                "new_start": start,
                "new_exclusive_end": None if start is None else start + mark.end - mark.start,
            }


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

# Other words of agreement, which may replace a yes or be replaced by one.
_AGREEING_WORDS = """
sure ok okay alright right correct exactly absolutely definitely certainly indeed agreed fine good great perfect
wonderful excellent sounds works please deal nice awesome cool confirm confirmed course true
"""
_AGREEING = edits.YES.union(_AGREEING_WORDS.split())
_ECHOES = {("i", "do"), ("we", "do"), ("it", "does"), ("that", "does")}

_NUMBER_WORDS = """
two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen sixteen seventeen eighteen nineteen
twenty thirty forty fifty sixty seventy eighty ninety hundred thousand couple pair
"""
_NUMBERS = dict(zip(_NUMBER_WORDS.split(), map(str, [*range(2, 20), *range(20, 101, 10), 1000, 2, 2]), strict=True))


class RewriteText(msgspec.Struct, frozen=True, dict=True):
    """The input of the rules: an answer's text as it would be written to the output, and the turn."""

    kind: Kind
    text: str
    turn: SourceTurn

    @cached_property
    def words(self) -> tuple[str, ...]:
        """Returns the words of the text."""
        return words_of(self.text)

    @cached_property
    def original(self) -> tuple[str, ...]:
        """Returns the words of the sentence."""
        return words_of(self.turn.utterance)

    @cached_property
    def places(self) -> list[Place | None]:
        """Returns the positions of the sentence's units."""
        return find_units(self.turn.units, self.text)

    @cached_property
    def new_words(self) -> tuple[str, ...]:
        """Returns the words that are not in the sentence."""
        return tuple(word for word in self.words if word not in self.original)

    @cached_property
    def leaks(self) -> list[str]:
        """Returns values of the rest of the dialogue that occur in the text."""
        text = self.text.casefold()
        return [value for value in self.turn.others if value in text and find_word(text, value) is not None]


def _blank(answer: RewriteText) -> str | None:
    return None if answer.words else "blank"


def _too_long(answer: RewriteText) -> str | None:
    """Is far longer than the sentence."""
    more_words = len(answer.words) - len(answer.original)
    more_letters = len(answer.text) - len(answer.turn.utterance)
    return "too_long" if more_words > MORE_WORDS or more_letters > MORE_LETTERS else None


def _markup(answer: RewriteText) -> str | None:
    is_added = lexicon.MARKUP.search(answer.text) and not lexicon.MARKUP.search(answer.turn.utterance)
    return "markup" if is_added else None


def _placeholder(answer: RewriteText) -> str | None:
    """A filler such as n/a, test or a compliment, not an answer."""
    return "placeholder" if answer.words in rules.FILLERS and answer.new_words else None


def _lost_value(answer: RewriteText) -> str | None:
    """A slot value is missing or changed."""
    return "lost_value" if None in answer.places else None


def _copy(answer: RewriteText) -> str | None:
    """Has the words of the sentence in the same order."""
    return "copy" if answer.words == answer.original else None


def _too_many_typos(answer: RewriteText) -> str | None:
    """More is changed than typing mistakes would."""
    most = max(TYPOS_ALWAYS, int(TYPO_SHARE * len(answer.turn.utterance)))
    changed = levenshtein(answer.text.lower(), answer.turn.utterance.lower())
    return "too_many_typos" if answer.kind == "typos" and changed > most else None


def _not_longer(answer: RewriteText) -> str | None:
    """Should be longer, but has no more words."""
    return "not_longer" if answer.kind == "verbose" and len(answer.words) <= len(answer.original) else None


def _not_shorter(answer: RewriteText) -> str | None:
    """Should be shorter, but has no fewer words."""
    before, values = len(answer.original), dict.fromkeys(unit.text for unit in answer.turn.units)
    most = max(before - 1 if before > SHORT else before, len(words_of(" ".join(values))))
    return "not_shorter" if answer.kind == "simple" and len(answer.words) > most else None


def _leaked_value(answer: RewriteText) -> str | None:
    """Contains a value of the dialogue that the sentence does not contain."""
    return "leaked_value" if any(map(_is_telling, answer.leaks)) else None


def _is_telling(value: str) -> bool:
    """Whether a value is unlikely to occur by chance: several words, a longer number, a day, or a rare word."""
    value_words = words_of(value)
    if len(value_words) > 1 or (len(value) > 1 and any(map(str.isdigit, value))):
        return True
    return not value.isdigit() and (value in _TELLING or lexicon.word_frequency("".join(value_words)) < UNCOMMON)


def _single_character(answer: RewriteText) -> str | None:
    """Adds a single letter or digit that the sentence does not have."""
    is_new = answer.kind != "typos" and answer.new_words and lexicon.is_single_character(answer.text)
    return "single_character" if is_new else None


def _gibberish(answer: RewriteText) -> str | None:
    return "gibberish" if answer.kind != "typos" and lexicon.is_gibberish(" ".join(answer.new_words)) else None


def _other_script(answer: RewriteText) -> str | None:
    """Has letters of another script."""
    letters = filter(str.isalpha, {*answer.text}.difference(answer.turn.utterance))
    return None if all(unicodedata.name(letter, "").startswith("LATIN") for letter in letters) else "other_script"


def _other_language(answer: RewriteText) -> str | None:
    text = answer.text
    for start, end in sorted((place for place in answer.places if place), reverse=True):
        text = f"{text[:start]} {text[end:]}"
    text = " ".join(text.split())
    is_sentence = answer.kind != "typos" and len(words_of(text)) >= rules.ENGLISH_FROM_WORDS
    return "other_language" if is_sentence and lexicon.language(text) != "en" else None


def _meaning(answer: RewriteText) -> str | None:
    """A negation or a yes was added or removed: it may mean the opposite."""
    has_no, had_no = (not edits.NEGATIONS.isdisjoint(words) for words in (answer.words, answer.original))
    has_yes, had_yes = (not edits.YES.isdisjoint(words) for words in (answer.words, answer.original))
    if answer.kind == "typos":  # a yes or a negation may be mistyped
        is_turned = (has_no and not had_no) or (has_yes and not had_yes)
    else:
        gained = has_yes and not _agrees(answer.original)
        lost = had_yes and not _agrees(answer.words) and answer.kind != "simple"
        is_turned = has_no != had_no or gained or lost
    return "meaning" if is_turned else None


def _agrees(text: Sequence[str]) -> bool:
    return not _AGREEING.isdisjoint(text) or tuple(text[:2]) in _ECHOES


def _other_number(answer: RewriteText) -> str | None:
    """Contains other numbers than the sentence."""
    is_other = answer.kind != "typos" and _numbers(answer.text) != _numbers(answer.turn.utterance)
    return "other_number" if is_other else None


def _numbers(text: str) -> set[str]:
    numbers = (_NUMBERS.get(word, word) for word in words(text))
    return {word for word in numbers if word.isdigit()} - {"1"}  # "one" is in phrases like "the cheaper one"


def _swapped_values(answer: RewriteText) -> str | None:
    """Two slots have the same value in this turn: once they are moved, it is unclear which is which."""
    units = answer.turn.units
    slots = {(unit.text, *sorted((mark.kept.service, mark.kept.slot) for mark in unit.marks)) for unit in units}
    return "swapped_values" if answer.kind != "typos" and len(slots) > len({unit.text for unit in units}) else None


def _common_value(answer: RewriteText) -> str | None:
    """Contains a common word that is also a value of the dialogue, but not of this sentence."""
    return "common_value" if answer.leaks else None


def _near_original(answer: RewriteText) -> str | None:
    """Differs from the sentence by two letters or fewer: looks mistyped rather than reworded."""
    is_near = levenshtein(" ".join(answer.words), " ".join(answer.original)) <= NEAR
    return "near_original" if answer.kind == "paraphrase" and is_near else None


def _profanity(answer: RewriteText) -> str | None:
    rude = set(lexicon.rude_words(answer.words)).difference(lexicon.rude_words(answer.original))
    if answer.kind == "typos":  # a typo, as in "I wang a room", is not rude
        rude = {rude_word for rude_word in rude if all(levenshtein(rude_word, word) > NEAR for word in answer.original)}
    return "profanity" if rude else None


def _unknown_word(answer: RewriteText) -> str | None:
    return "unknown_word" if answer.kind != "typos" and lexicon.unknown_words(answer.new_words) else None


# These come first, to keep the other rules from reading long texts.
_UNREADABLE = (_blank, _too_long, rules.worker_id, _markup)
_AGAINST_THE_PAGE = (_placeholder, _lost_value, _copy, _too_many_typos, _not_longer, _not_shorter, _leaked_value)
_ODD_TEXT = (_single_character, _gibberish, _other_script, _other_language)
_ODD_CONTENT = (_meaning, _other_number, _swapped_values, _common_value)
_ODD_WORDS = (_near_original, _profanity, _unknown_word)
BUILT_IN: rules.Rules[RewriteText] = rules.Rules(
    (*_UNREADABLE, *_AGAINST_THE_PAGE), (*_ODD_TEXT, *_ODD_CONTENT, *_ODD_WORDS)
)
vet_answer, flags = BUILT_IN.vet, BUILT_IN.flags

# Reason to an explanation for reviewers and requesters.
EXPLANATIONS = {
    **rules.EXPLANATIONS,
    **rules.reason_explanations(BUILT_IN),
    "same_answer": "The worker gave the same words in another field of the form.",
    "repeated_answer": "The worker gave the same words for several different sentences.",
    "not_drawn": "Another good answer was drawn at random.",
    "duplicate_of": "Has the same words as another answer for the turn and kind, which counts for both.",
}


def unacceptable(answer: RewriteText) -> str:
    """Returns why not even a reviewer can accept an answer (lost values or no change), or an empty string."""
    if not answer.words:
        return "the text contains no word"
    if lost := [unit.text for unit, place in zip(answer.turn.units, answer.places, strict=True) if place is None]:
        return f"the text must contain {', '.join(map(repr, lost))} unchanged: use 'fix' with a text that keeps it"
    return "the text is identical to the sentence" if answer.text == answer.turn.utterance else ""


def vet(answer: RewriteText, assignment: Assignment, typed: str, is_repeated: bool) -> rules.Verdict:
    """Vets an answer by its text and by how its assignment was filled in.

    Args:
      answer: the answer.
      assignment: the worker's form.
      typed: the answer as typed.
      is_repeated: whether the worker gave the same words for several different sentences.
    """
    repeated = rules.Verdict("review", "repeated_answer") if is_repeated else rules.PASS
    verdicts = (vet_worker(assignment, typed), vet_answer(answer), repeated)
    return next(verdict for action in ("reject", "review", "") for verdict in verdicts if verdict.action == action)


def vet_worker(assignment: Assignment, typed: str) -> rules.Verdict:
    """Vets an answer by how its assignment was filled in."""
    if assignment.rejected:
        return rules.Verdict("reject", "assignment_rejected")
    answers = [words for text in assignment.answers.values() if (words := words_of(text))]
    if answers.count(words_of(typed)) > 1:
        return rules.Verdict("review", "same_answer")
    if answers and rules.is_too_fast(assignment, len(assignment.answers) if assignment.asked else len(answers)):
        return rules.Verdict("review", "too_fast")
    return rules.PASS


def repeated_answers(answers: Iterable[tuple[str, str, str]]) -> list[tuple[str, tuple[str, ...]]]:
    """Returns the (worker hash, words) of answers that a worker gave for several different sentences.

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
    """Normalises spaces, invisible characters, quotes and accents, unless the original sentence has such characters.

    Letters and their case are unchanged, since values must be kept and typos are intended.

    Args:
      text: the text as typed.
      original: the sentence to be rewritten, as the page shows it.
    """
    text = speakable(text)
    if not any(quote in original for quote in _CURLY):
        text = text.translate(_STRAIGHT)
    text = "".join(c for c in text if c.isascii() or c in original or c.isspace() or clean(c))
    if unicodedata.is_normalized("NFC", original):
        text = unicodedata.normalize("NFC", text)
    return " ".join(text.split())


@lru_cache(maxsize=1 << 14)
def words_of(text: str) -> tuple[str, ...]:
    """Splits a text into the words by which equal texts are recognised, as the page does."""
    return words(text if text.isascii() else unicodedata.normalize("NFKC", text))
