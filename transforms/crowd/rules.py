"""Vet answers automatically: bad answers are rejected, suspicious ones are held for a reviewer.

A vetting rule is a function from an answer to a reason or None. The built-in rule ``_markup`` gives the reason
``markup``, and its docstring explains the reason to reviewers and requesters; a rule without docstring has the reason
of another one. Of the rules that apply to an answer the first counts, rejections before reviews.

The rules are calibrated on the 4,755 paraphrases that SGD-X published, and hold hardly any of these.
"""

from __future__ import annotations

import inspect
import re
import unicodedata
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import lru_cache
from itertools import pairwise
from typing import Any, Generic, TypeVar

import msgspec

from parapet.schemas import errors, rows, service
from parapet.transforms.core import plugins
from parapet.transforms.crowd import lexicon, worker_ids
from parapet.transforms.report.text import cached_words, name_words
from parapet.transforms.variants.distance import levenshtein_ratio

AnswerT = TypeVar("AnswerT")
Rule = Callable[[AnswerT], str | None]


class Verdict(msgspec.Struct, frozen=True):
    """``reject`` or ``review`` with the reason; an empty verdict means that the answer passes."""

    action: str = ""
    reason: str = ""


PASS = Verdict()


class Rules(msgspec.Struct, Generic[AnswerT], frozen=True, eq=False):
    """Rules that reject answers and rules that hold them for review, in order."""

    reject: tuple[Rule[AnswerT], ...] = ()
    review: tuple[Rule[AnswerT], ...] = ()

    def with_functions(self, functions: Iterable[Rule[AnswerT]]) -> Rules[AnswerT]:
        """Appends functions: those whose attribute ``action`` is ``reject`` reject answers, all others hold them."""
        functions = list(functions)
        reject = [function for function in functions if getattr(function, "action", "review") == "reject"]
        review = [function for function in functions if function not in reject]
        return Rules((*self.reject, *reject), (*self.review, *review))

    def vet(self, answer: AnswerT) -> Verdict:
        """Returns the verdict of the first rule that applies."""
        return next((Verdict(action, reason) for action, reason, _ in self._applying(answer)), PASS)

    def flags(self, answer: AnswerT) -> dict[str, str]:
        """Returns every reason that applies, in order, and its explanation."""
        return {reason: explanation(rule) for _, reason, rule in self._applying(answer)}

    def _applying(self, answer: AnswerT) -> Iterator[tuple[str, str, Rule[AnswerT]]]:
        for action in ("reject", "review"):
            for rule in getattr(self, action):
                reason = rule(answer)
                if isinstance(reason, str) and reason:
                    yield action, reason, rule
                elif reason is not None:
                    raise errors.InputError(f"{rule!r} returned {reason!r}: a rule returns a reason or None", "rules")


def explanation(rule: Rule[Any]) -> str:
    """Returns a rule's attribute ``explanation``, or the first line of its docstring."""
    return getattr(rule, "explanation", None) or (inspect.getdoc(rule) or "").partition("\n")[0]


def reason_explanations(rules: Rules[Any]) -> dict[str, str]:
    """Returns reason to explanation for the built-in rules that have a docstring."""
    every = (*rules.reject, *rules.review)
    return {rule.__name__.removeprefix("_"): explanation(rule) for rule in every if rule.__doc__}


def _phrases(text: str) -> frozenset[tuple[str, ...]]:
    return frozenset(tuple(phrase.split()) for line in text.splitlines() for phrase in line.split(","))


FILLERS = _phrases("""n a, na, null, nil, empty, undefined, nan, no comment, not applicable, to do, tbd, xxx
test, testing, text, answer, my answer, name here, abc, xyz, asdf, blah, blah blah, lorem ipsum
good survey, nice survey, great survey, good hit, nice hit, same as above, see above""")
# Users of a dialogue system do say these.
_REPLIES = _phrases("""none, nothing, idk, i dont know, dont know, do not know, no idea, not sure, unsure, unknown
maybe, yes, no, ok, okay, good, nice, great, very good, very nice, good job, same, thanks, thank you, hello, hi""")
PLACEHOLDERS = FILLERS | _REPLIES

MAX_WORDS = {"names": 8, "descriptions": 25}
FAR_TOO_LONG = {"names": 100, "descriptions": 300}  # characters
LONG_COPY_WORDS = 4  # a worker may write "name of the alarm" without copying it, but not longer prompts
NEAR = 0.9
MIN_SECONDS_PER_FIELD = 2.5
TYPED_SHARE = 0.25  # keystrokes per letter; typing a text takes one for each
ENGLISH_FROM_WORDS = 6


class AnswerText(msgspec.Struct, frozen=True):
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
    task: service.Task
    name: str
    description: str

    @property
    def prompt(self) -> str:
        """Returns what the worker saw."""
        return self.description if self.task == "names" else self.name

    @property
    def original(self) -> str:
        """Returns the text that the worker had to paraphrase."""
        return self.name if self.task == "names" else self.description


def _blank(answer: AnswerText) -> str | None:
    """Nothing was written."""
    # Punctuation or emoji alone are blank, too; other scripts are not.
    return None if any(c.isalnum() for c in answer.text) else "blank"


def _too_long(answer: AnswerText) -> str | None:
    """Is far too long for what was asked."""
    return "too_long" if len(answer.text) > FAR_TOO_LONG[answer.task] else None


def worker_id(answer: Any) -> str | None:
    """Contained what may be a worker id, which is not stored."""
    return "worker_id" if worker_ids.MASK in answer.text.lower() else None


def _markup(answer: AnswerText) -> str | None:
    """Contains HTML, a web or e-mail address or a spreadsheet formula."""
    return "markup" if lexicon.MARKUP.search(answer.text) else None


def _has_prompts_words(answer: AnswerText, words: Sequence[str]) -> bool:
    return {*cached_words(answer.prompt), *name_words(answer.prompt)}.issuperset(words)


def _placeholder(answer: AnswerText) -> str | None:
    """Is a filler such as n/a, none, test or a compliment, not an answer."""
    words = cached_words(answer.text)
    # "text" can be a valid name for the text of a message.
    return "placeholder" if words in PLACEHOLDERS and not _has_prompts_words(answer, words) else None


def _original_copy(answer: AnswerText) -> str | None:
    """Is the text that the other workers were asked to paraphrase."""
    split = name_words if answer.task == "names" else cached_words
    return "original_copy" if answer.words == split(answer.original) else None


def _short_prompt_copy(answer: AnswerText) -> str | None:
    """Has the words of its short prompt: this may be right or careless."""
    split = cached_words if answer.task == "names" else name_words
    return "short_prompt_copy" if split(answer.prompt) in (answer.words, name_words(answer.text)) else None


def _prompt_copy(answer: AnswerText) -> str | None:
    """Repeats the prompt word for word."""
    # "alarm_name" is the name itself; "Alarm name" is at least a phrase
    is_name = answer.task == "descriptions" and answer.text.casefold() == answer.prompt.casefold()
    is_long = is_name or len(answer.words) > LONG_COPY_WORDS
    return "prompt_copy" if is_long and _short_prompt_copy(answer) else None


def _gibberish(answer: AnswerText) -> str | None:
    """Is a run of keys, repeated letters or letters without a vowel."""
    return "gibberish" if lexicon.is_gibberish(answer.text) else None


def _single_character(answer: AnswerText) -> str | None:
    """Is a single letter or digit, or one that is repeated."""
    return "single_character" if lexicon.is_single_character(answer.text) else None


def _model_text(answer: AnswerText) -> str | None:
    """Contains what language models put around an answer: an introduction, Markdown, a list or an excuse."""
    is_added = lexicon.BOILERPLATE.search(answer.text) and not lexicon.BOILERPLATE.search(answer.prompt)
    return "model_text" if is_added else None


def _type_word(answer: AnswerText) -> str | None:
    """Only names the data type."""
    return "type_word" if lexicon.is_type(answer.words) and not _has_prompts_words(answer, answer.words) else None


def _type_word_of_prompt(answer: AnswerText) -> str | None:
    return "type_word" if lexicon.is_type(answer.words) and _has_prompts_words(answer, answer.words) else None


def _other_script(answer: AnswerText) -> str | None:
    """Contains letters of another script, or characters that a name cannot contain."""

    def is_plain(letter: str) -> bool:
        if answer.task == "names":  # may have accents, which the name will not have
            return unicodedata.normalize("NFKD", letter)[0].isascii()
        return unicodedata.name(letter, "").startswith("LATIN")

    # A name without plain letters cannot be used unless a reviewer fixes it.
    return None if answer.words and all(map(is_plain, filter(str.isalpha, answer.text))) else "other_script"


def _other_language(answer: AnswerText) -> str | None:
    """Does not look like English."""
    # The language model does not split at underscores: it takes "local_time_of_arrival" for Italian.
    is_sentence = len(cached_words(answer.text)) >= ENGLISH_FROM_WORDS
    return "other_language" if is_sentence and lexicon.language(answer.text.replace("_", " ")) != "en" else None


def _profanity(answer: AnswerText) -> str | None:
    """Contains a word from the profanity list; titles and medicine have such words too."""
    return "profanity" if lexicon.rude_words(answer.words) else None


def _unknown_word(answer: AnswerText) -> str | None:
    """Contains a word that is not found in English texts: a typo or a name."""
    # Words of the prompt or the original, such as product names, are not typos.
    known = {*name_words(answer.name), *cached_words(answer.description)}
    return None if known.issuperset(lexicon.unknown_words(answer.words)) else "unknown_word"


def _near_original(answer: AnswerText) -> str | None:
    """Differs from the original by a few letters."""
    if answer.task == "names":
        return None  # "pickup_date" and "pick_up_date" are both good
    return "near_original" if levenshtein_ratio(answer.description.lower(), answer.text.lower()) > NEAR else None


def _negation(answer: AnswerText) -> str | None:
    """Contains a negation that the element does not have."""
    own = (*name_words(answer.name), *cached_words(answer.description))
    return "negation" if lexicon.denies_alone(answer.words, own) else None


_ASIDE = re.compile(r"\([^)]*\)")  # "(or None for no subtitles)"


def _opposite(answer: AnswerText) -> str | None:
    """Contains the opposite of a word of the element, such as drop-off for pick-up."""
    own = " ".join((*name_words(answer.name), *cached_words(_ASIDE.sub(" ", answer.description))))
    return "opposite" if lexicon.says_the_opposite(" ".join(answer.words), own, answer.task == "names") else None


def _labelled(answer: AnswerText) -> str | None:
    """Begins by repeating the prompt and a colon."""
    # Language models write "departure_city: where the trip starts".
    label, _, rest = answer.text.partition(":")
    words = {*cached_words(label), *name_words(label)}
    known = {*name_words(answer.name), *cached_words(answer.prompt)}
    return "labelled" if rest.strip() and words and words <= known else None


def _repeated_word(answer: AnswerText) -> str | None:
    """Contains a word twice in a row."""
    return "repeated_word" if any(word == after and len(word) > 2 for word, after in pairwise(answer.words)) else None


def _length(answer: AnswerText) -> str | None:
    """Is longer than accepted answers usually are."""
    return "length" if len(answer.words) > MAX_WORDS[answer.task] else None


_UNREADABLE = (_blank, _too_long, worker_id, _markup)  # come first, to keep the other rules from reading long texts
_NO_ANSWER = (_placeholder, _original_copy, _prompt_copy, _gibberish, _single_character, _model_text, _type_word)
_ODD_WORDS = (_other_script, _short_prompt_copy, _other_language, _profanity, _unknown_word, _near_original)
_ODD_CONTENT = (_type_word_of_prompt, _negation, _opposite, _labelled, _repeated_word, _length)
BUILT_IN: Rules[AnswerText] = Rules((*_UNREADABLE, *_NO_ANSWER), (*_ODD_WORDS, *_ODD_CONTENT))

# Reason to an explanation for reviewers and requesters.
EXPLANATIONS = {
    **reason_explanations(BUILT_IN),
    "same_answer": "The worker answered half of the form or more with the same words.",
    "too_fast": "The worker spent less time than reading the form takes.",
    "assignment_rejected": "The requester rejected the assignment.",
    "reviewer": "A reviewer rejected it.",
    "other_element": "Is closer in meaning to another element of the service, which is named, than to its own.",
    "off_topic": "Has nothing in common with the element.",
    "pasted": "Was pasted with hardly a key pressed, as were half of the worker's answers on the form or more.",
    "not_blind": "The worker also did the other task of this service, which shows what is hidden in this one.",
    "name_collision": "Another element of the service has this name in all remaining variants.",
    "not_drawn": "The element has more than five good answers, and others were drawn at random.",
    "duplicate_of": "Has the same words as another answer for the element, which counts for both.",
    "service_incomplete": "Is a good answer, and used once the other elements of the service have enough, too.",
}


@lru_cache(maxsize=1 << 12)
def vet_answer(answer: AnswerText, rules: Rules[AnswerText] = BUILT_IN) -> Verdict:
    """Vets an answer by its text alone."""
    return rules.vet(answer)


def vet_assignment(assignment: rows.Assignment, fields: list[str]) -> Verdict:
    """Vets all answers of an assignment by how it was filled in.

    Args:
      assignment: one worker's form.
      fields: the fields of the task's elements.
    """
    if assignment.rejected:
        return Verdict("reject", "assignment_rejected")
    texts = [words for field in fields if (words := cached_words(assignment.answers.get(field, "")))]
    most = max(Counter(texts).values(), default=0)
    if most >= 3 and most * 2 >= len(texts):
        return Verdict("reject", "same_answer")
    # Unless the export lists the form's fields, an empty cell may be a field that the form did not have.
    if texts and is_too_fast(assignment, len(fields) if assignment.asked else len(texts)):
        return Verdict("reject", "too_fast")
    return PASS


def is_too_fast(assignment: rows.Assignment, fields: int) -> bool:
    """Whether the form was filled in faster than that many fields can be read."""
    seconds = assignment.work_seconds
    return seconds is not None and 0 <= seconds < MIN_SECONDS_PER_FIELD * fields


def vet_typing(assignment: rows.Assignment, field: str) -> Verdict:
    """Vets the answer of a form field by how it was typed, if the form recorded that."""
    pasted = [name for name in assignment.answers if _is_pasted(assignment, name)]
    is_habit = len(pasted) > 1 and 2 * len(pasted) >= len(assignment.answers)
    return Verdict("review", "pasted") if is_habit and field in pasted else PASS


def _is_pasted(assignment: rows.Assignment, field: str) -> bool:
    keystrokes, pastes = assignment.keystrokes.get(field), assignment.pastes.get(field, 0)
    letters = len(assignment.answers[field].strip())
    return pastes > 0 and keystrokes is not None and keystrokes < TYPED_SHARE * letters


class PluginRule(msgspec.Struct, frozen=True):
    """The vetting rule of a plug-in of the group ``parapet.vetting_rules``; its reason is the plug-in's name."""

    chosen: plugins.Chosen
    rule: Callable[[AnswerText], object]
    action: str
    explanation: str

    def __call__(self, answer: AnswerText) -> str | None:
        """Returns the reason if the rule of the plug-in gives any."""
        return self.chosen.plugin.name if plugins.call(self.chosen, self.rule, answer) else None


def choose_rules(named: Sequence[str]) -> dict[str, PluginRule]:
    """Loads the rules of plug-ins by reason, in the order in which they are listed.

    Args:
      named: ``NAME`` or ``NAME=ARGUMENT`` of each rule.

    Raises:
      InputError: a rule does not exist, is listed twice, or is invalid.
    """
    rules: dict[str, PluginRule] = {}
    for name in named:
        chosen = plugins.choose(plugins.VETTING_RULES, name, "--vetting_rules")
        reason = chosen.plugin.name
        if not re.fullmatch("[a-z][a-z0-9_]*", reason) or reason in EXPLANATIONS or reason.startswith("reviewer"):
            raise chosen.refused("has a name that cannot be used as a reason: it must be new and in snake_case")
        if reason in rules:
            raise chosen.refused("is named twice")
        rule = plugins.make(chosen, ("action", "explanation", "__call__"))
        if rule.action not in ("reject", "review"):
            raise chosen.refused(f"has the action {rule.action!r}: must be 'reject' or 'review'")
        rules[reason] = PluginRule(chosen, rule, rule.action, rule.explanation)
    return rules


def explanations(named: Sequence[str]) -> dict[str, str]:
    """Returns the explanations of all reasons, built-in ones first."""
    return EXPLANATIONS | {reason: rule.explanation for reason, rule in choose_rules(named).items()}
