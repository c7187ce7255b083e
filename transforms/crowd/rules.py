"""Vet answers automatically: bad answers are rejected, suspicious ones are held for a reviewer.

The rules are calibrated on the 4,755 paraphrases that SGD-X published, and hold hardly any of these. Each answer gets
at most one reason: the first that applies in the order below, rejections before reviews.
"""

from __future__ import annotations

import re
import unicodedata
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from functools import lru_cache, partial
from itertools import pairwise
from typing import Literal, Protocol, TypeVar

import msgspec

from parapet.schemas.rows import Assignment
from parapet.schemas.service import Task
from parapet.transforms.crowd import contrast, lexicon
from parapet.transforms.crowd.worker_ids import has_mask
from parapet.transforms.reports.text import cached_words, name_words
from parapet.transforms.running import plugins
from parapet.transforms.variants.distance import levenshtein_ratio

# Reason id to an explanation for reviewers and requesters.
EXPLANATIONS = {
    "blank": "Nothing was written.",
    "single_character": "Is a single letter or digit, or one that is repeated.",
    "placeholder": "Is a filler such as n/a, none, test or a compliment, not an answer.",
    "gibberish": "Is a run of keys, repeated letters or letters without a vowel.",
    "worker_id": "Contained what may be a worker id, which is not stored.",
    "markup": "Contains HTML, a web or e-mail address or a spreadsheet formula.",
    "prompt_copy": "Repeats the prompt word for word.",
    "original_copy": "Is the text that the other workers were asked to paraphrase.",
    "too_long": "Is far too long for what was asked.",
    "same_answer": "The worker answered half of the form or more with the same words.",
    "too_fast": "The worker spent less time than reading the form takes.",
    "assignment_rejected": "The requester rejected the assignment.",
    "reviewer": "A reviewer rejected it.",
    "model_text": "Contains what language models put around an answer: an introduction, Markdown, a list or an excuse.",
    "type_word": "Only names the data type.",
    "negation": "Contains a negation that the element does not have.",
    "opposite": "Contains the opposite of a word of the element, such as drop-off for pick-up.",
    "repeated_word": "Contains a word twice in a row.",
    "labelled": "Begins by repeating the prompt and a colon.",
    "other_element": "Is closer in meaning to another element of the service, which is named, than to its own.",
    "off_topic": "Has nothing in common with the element.",
    "short_prompt_copy": "Has the words of its short prompt: this may be right or careless.",
    "other_script": "Contains letters of another script, or characters that a name cannot contain.",
    "other_language": "Does not look like English.",
    "profanity": "Contains a word from the profanity list; titles and medicine have such words too.",
    "unknown_word": "Contains a word that is not found in English texts: a typo or a name.",
    "near_original": "Differs from the original by a few letters.",
    "length": "Is longer than accepted answers usually are.",
    "pasted": "Was pasted with hardly a key pressed, as were half of the worker's answers on the form or more.",
    "not_blind": "The worker also did the other task of this service, which shows what is hidden in this one.",
    "name_collision": "Another element of the service has this name in all remaining variants.",
    "not_drawn": "The element has more than five good answers, and others were drawn at random.",
    "duplicate_of": "Has the same words as another answer for the element, which counts for both.",
    "service_incomplete": "Is a good answer, and used once the other elements of the service have enough, too.",
}

PLACEHOLDERS = frozenset(
    tuple(phrase.split())
    for line in """
        n a, na, none, nothing, null, nil, empty, undefined, nan, no comment, not applicable, to do, tbd, xxx
        idk, i dont know, dont know, do not know, no idea, not sure, unsure, unknown, maybe, yes, no, ok, okay
        test, testing, text, answer, my answer, name here, abc, xyz, asdf, blah, blah blah, lorem ipsum
        good, nice, great, very good, very nice, good survey, nice survey, great survey, good hit, nice hit, good job
        same, same as above, see above, thanks, thank you, hello, hi
    """.strip().splitlines()
    for phrase in line.split(",")
)

MAX_WORDS = {"names": 8, "descriptions": 25}
FAR_TOO_LONG = {"names": 100, "descriptions": 300}  # characters
LONG_COPY_WORDS = 4  # a worker may write "name of the alarm" without copying it, but not longer prompts
NEAR = 0.9
MIN_SECONDS_PER_FIELD = 2.5
TYPED_SHARE = 0.25  # keystrokes per letter; typing a text takes one for each
ENGLISH_FROM_WORDS = 6

FLAG = "--vetting_rules"

_REASON = re.compile(r"[a-z][a-z0-9_]*")


class Verdict(msgspec.Struct, frozen=True):
    """``reject`` or ``review`` with the reason; an empty verdict means that the answer passes."""

    action: str = ""
    reason: str = ""


PASS = Verdict()


class Answer(msgspec.Struct, frozen=True):
    """The input of the rules. It has no id, so that equal elements share cached verdicts.

    Attributes:
      text: the cleaned text.
      words: the words of the text; for names, of the name.
      task: ``names`` or ``descriptions``.
      name: the element's name.
      description: the element's description.
    """

    text: str
    words: tuple[str, ...]
    task: Task
    name: str
    description: str

    @property
    def prompt(self) -> str:
        """Return what the worker saw."""
        return self.description if self.task == "names" else self.name

    @property
    def original(self) -> str:
        """Return the text that the worker had to paraphrase."""
        return self.name if self.task == "names" else self.description


Rule = tuple[str, Callable[[Answer], bool]]
AnswerT = TypeVar("AnswerT")
RulesFor = Sequence[tuple[str, Callable[[AnswerT], bool]]]


class Rules(msgspec.Struct, frozen=True):
    """Further rules that reject or hold answers, applied after the built-in ones."""

    reject: tuple[Rule, ...] = ()
    review: tuple[Rule, ...] = ()


NO_MORE = Rules()


@lru_cache(maxsize=1 << 15)
def vet_answer(answer: Answer, more: Rules = NO_MORE) -> Verdict:
    """Vet an answer by its text alone."""
    return first_verdict(answer, (*_REJECT, *more.reject), (*_REVIEW, *more.review))


def first_verdict(answer: AnswerT, reject: RulesFor[AnswerT], review: RulesFor[AnswerT]) -> Verdict:
    """Return the verdict of the first rule that applies; rules that reject come before rules that hold."""
    for action, rules in (("reject", reject), ("review", review)):
        for reason, applies in rules:
            if applies(answer):
                return Verdict(action, reason)
    return PASS


def vet_assignment(assignment: Assignment, fields: list[str]) -> Verdict:
    """Vet all answers of an assignment by how it was filled in.

    Args:
      assignment: one worker's form.
      fields: the fields of the task's elements.
    """
    if assignment.rejected:
        return Verdict("reject", "assignment_rejected")
    texts = [words for field in fields if (words := cached_words(assignment.answers.get(field, "")))]
    if len(texts) >= 3:
        _, most = Counter(texts).most_common(1)[0]
        if most * 2 >= len(texts) and most >= 3:
            return Verdict("reject", "same_answer")
    # Unless the export lists the form's fields, an empty cell may be a field that the form did not have.
    if texts and is_too_fast(assignment, len(fields) if assignment.asked else len(texts)):
        return Verdict("reject", "too_fast")
    return PASS


def vet_typing(assignment: Assignment, field: str) -> Verdict:
    """Vet the answer of a form field by how it was typed, if the form recorded that."""
    pasted = [name for name in assignment.answers if _is_pasted(assignment, name)]
    is_habit = len(pasted) > 1 and 2 * len(pasted) >= len(assignment.answers)
    return Verdict("review", "pasted") if is_habit and field in pasted else PASS


def _is_pasted(assignment: Assignment, field: str) -> bool:
    keystrokes, pastes = assignment.keystrokes.get(field), assignment.pastes.get(field, 0)
    letters = len(assignment.answers[field].strip())
    return pastes > 0 and keystrokes is not None and keystrokes < TYPED_SHARE * letters


def is_too_fast(assignment: Assignment, fields: int) -> bool:
    """Whether the form was filled in faster than that many fields can be read."""
    seconds = assignment.work_seconds
    return seconds is not None and 0 <= seconds < MIN_SECONDS_PER_FIELD * fields


def _blank(answer: Answer) -> bool:
    # Punctuation or emoji alone are blank, too; other scripts are not.
    return not any(c.isalnum() for c in answer.text)


def _placeholder(answer: Answer) -> bool:
    answer_words = cached_words(answer.text)
    # "text" can be a valid name for the text of a message.
    return answer_words in PLACEHOLDERS and not set(answer_words) <= {
        *cached_words(answer.prompt),
        *name_words(answer.prompt),
    }


def _is_prompt(answer: Answer) -> bool:
    prompt = answer.prompt
    words = cached_words(prompt) if answer.task == "names" else name_words(prompt)
    return words in (answer.words, name_words(answer.text))


def _prompt_copy(answer: Answer) -> bool:
    if not _is_prompt(answer):
        return False
    prompt = answer.prompt
    if answer.task == "descriptions" and answer.text.casefold() == prompt.casefold():
        return True  # "alarm_name" is the name itself; "Alarm name" is at least a phrase
    return len(answer.words) > LONG_COPY_WORDS


def _original_copy(answer: Answer) -> bool:
    original = answer.original
    if answer.task == "names":
        return answer.words == name_words(original)
    return answer.words == cached_words(original)


def _other_script(answer: Answer) -> bool:
    # A name without plain letters cannot be used unless a reviewer fixes it.
    if not answer.words or answer.text.isascii():
        return not answer.words
    return not all(_plain(c, answer.task) for c in answer.text if c.isalpha() and not c.isascii())


def _plain(letter: str, task: Task) -> bool:
    """Whether a letter is Latin or, in names, an ASCII letter with or without an accent."""
    if task == "names":
        return unicodedata.normalize("NFKD", letter)[0].isascii()
    return unicodedata.name(letter, "").startswith("LATIN")


def _other_language(answer: Answer) -> bool:
    answer_words = cached_words(answer.text)
    # The language model does not split at underscores: it takes "local_time_of_arrival" for Italian.
    return len(answer_words) >= ENGLISH_FROM_WORDS and lexicon.language(answer.text.replace("_", " ")) != "en"


def _unknown_word(answer: Answer) -> bool:
    # Words of the prompt or the original, such as product names, are not typos.
    known = {*name_words(answer.name), *cached_words(answer.description)}
    return any(word not in known for word in lexicon.unknown_words(answer.words))


def _near_original(answer: Answer) -> bool:
    if answer.task == "names":
        return False  # "pickup_date" and "pick_up_date" are both good
    return levenshtein_ratio(answer.description.lower(), answer.text.lower()) > NEAR


_ASIDE = re.compile(r"\([^)]*\)")  # "(or None for no subtitles)"


def _own_words(answer: Answer) -> tuple[str, ...]:
    """Return the words of the element's name and description."""
    return (*name_words(answer.name), *cached_words(_ASIDE.sub(" ", answer.description)))


def _denies_alone(answer: Answer) -> bool:
    own = (*name_words(answer.name), *cached_words(answer.description))  # with asides: "(or None …)"
    return contrast.denies_alone(answer.words, own)


def _has_prompts_words(answer: Answer) -> bool:
    return set(answer.words) <= {*cached_words(answer.prompt), *name_words(answer.prompt)}


def _labelled(answer: Answer) -> bool:
    """Whether the answer has a label, as language models write: "departure_city: where the trip starts"."""
    label, colon, rest = answer.text.partition(":")
    words = {*cached_words(label), *name_words(label)}
    return bool(colon and rest.strip() and words) and words <= {*name_words(answer.name), *cached_words(answer.prompt)}


def _opposite(answer: Answer) -> bool:
    own = " ".join(_own_words(answer))
    return contrast.says_the_opposite(" ".join(answer.words), own, answer.task == "names")


_REJECT: tuple[Rule, ...] = (
    ("blank", _blank),
    # first, to keep the other rules from reading long texts
    ("too_long", lambda answer: len(answer.text) > FAR_TOO_LONG[answer.task]),
    ("worker_id", lambda answer: has_mask(answer.text)),
    ("markup", lambda answer: lexicon.has_markup(answer.text)),
    ("placeholder", _placeholder),
    ("original_copy", _original_copy),
    ("prompt_copy", _prompt_copy),
    ("gibberish", lambda answer: lexicon.is_gibberish(answer.text)),
    ("single_character", lambda answer: lexicon.is_single_character(answer.text)),
    ("model_text", lambda answer: contrast.is_boilerplate(answer.text) and not contrast.is_boilerplate(answer.prompt)),
    ("type_word", lambda answer: contrast.is_type(answer.words) and not _has_prompts_words(answer)),
)
_REVIEW: tuple[Rule, ...] = (
    ("other_script", _other_script),
    ("short_prompt_copy", _is_prompt),
    ("other_language", _other_language),
    ("profanity", lambda answer: bool(lexicon.rude_words(answer.words))),
    ("unknown_word", _unknown_word),
    ("near_original", _near_original),
    ("type_word", lambda answer: contrast.is_type(answer.words)),
    ("negation", _denies_alone),
    ("opposite", _opposite),
    ("labelled", _labelled),
    ("repeated_word", lambda answer: any(word == two and len(word) > 2 for word, two in pairwise(answer.words))),
    ("length", lambda answer: len(answer.words) > MAX_WORDS[answer.task]),
)


def flags(answer: Answer, more: Rules = NO_MORE) -> Iterator[str]:
    """Yield every reason that applies, for the review page."""
    for reason, applies in (*_REJECT, *more.reject, *_REVIEW, *more.review):
        if applies(answer):
            yield reason


class VettingRule(Protocol):
    """A plug-in of the group ``parapet.vetting_rules``. Its name is the reason for the verdict on answers.

    Attributes:
      action: ``reject``, or ``review`` for answers that a person must look at.
      explanation: a sentence for reviewers and requesters.
    """

    action: Literal["reject", "review"]
    explanation: str

    def applies(self, answer: Answer) -> bool:
        """Whether the rule rejects or holds the answer. Must be deterministic."""


def choose_rules(named: Sequence[str]) -> dict[str, tuple[plugins.Chosen, VettingRule]]:
    """Load the rules by reason, in the order in which they are listed.

    Args:
      named: ``NAME`` or ``NAME=ARGUMENT`` of each rule.

    Raises:
      InputError: a rule does not exist, is listed twice, or is invalid.
    """
    rules: dict[str, tuple[plugins.Chosen, VettingRule]] = {}
    for name in named:
        chosen = plugins.choose(plugins.VETTING_RULES, name, FLAG)
        reason = chosen.plugin.name
        if not _REASON.fullmatch(reason) or reason in EXPLANATIONS or reason.startswith("reviewer"):
            raise chosen.refused(
                "has a name that cannot be used as a reason: it must be in snake_case and differ from the "
                "built-in reasons"
            )
        if reason in rules:
            raise chosen.refused("is named twice")
        rule: VettingRule = plugins.make(chosen, plugins.members(VettingRule))
        if rule.action not in ("reject", "review"):
            raise chosen.refused(f"has the action {rule.action!r}: must be 'reject' or 'review'")
        if not isinstance(rule.explanation, str):
            raise chosen.refused(f"has an explanation of type {type(rule.explanation).__name__}, expected a text")
        rules[reason] = chosen, rule
    return rules


@lru_cache(maxsize=8)
def rules_of(named: tuple[str, ...]) -> Rules:
    """Load the rules for vetting. Raises InputError as :func:`choose_rules` does."""
    by_action: dict[str, list[Rule]] = {"reject": [], "review": []}
    for reason, (chosen, rule) in choose_rules(named).items():
        by_action[rule.action].append((reason, partial(_applies, chosen, rule)))
    return Rules(tuple(by_action["reject"]), tuple(by_action["review"]))


def _applies(chosen: plugins.Chosen, rule: VettingRule, answer: Answer) -> bool:
    return bool(plugins.call(chosen, rule.applies, answer))


def explanations(named: Sequence[str]) -> dict[str, str]:
    """Return the explanations of all reasons, built-in ones first."""
    return EXPLANATIONS | {reason: rule.explanation for reason, (_, rule) in choose_rules(named).items()}


AnswerText = Answer
BUILT_IN = NO_MORE


def _with_functions(functions):
    return NO_MORE


Rules.with_functions = staticmethod(_with_functions)
