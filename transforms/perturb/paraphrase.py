"""Paraphrase user turns (RADDLE, section 4) by rules."""

import re
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from typing import NamedTuple

import msgspec

from parapet.transforms.core import inputs, seeding
from parapet.transforms.perturb import english, rewrites, typos, user_turns
from parapet.transforms.perturb.edits import Edit, Range, edited
from parapet.transforms.perturb.english import rule

_LONGEST = 300  # maximum number of characters of a clause that is rephrased
_FIRST_VALUE = 0xE000
_MOST_VALUES = 6_400  # number of private-use characters
_VALUE = re.compile(english.VALUE)
# Quotations, addresses and numbers may be values without annotation.
_LEFT_ALONE = re.compile(r"\"[^\"]{1,200}\"|(?<!\S)\S*?(?:@|://)\S*|(?<!\S)\S*\d\w*|\b[ap]\.m\.")
_SLOT = re.compile(r"\{(\w+)(?::(\w+))?\}")
_MACRO = re.compile(r"<([A-Z]+)>")
_SECOND_VERB = re.compile(r"(?:\band|\bbut|,) (?:would|will|am|['’]d|want|need|was|wanted|have|can)\b", re.IGNORECASE)
_DOUBLED = rule(r"\b([a-z]+) \1\b")
_JOINED = rule(r"\b(?:and|but|then|please)\b|,")
# Greetings and thanks, which are not said twice.
_SAID_ONCE = tuple(
    re.compile(rf"\b(?:{words})\b", re.IGNORECASE)
    for words in (
        "there,? there|hi|hello|hey|good day",
        "thanks|thank you|grateful|thankful|appreciated?",
        "bye|goodbye",
    )
)
_TWO_PARTS = re.compile(r"[:;] ")
_SUBJECT = rule(r"(?:i|we|it|there|they|my|the)\b")
_PLACE = rule(r"(?:in|on|at|for|from|to|by|until) ")
_GOES_ON = rule(r"and|also|so|but|then")
_SPEAKER = ("I ", "I'd", "I'm", "I've")  # forms with the speaker as subject


class Form(NamedTuple):
    """A rephrased clause.

    Attributes:
      text: the clause without its final mark.
      asks: whether it is a question; None if it is neither question nor statement.
    """

    text: str
    asks: bool | None


class Frame(msgspec.Struct, frozen=True):
    """Clauses with the same meaning.

    Attributes:
      patterns: patterns for a whole clause.
      forms: templates with slots; one that ends in a question mark is a question, one that ends in a full stop a
        statement.
    """

    patterns: tuple[re.Pattern[str], ...]
    forms: tuple[str, ...]


class Rules(msgspec.Struct, frozen=True):
    """The content of ``paraphrases.toml``.

    Attributes:
      frames: the frames in the order in which they are tried.
      wh: templates for a question that begins with *what*, *where* and the like.
      whether: templates for other questions.
      words: a pattern for all words and phrases with synonyms, each in a group.
      synonyms: the synonyms by name of the group.
      verbs: verbs that can be inflected, to their -ing forms.
      bases: -ing forms to verbs.
      second_verb: a pattern for a verb joined to another one.
      events: verbs that end the subject of a question.
    """

    frames: tuple[Frame, ...]
    wh: Frame
    whether: Frame
    words: re.Pattern[str]
    synonyms: Mapping[str, tuple[str, ...]]
    verbs: Mapping[str, str]
    bases: Mapping[str, str]
    second_verb: re.Pattern[str]
    events: frozenset[str]


@cache
def load_rules() -> Rules:
    """Loads the rules and compile their patterns."""
    table = inputs.read_table(__package__, "paraphrases.toml")
    kinds = table["verbs"]
    verbs = {verb: english.ing_form(verb, kinds["doubling"]) for verb in kinds["all"]}
    macros = {
        **table["macros"],
        "V": english.VALUE,
        "VERB": rf"(?=(?:{'|'.join(verbs)})\b)",
        "ORDER": rf"(?=(?:{'|'.join(kinds['order'])})\b)",
    }
    synonyms = [*table["nouns"].items(), *table["verb_forms"].items(), *table["other_words"].items()]
    words = "|".join(f"(?P<w{i}>{word})" for i, (word, _) in enumerate(synonyms))
    return Rules(
        frames=tuple(_frame(frame, macros) for frame in table["frames"]),
        wh=_frame(table["embedding"]["wh"], macros),
        whether=_frame(table["embedding"]["whether"], macros),
        words=re.compile(rf"(?<![\w'’-])(?:{words})(?![\w'’-])"),
        synonyms={f"w{i}": tuple(others) for i, (_, others) in enumerate(synonyms)},
        verbs=verbs,
        bases={ing_form: verb for verb, ing_form in verbs.items()},
        second_verb=re.compile(rf" (?:and|or|then) (?:{'|'.join(verbs)})\b"),
        events=frozenset(kinds["events"]),
    )


def _frame(table: Mapping[str, Sequence[str]], macros: Mapping[str, str]) -> Frame:
    return Frame(tuple(_pattern(pattern, macros) for pattern in table.get("from", ())), tuple(table["to"]))


def _pattern(pattern: str, macros: Mapping[str, str]) -> re.Pattern[str]:
    while _MACRO.search(pattern):
        pattern = _MACRO.sub(lambda name: macros[name[1]], pattern)
    for i in range(pattern.count("(?P<also>") - 1):  # names of groups must be unique
        pattern = pattern.replace("(?P<also>", f"(?P<also{i}>", 1)
    pattern = _SLOT.sub(r"(?P<\1>\\S.*?)", pattern)
    return re.compile(pattern.replace("'", "(?: ?['’])?"), re.IGNORECASE)


def rephrased(user_turn: user_turns.UserTurn, key: bytes) -> rewrites.Rewrite:
    """Rephrases a turn, or return the reason why it is unchanged.

    Args:
      user_turn: the turn.
      key: the key of the draws.
    """
    text, values = without_values(user_turn)
    if not any(map(str.isalpha, text)):
        return rewrites.Rewrite(reason="no_word")
    draw = seeding.draws(key).__next__
    quoted = text[0] in '"“' and text[-1] in '"”'
    start, inner, end = (text[0], text[1:-1], text[-1]) if quoted else ("", text, "")
    new = "".join(
        f"{_sentence(body, marks, draw)}{gap}" if body else f"{marks}{gap}"
        for body, marks, gap in english.sentences(inner)
    )
    new = f"{start}{new}{end}"
    if any(len(said.findall(new)) > max(1, len(said.findall(text))) for said in _SAID_ONCE):
        return rewrites.Rewrite(reason="no_rule")
    if english.plain_words(new) == english.plain_words(text):
        return rewrites.Rewrite(reason="no_rule")
    if not rewrites.same_polarity(text, new):
        return rewrites.Rewrite(reason=rewrites.POLARITY)
    return rewrites.reworded(
        user_turn, _VALUE.sub(lambda value: values[ord(value[0]) - _FIRST_VALUE], new), rewrites.RULES
    )


def without_values(user_turn: user_turns.UserTurn) -> tuple[str, list[str]]:
    """Replaces each value by a private-use character; returns the text and the values.

    Both are empty if the text already has such characters, or too many values.
    """
    utterance = user_turn.utterance
    ranges = [*user_turn.protected(), *(anchor.range for anchor in rewrites.anchors_of(user_turn))]
    ranges = _joined([*ranges, *(match.span() for match in _LEFT_ALONE.finditer(utterance))])
    if _VALUE.search(utterance) or len(ranges) > _MOST_VALUES:
        return "", []
    edits = [Edit(start, end, chr(_FIRST_VALUE + i)) for i, (start, end) in enumerate(ranges)]
    return edited(utterance, edits), [utterance[start:end] for start, end in ranges]


def _joined(ranges: Sequence[Range]) -> list[Range]:
    """Sorts ranges and merge those that overlap."""
    joined: list[Range] = []
    for start, end in sorted(ranges):
        if joined and start < joined[-1][1]:
            joined[-1] = (joined[-1][0], max(end, joined[-1][1]))
        else:
            joined.append((start, end))
    return joined


def _sentence(body: str, marks: str, draw: typos.Draw) -> str:
    """Rephrases the clauses of a sentence; returns it with its final marks."""
    clauses, final = english.clauses(body), marks
    pieces: list[str] = []
    alone = True  # no clause before has a verb, so a question may become a statement or vice versa
    for i, clause in enumerate(clauses):
        last = i + 1 == len(clauses)
        is_question = english.asks(clause.text) or (last and "?" in marks)
        # "What is the price and when does it end" would become a question within a question, and another beside it.
        is_joined = is_question and not last and "and" in clause.gap and english.asks(clauses[i + 1].text)
        new, asks = (clause.text, None) if is_joined else _clause(clause.text, is_question, last and alone, draw)
        if new != clause.text and clause.text:
            # A sentence that begins with a value may begin with a capital.
            first = _VALUE.match(clause.text) if i == 0 else re.match(r"I\b", clause.text)
            capital = (i == 0) if first else clause.text[0].isupper()
            new = new[:1].upper() + new[1:] if capital else english.with_small_letter(new)
        if last and asks is not None:
            if not asks:
                marks = marks.replace("?", ".")
            elif "?" not in marks and (marks or not is_question):
                marks = re.sub(r"[.!]", "?", marks) or "?"
        # "I am moving and could you find a house" would join a question to a statement.
        alone = alone and clause.text.count(" ") < 3 and not (_SUBJECT.match(clause.text) and "," not in clause.gap)
        # "Yes I want" is rephrased with the comma that it lacks.
        if i == 1 and clauses[0].gap == " " and not _GOES_ON.fullmatch(clauses[0].text):
            pieces[1] = ", " if [new, pieces[0]] != [clause.text, clauses[0].text] else " "
        pieces += [new, clause.gap]
    new = "".join([*pieces, marks])
    return body + final if _DOUBLED.search(new) and not _DOUBLED.search(body) else new


def _clause(clause: str, asked: bool, free: bool, draw: typos.Draw) -> tuple[str, bool | None]:
    """Rephrases a clause; also return whether the result is a question, or None if there is no other form.

    Args:
      clause: the clause.
      asked: whether it is a question.
      free: whether a question may become a statement or vice versa.
      draw: returns random numbers.
    """
    if _TWO_PARTS.search(clause) or (not free and _PLACE.match(clause)):  # "on Monday, I need a car"
        return clause, None
    number = draw()
    frame_match = _match(clause, asked) if 0 < len(clause) <= _LONGEST else None
    forms = [
        form
        for form in (_filled(frame_match[0].forms, frame_match[1], draw) if frame_match else ())
        if (free or form.asks is None or form.asks == asked) and _says_the_same(clause, form.text)
    ]
    if not forms:
        return _with_synonyms(clause, draw, 1), None
    before = set(english.plain_words(clause))
    far = [form for form in forms if len(set(english.plain_words(form.text)) - before) > 1]
    chosen = (far or forms)[number * len(far or forms) // seeding.DRAW_LIMIT]
    return chosen.text, chosen.asks


def _says_the_same(clause: str, new: str) -> bool:
    """Whether a form has the polarity and the values of the clause, and is not a copy."""
    return (
        rewrites.same_polarity(clause, new)
        and sorted(_VALUE.findall(clause)) == sorted(_VALUE.findall(new))
        and english.plain_words(clause) != english.plain_words(new)
    )


def _match(clause: str, asked: bool) -> tuple[Frame, re.Match[str] | str] | None:
    """Returns the frame of a clause, with the match or the embedded question."""
    rules = load_rules()
    for frame in rules.frames:
        for pattern in frame.patterns:
            if match := pattern.fullmatch(clause):
                return frame, match
    if (question := english.embedded(clause, rules.events)) is not None:
        return rules.wh, english.with_small_letter(question)
    question = english.embedded_choice(clause, rules.events) if asked else None
    if question is not None and not question.startswith("you "):
        return rules.whether, english.with_small_letter(question)
    return None


def _filled(forms: Sequence[str], found: re.Match[str] | str, draw: typos.Draw) -> Iterator[Form]:
    """Yields templates filled with the texts of their slots.

    Args:
      forms: the templates.
      found: the match of a pattern; or the text of the slot ``q``.
      draw: returns random numbers for synonyms.
    """
    texts = {"q": found} if isinstance(found, str) else _texts(found)
    texts = {name: _with_synonyms(text, draw, 2) for name, text in texts.items()}
    # A second verb shares the subject of the clause, which other forms would change.
    joined = any(map(_SECOND_VERB.search, texts.values()))
    for form in forms:
        if joined and not form.startswith(_SPEAKER):
            continue
        words, slots = _parts(form)
        inflected = [_inflected(texts.get(name, ""), how) for name, how in slots]
        # avoids "I am looking for any"
        if any(text is None or (text.startswith("any") and form[-1] != "?") for text in inflected):
            continue
        new = words[0] + "".join(f"{text}{after}" for text, after in zip(inflected, words[1:], strict=True))
        yield Form(new.rstrip("?."), {"?": True, ".": False}.get(form[-1]))


@cache
def _parts(form: str) -> tuple[list[str], list[tuple[str, str]]]:
    """Splits a template into the words, and the slots between them: name and inflection."""
    return _SLOT.split(form)[::3], _SLOT.findall(form)  # split() also returns the pattern's two groups


def _texts(found: re.Match[str]) -> dict[str, str]:
    """Returns the texts of the groups, with a lower-case first letter if one begins the clause."""
    texts: dict[str, str] = {}
    for name, text in found.groupdict().items():
        if text is not None:
            texts["also" if name.startswith("also") else name] = (
                english.with_small_letter(text) if found.start(name) == 0 else text
            )
    return texts


def _inflected(text: str, how: str) -> str | None:
    """Inflects the text of a slot for a template; None if that is impossible.

    Args:
      text: the text.
      how: ``ing`` and ``base`` inflect its first verb; ``alone`` requires that nothing is joined to it; ``object``
        applies to pronouns.
    """
    if not how:
        return text
    if how == "alone":
        return None if _JOINED.search(text) else text
    if how == "object":
        return "them" if text.lower() == "they" else text
    rules = load_rules()
    verb, gap, rest = text.partition(" ")
    new = (rules.verbs if how == "ing" else rules.bases).get(verb)
    # A second verb would need the same form.
    return None if new is None or rules.second_verb.search(f" {rest}") else f"{new}{gap}{rest}"


def _with_synonyms(text: str, draw: typos.Draw, one_in: int) -> str:
    """Replaces each word that has a synonym with a probability of 1 in ``one_in``.

    Capitalised words are not replaced: they may be names.
    """
    rules = load_rules()

    def synonym(found: re.Match[str]) -> str:
        choices = rules.synonyms[str(found.lastgroup)]
        new = choices[draw() * len(choices) // seeding.DRAW_LIMIT]
        article = text[: found.start()].rpartition(" ")[0].rpartition(" ")[2].lower() in ("a", "an")
        another_article = article and (found[0][0].lower() in "aeiou") != (new[0].lower() in "aeiou")
        return found[0] if draw() * one_in // seeding.DRAW_LIMIT or another_article else new

    return rules.words.sub(synonym, text)
