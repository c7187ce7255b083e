"""Rewrite turns in more words (the verbosity of RADDLE, section 4).

Each clause gets a longer form if ``paraphrases.toml`` has one (``longer``): a polite and indirect frame for a request,
a whole sentence for an answer. ``verbose.toml`` adds detours, reasons without new values, and what the dialogue state
already contains, depending on whether the turn asks, wants, agrees, declines or ends. Values keep their text, and
polarity is checked as for paraphrases. No form is used twice in a dialogue.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from functools import cache
from itertools import count
from typing import Any

from parapet.transforms.perturbation.user_turns import UserTurn
from parapet.transforms.perturbations import language
from parapet.transforms.perturbations.gate import POLARITY, same_polarity
from parapet.transforms.perturbations.paraphrase import (
    longer_forms,
    says_the_same,
    sentence_with,
    with_values,
    without_values,
)
from parapet.transforms.perturbations.rewording import RULES, Made, reworded
from parapet.transforms.perturbations.typos import Draw
from parapet.transforms.running.seeding import DRAW_LIMIT, draws
from parapet.transforms.storage.toml import read_table

KIND = "more_words"  # the kind of operations

LEAST, MOST = 1.3, 3.0  # minimum and maximum length relative to the turn
SHORT = 50  # characters that any turn may have, even of one or two words

_TRIES = 12
_STATEMENT = re.compile(
    r"(?:I|there|we|they|he|she)\b(?:['’]|\s\S+\s)(?!(?:see|understand|guess|think)\b)[^,]*", re.IGNORECASE
)
# Statements with a noun as the subject, and a verb that they must contain.
_NOUN_FIRST = re.compile(r"(?:the|my|our|your|an?)\s[^,]*", re.IGNORECASE)
_VERB = re.compile(r"\b(?:is|are|was|were|will|would|should|has|have|does|looks?|sounds?|works?)\b", re.IGNORECASE)
_COMMENT = re.compile(r"(?:it|that|this)(?:['’]s| \S+)(?: [^,]*)?", re.IGNORECASE)
_LONGEST, _SHORTEST = 14, 7  # words of a statement inside another sentence, and of a sentence fragment
_QUESTION = re.compile(
    r"(?:(?:to|from|at|in|on|for|by) )?(?:what|where|when|which|who|whose|why|how)\b"
    r"|(?:is|are|do|does|did|can|could|will|would|should|may|was|has|have) "
    r"(?:i|you|they|it|there|that|this|these|the|we|he|she|your|their)\b",
    re.IGNORECASE,
)
_STATES = re.compile(r"\b(?:I|we|you|they|it|is|are|will|would)\b", re.IGNORECASE)
_PLACE = re.compile(
    r"(?:in|on|at|for|from|to|by|with|around|after|before|near|between|until|till|under)\s", re.IGNORECASE
)
_PIECE = re.compile(
    rf"(?:(?:an?|the|some|any|just|only|about)\s+)?(?:{language.VALUE}|one\b|two\b|three\b|four\b|five\b)"
    r"|(?:something|somewhere|anything|anywhere)\b",
    re.IGNORECASE,
)
_ENDS = re.compile(r"[.!?…]*\s*\Z")

# Sentences that a phrase may precede, and those that already have such a phrase.
_OPEN = re.compile(
    r"(?:I|could|would|can|do(?! you think)|does|is|are|what|where|when|how|which|who|it|that|there|please)\b",
    re.IGNORECASE,
)
_WISHES = re.compile(
    r"(?:I (?:would|was hoping|was wondering|want|need)|I['’]d|could|would|can|do you|does|is|are|what|where|when|how"
    r"|which)\b",
    re.IGNORECASE,
)
_AGREES = re.compile(r"(?:I|that|it|this|sounds|looks)\b", re.IGNORECASE)
_HAS_DETOUR = re.compile(
    r"\b(?:if|before|because|when|whenever|since|as far as|please|from what)\b|[:;]", re.IGNORECASE
)

_AGREE = frozenset({"AFFIRM", "AFFIRM_INTENT", "SELECT"})
_DECLINE = frozenset({"NEGATE_INTENT"})
_END = frozenset({"THANK_YOU", "GOODBYE", "NEGATE"})
_ASK = frozenset({"REQUEST", "REQUEST_ALTS"})
_WANT = frozenset({"INFORM", "INFORM_INTENT"})
_PLEASE = re.compile(r"\bplease\b", re.IGNORECASE)
_THANKS = re.compile(r"\b(?:thanks|thank|bye|goodbye)\b", re.IGNORECASE)
_GREETS = re.compile(r"(?:hi|hello|hey|greetings|good (?:morning|afternoon|evening|day))(?: there)?\W*", re.IGNORECASE)


@cache
def _phrases() -> Mapping[str, Any]:
    return read_table(__package__, "verbose.toml")


def mood_of(acts: Collection[str], text: str) -> str:
    """Return what a turn does as a whole, by its acts: the name of a table in ``verbose.toml``."""
    held = frozenset(acts)
    if _GREETS.fullmatch(text):
        return "greet"
    if held & _ASK or (not held and "?" in text):
        return "ask" if "REQUEST" in held or "?" in text or language.asks(text) else "alternatives"
    if held & _WANT:
        return "want" if "INFORM_INTENT" in held else "tell"
    if held & _DECLINE:
        return "decline"
    if held & _AGREE:
        return "agree"
    return "end" if held & _END or _THANKS.search(text) else "tell"


def kind_of(sentence: str, asked: bool) -> str:
    """Classify a sentence without another form; empty if it is unclear."""
    if asked or language.asks(sentence):
        return "question" if _QUESTION.match(sentence) else ""
    if _PLEASE.search(sentence):
        return ""
    if sentence.count(" ") < _SHORTEST and _PLACE.match(sentence) and not _STATES.search(sentence):
        return "place"
    if sentence.count(" ") < _LONGEST:
        if _COMMENT.fullmatch(sentence):
            return "comment"
        is_piece = _PIECE.match(sentence)
        if _STATEMENT.fullmatch(sentence) or ((is_piece or _NOUN_FIRST.fullmatch(sentence)) and _VERB.search(sentence)):
            return "statement"
    return "piece" if _PIECE.match(sentence) else ""


@cache
def opening(template: str) -> str:
    """Return the first words of a form, by which a reader would recognise a repetition."""
    return " ".join(re.findall(r"[a-z']+", template.replace("{also}", "").partition("{")[0].lower())[:4])


def known_thing(user_turn: UserTurn) -> str:
    """Return what a turn asks about implicitly, from the state before it: "the hotel in Paris"; may be empty."""
    if user_turn.before is None or user_turn.turn is None:
        return ""
    states = {frame.service: frame.state for frame in user_turn.before.frames if frame.state}
    tables, utterance = _phrases(), user_turn.utterance.lower()
    for frame in user_turn.turn.frames:
        before, now = states.get(frame.service), frame.state
        name = next((prefix for prefix in tables["things"] if frame.service.lower().startswith(prefix)), "")
        if not name or not before or not now or not any(action.act == "REQUEST" for action in frame.actions or ()):
            continue
        noun, preposition = tables["things"][name]
        places = [
            before.slot_values[slot][0]
            for slot in tables["places"].get(preposition, ())
            if before.slot_values.get(slot) and before.slot_values[slot] == now.slot_values.get(slot)
        ]
        if noun in utterance or " of " in utterance or any(place.lower() in utterance for place in places):
            return ""
        where = f" {preposition} {places[0]}" if places and places[0] != "dontcare" else ""
        return f"the {noun}{where}"
    return ""


def verbose(user_turn: UserTurn, key: bytes, said: set[str]) -> Made:
    """Rewrite a turn in more words, or return the reason why it is unchanged.

    Args:
      user_turn: the turn.
      key: the key of the draws.
      said: forms used earlier in the dialogue; those of the turn are added.
    """
    text, values = without_values(user_turn)
    if not text or not any(map(str.isalpha, user_turn.utterance)):
        return Made(reason="no_word")
    draw = draws(key).__next__
    rewording = Made(reason="no_rule")
    for _ in range(_TRIES):
        speaker = Speaker(user_turn, values, draw, said)
        rewording = _checked(user_turn, language.in_style_of(text, with_values(speaker.say(text), values)))
        if rewording.operations:
            said |= speaker.used
            break
    return rewording


def _checked(user_turn: UserTurn, new: str) -> Made:
    """Return the change to the new text, if its length and polarity are right."""
    text = user_turn.utterance
    if not LEAST * len(text) <= len(new) <= max(MOST * len(text), SHORT) or len(_PLEASE.findall(new)) > 1:
        return Made(reason="no_rule")
    if not same_polarity(text, new):
        return Made(reason=POLARITY)
    return reworded(user_turn, new, KIND, RULES)


def _joined(sentences: Sequence[tuple[tuple[str, str], str]]) -> str:
    return "".join(f"{body}{marks}{gap}" for (body, marks), gap in sentences)


class Speaker:
    """Rewrites one turn in more words.

    Args:
      user_turn: the turn.
      values: the values that private-use characters in the text stand for.
      draw: returns random numbers.
      said: forms used in earlier turns, which are avoided.

    Attributes:
      used: the forms used in this turn.
    """

    def __init__(self, user_turn: UserTurn, values: Sequence[str], draw: Draw, said: Collection[str]) -> None:
        self.user_turn, self.values, self.draw, self.said = user_turn, values, draw, said
        self.used: set[str] = set()
        self.thing = known_thing(user_turn) if draw() * 3 // DRAW_LIMIT else ""
        length = len(user_turn.utterance)
        self.room = max(int(MOST * length), SHORT) - length  # number of characters that may be added

    def say(self, text: str) -> str:
        """Rewrite the clauses of a text, then add drawn phrases until it is long enough."""
        sentences = [
            (self._sentence(body, marks) if body else (body, marks), gap)
            for body, marks, gap in language.sentences(text)
        ]
        wanted = len(self.user_turn.utterance) * (1.4 + 0.8 * self.draw() / DRAW_LIMIT)
        mood = mood_of(self.user_turn.acts, text)
        ways = [self._before, self._behind] if self.draw() * 2 // DRAW_LIMIT else [self._behind, self._before]
        if self.thing:
            self._restate(sentences)
        ways = [self._after, *ways] if self.draw() * 2 // DRAW_LIMIT else [*ways, self._after]
        new = _joined(sentences)
        for way in ways:
            if len(with_values(new, self.values)) >= wanted:
                break
            way(sentences, mood)
            new = _joined(sentences)
        return new

    def _drawn(self, templates: Sequence[str]) -> str:
        """Draw a template that the dialogue does not use yet; empty if all are used."""
        taken = self.used.union(self.said)
        free = [template for template in templates if opening(template) not in taken]
        if not free:
            return ""
        chosen = free[self.draw() * len(free) // DRAW_LIMIT]
        self.used.add(opening(chosen))
        return chosen

    def _sentence(self, body: str, marks: str) -> tuple[str, str]:
        """Rewrite a sentence; return it with its final marks. Introductory clauses, such as *yes*, are kept."""
        clauses = language.clauses(body)
        kept = {i for i, clause in enumerate(clauses[:-1]) if clause.text.count(" ") < 3 and clause.text.isascii()}
        numbers = count()

        def say(clause: str, asked: bool, free: bool) -> tuple[str, bool | None]:
            return (clause, None) if next(numbers) in kept else self._clause(clause, asked, free)

        new = sentence_with(body, marks, say)
        if new == body + marks and len(clauses) == 1:
            new = self._around(body, "?" in marks) + marks
        end = _ENDS.search(new)
        assert end is not None
        return new[: end.start()], end[0]

    def _clause(self, clause: str, asked: bool, free: bool) -> tuple[str, bool | None]:
        forms = {
            form.template: form
            for form in longer_forms(clause, asked, free, self.user_turn.acts)
            if 0 < len(form.text) - len(clause) <= self.room and not (self.thing and _HAS_DETOUR.search(form.template))
        }
        template = self._drawn([*forms])
        if not template or not says_the_same(clause, forms[template].text):
            return clause, None
        self.room -= len(forms[template].text) - len(clause)
        return forms[template].text, forms[template].asks

    def _around(self, body: str, asked: bool) -> str:
        """Embed a sentence without another form in a longer one."""
        kind = kind_of(body, asked)
        template = self._drawn(_phrases()["around"][kind]) if kind else ""
        if not template:
            return body
        return template.replace("{s}", language.with_small_letter(body))

    def _before(self, sentences: list[Any], mood: str) -> None:
        """Add a phrase before the last sentence."""
        (body, marks), gap = sentences[-1]
        if not _OPEN.match(body) or _HAS_DETOUR.search(body):
            return
        if phrase := self._drawn(_phrases()[mood]["before"]):
            sentences[-1] = (f"{phrase} {language.with_small_letter(body)}", marks), gap

    def _restate(self, sentences: list[Any]) -> None:
        """Add what the last sentence asks about, known from the state before the turn, in front of it."""
        (body, marks), gap = sentences[-1]
        if not _WISHES.match(body) or _HAS_DETOUR.search(body):
            return
        link, phrase = self._drawn(_phrases()["links"]["all"]), self._drawn(_phrases()["ask"]["known"])
        if link and phrase:
            sentences[-1] = (
                (f"{phrase.replace('{it}', f'{self.thing} {link}')} {language.with_small_letter(body)}", marks),
                gap,
            )

    def _behind(self, sentences: list[Any], mood: str) -> None:
        """Add a phrase after the last sentence."""
        (body, marks), gap = sentences[-1]
        if (
            len(body.split()) > 3
            and not _HAS_DETOUR.search(body)
            and (_AGREES if mood == "agree" else _WISHES).match(body)
        ):
            phrase = self._drawn(_phrases()[mood]["behind"])
            sentences[-1] = (f"{body}, {phrase}" if phrase else body, marks), gap

    def _after(self, sentences: list[Any], mood: str) -> None:
        """Add a sentence at the end of the turn."""
        (body, marks), gap = sentences[-1]
        if phrase := self._drawn(_phrases()[mood]["after"]):
            marks = marks.rstrip() or ("?" if language.asks(body) else ".")
            sentences[-1] = (body, f"{marks} {phrase}"), gap
