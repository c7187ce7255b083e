"""English grammar without a parser: sentences and clauses, embedded questions, forms of verbs.

Functions only decide unambiguous cases. Otherwise they return None, and the text is unchanged.
"""

import functools
import re
from collections.abc import Collection, Iterator

import msgspec

VALUE = "[\ue000-\uf8ff]"  # a private-use character that stands for a value


def rule(pattern: str) -> re.Pattern[str]:
    """Compiles a pattern that ignores case and accepts all forms of apostrophes, or none."""
    return re.compile(pattern.replace("'", "['’]?"), re.IGNORECASE)


# A subject of one word, or of an article and a noun, which further words may follow.
_PRONOUN = rule(r"(?P<subject>it|they|he|she|we|i|you|there|this|that|these|those)(?: (?P<tail>.+))?")
_NAMED = rule(
    r"(?P<subject>(?:the(?! most| best| least)|this|that|these|those|their|its|his|her|your|my) [a-z]+"
    rf"|{VALUE}) (?P<tail>.+)"
)
_MANY, _ONE = frozenset({"they", "we", "you", "these", "those"}), frozenset({"it", "he", "she", "this", "that"})
# Pronouns that cannot follow a verb in a question: "do it" is not a question.
_NOT_AFTER = {
    **dict.fromkeys(("is", "has", "does", "was"), _MANY),
    **dict.fromkeys(("are", "have", "were"), _ONE),
    "do": _ONE | {"there"},
}
_AUXILIARY = "is|are|was|were|will|would|can|could|should|has|have|does|do"
_WH = re.compile(
    r"(?P<wh>(?:what|which|where|when|who|how|why)(?: [a-z]+){0,4}?)"
    rf"(?P<aux> ?['’]s| (?:{_AUXILIARY})) (?P<rest>\S.*)",
    re.IGNORECASE,
)
_WHO = rule(r"(?:who|which [a-z]+) (?:[a-z]+ed|stars|sings|plays|wrote|made|sang|leaves|has) .+")
_WHETHER = rule(rf"(?P<aux>{_AUXILIARY}) (?P<rest>\S.*)")
# Words that cannot be part of a subject, so that it ends before them.
_TAIL = rule(
    r"(?:(?:an?|the|in|on|at|from|for|free|available|expensive|cheap|good|open|closed|located|situated|unisex|nonstop"
    r"|non-stop|direct|refundable|pet|kid|family|suitable|okay|still|also|more|very|currently|held|being|playing|by|with"
    rf"|showing|happening|wheelchair|worth|over|about|near|close|far|like)\b|{VALUE}\Z)"
)
_LOCATED = re.compile(
    r"(?P<subject>.+?) (?P<tail>(?:located|situated|held|being held|playing|showing|happening|going on|taking"
    r" place)\b.*)"
)
_DETERMINED = rule(rf"(?:the|this|that|these|those|their|its|his|her|your|my)\b|{VALUE}")
_NOT_A_PHRASE = rule(r"\b(?:that(?= (?:is|are|has|have))|which|who|and|or|to|if|from)\b")

_SENTENCE_END = re.compile(r"(?<=[.!?…])(?<!\b[DdMmSsJj][rst]\.)(?<!\b[Mm]rs\.)\s+")
# How a clause may begin after "and", and after a comma.
_OPENS = (
    r"(?:(?:can|could|would|will) you\b|(?:can|could|may) i\b|i(?:'(?:d|m|ll|ve))?\b"
    r"|what(?:'s| is| are| was| were| time| else)\b|where (?:is|are)\b|when (?:is|does|do|will)\b"
    r"|how (?:much|many|long|about|does|do|is|are)\b|who (?:is|are)\b|is (?:it|there)\b|are (?:there|they)\b"
    r"|do (?:you|they)\b|which \w+ (?:do|does|is|are|will)\b|does (?:it|the|this|that)\b|thanks\b|thank you\b|please\b"
    r"|(?:can|could|will|would|should) (?:we|they|it|he|she)\b"
    r"|(?:can|could|will|would|should|do|does|did|is|has) (?:any|some|every)(?:one|body|thing)\b)"
)
_MAY_OPEN = (
    rf"(?:{_OPENS}|(?:what|where|when|how|which|who|that(?: ?'s)?|it|this|sounds|no|not|yes|bye|goodbye"
    r"|have a|perfect|great|you)\b)"
)
_NOT_BEHIND_NO = r"(?<!\bno)(?<!nope)(?<!\bnah)"  # "no, thanks" is one clause
_NOT_THAT_IS_IT = r"(?:(?<!\byes)(?<!yeah)(?<!\byep)(?<!\byup)|(?! ?,\s*that(?: ?'s| is) it\b))"
_BOUNDARY = rule(
    rf"(?<![\s,])(?:{_NOT_BEHIND_NO}{_NOT_THAT_IS_IT} ?,\s*(?:(?:and|but|so)\s+)?(?={_MAY_OPEN})"
    rf"|\s(?:and|but|so)\s(?={_OPENS})|{_NOT_BEHIND_NO}(?<!\bsay)(?<!\bsays)(?<!\bto)(?<!\bmany)\s"
    r"(?=thanks\b|thank you\b)"
    r"|(?<=\Aand)\s|(?<=\Aalso),?\s)"
)
# First words after which the comma is often omitted. For some, the next word decides: no comma is missing in "no hotel"
# or "nice place".
_LEAD = rule(
    r"(?:(?:yes|yeah|yep|yup|yea|ok|okay|okey|alright|all right|hi|hello|hey)(?:,? there)?(?P<gap> ?,\s*|\s)"
    r"|(?:no|nope|nah|sure|great|perfect|awesome|wonderful|excellent|cool|nice)"
    rf"(?P<narrow> ?,\s*|\s(?:(?:and|so|but)\s)?(?={_MAY_OPEN}))"
    r"|(?:on second thoughts?|instead|actually)(?P<other> ?,\s*|\s(?=(?:i|let|could|can|it)\b)))"
    r"(?:(?:and|so|but)\s)?(?!please\b|thanks?\b|not\b|that(?: ?'s| is) it\b)(?=\S)"
)
_THANKS = rule(
    r"(?:thanks|thank you)(?: (?:so much|very much|a lot))?(?: for (?:your|the) \w+)?(?P<gap>\s)"
    r"(?=that|i\b|bye|goodbye|it|have|no\b)"
)
_ASKS = rule(
    r"(?:what|where|when|which|who|whose|why|how|is|are|was|does|do|did|can|could|may|might|will|would|should|has|have)"
    r"(?:'s)?\b"
)
_WORD = re.compile(r"[a-z]+|['’][a-z]+|[^\sa-z.,!?…]")
_FULL = {"m": "am", "d": "would", "ll": "will", "ve": "have", "re": "are", "s": "is"}
_IRREGULAR = {"be": "is", "have": "has"}


class Clause(msgspec.Struct, frozen=True):
    """A clause of a sentence.

    Attributes:
      text: the clause.
      gap: the text between it and the next one: white space, a comma, "and".
    """

    text: str
    gap: str


def sentences(text: str) -> Iterator[tuple[str, str, str]]:
    """Yields (words, final marks, white space) of each sentence; joined, they are the text."""
    at = 0
    ends = [*((end.start(), end.end()) for end in _SENTENCE_END.finditer(text)), (len(text), len(text))]
    for end, after in ends:
        body = text[at:end].rstrip(".!?…, ")
        yield body, text[at + len(body) : end], text[end:after]
        at = after


@functools.lru_cache(4096)
def clauses(sentence: str) -> tuple[Clause, ...]:
    """Splits a sentence without final marks into clauses; joined with their gaps, they are the sentence."""
    clauses: list[Clause] = []
    at = 0
    for pattern in (_LEAD, _THANKS):
        if lead := pattern.match(sentence, at):
            end = max(lead.start(name) for name in pattern.groupindex)
            clauses.append(Clause(sentence[at:end], sentence[end : lead.end()]))
            at = lead.end()
    rest = sentence[at:]
    at = 0
    for gap in _BOUNDARY.finditer(rest):
        clauses.append(Clause(rest[at : gap.start()], gap[0]))
        at = gap.end()
    return (*clauses, Clause(rest[at:], ""))


def asks(clause: str) -> bool:
    """Whether a clause begins like a question."""
    return _ASKS.match(clause) is not None


def with_small_letter(text: str) -> str:
    """Converts the first letter to lower case, except in *I* and before another capital."""
    return text if re.match(r"I\b|[A-Z]{2}", text) else text[:1].lower() + text[1:]


def in_style_of(text: str, new: str) -> str:
    """Adapts the initial capital and the final mark of a new text to those of an old one."""
    if text.rstrip()[-1:] not in (".", "!", "?", "…"):
        new = new.rstrip(".")
    elif new[-1:] not in (".", "!", "?", "…"):
        new += "."
    return with_small_letter(new) if text[:1].islower() else new


def ing_form(verb: str, doubling: Collection[str] = ()) -> str:
    """Returns the -ing form: ``making`` for ``make``, and ``getting`` for ``get`` if it is in ``doubling``."""
    if verb in doubling:
        return f"{verb}{verb[-1]}ing"
    return f"{verb[:-1]}ing" if re.fullmatch(r".+[^eo]e", verb) else f"{verb}ing"


def third_person(verb: str) -> str:
    """Returns the third person: ``serves`` for ``serve``."""
    if verb in _IRREGULAR:
        return _IRREGULAR[verb]
    if verb.endswith(("s", "sh", "ch", "x", "z", "o")):
        return f"{verb}es"
    return f"{verb[:-1]}ies" if re.fullmatch(r".+[^aeiou]y", verb) else f"{verb}s"


def embedded(question: str, verbs: Collection[str]) -> str | None:
    """Embeds a question in another sentence: ``when it starts`` for ``when does it start``.

    Args:
      question: the question in English, without its mark, beginning with *what*, *where* and the like.
      verbs: verbs that end a subject: ``when does | the show | start``.
    """
    if _WHO.fullmatch(question):
        return question
    if (match := _WH.fullmatch(question)) is None:
        return None
    if _PRONOUN.fullmatch(match["wh"].rpartition(" ")[2]):
        return None  # "how much it costs" is embedded already
    wh, aux, rest = match["wh"], match["aux"].strip().lower(), match["rest"]
    aux = "is" if aux[0] in "'’" else aux
    statement = _statement(aux, rest, verbs)
    if statement is None and aux in ("is", "are") and wh.lower().startswith(("where", "when", "who", "how ")):
        if located := _LOCATED.fullmatch(rest):
            statement = f"{located['subject']} {aux} {located['tail']}"
        elif _DETERMINED.match(rest) and rest.count(" ") < 6 and not _NOT_A_PHRASE.search(rest):
            statement = f"{rest} {aux}"
    return statement and f"{wh} {statement}"


def embedded_choice(question: str, verbs: Collection[str]) -> str | None:
    """Embeds a question without a question word, to follow *if*: ``it is far`` for ``is it far``.

    Args:
      question: the question in English, without its mark.
      verbs: see :func:`embedded`.
    """
    match = _WHETHER.fullmatch(question)
    return match and _statement(match["aux"].lower(), match["rest"], verbs)


def _statement(aux: str, rest: str, verbs: Collection[str]) -> str | None:
    """Reorders the words after a question's auxiliary so that the verb follows the subject."""
    pronoun, named = _PRONOUN.fullmatch(rest), _NAMED.fullmatch(rest)
    if pronoun and named and not _TAIL.match(pronoun["tail"] or ""):
        pronoun = None  # "that" as in "that show" is not a pronoun
    if pronoun:
        subject, tail = pronoun["subject"], pronoun["tail"] or ""
        return None if subject.lower() in _NOT_AFTER.get(aux, ()) else _with_verb(aux, subject, tail)
    if not named:
        return None
    subject, tail = named["subject"], named["tail"]
    if aux in ("is", "are", "was", "were"):
        # In "What are the prices there like", the end of the subject is unclear.
        is_clear = _TAIL.match(tail) and not tail.endswith(" like")
        return f"{subject} {aux} {tail}" if is_clear else None
    words = tail.split(" ")
    i = next((i for i, word in enumerate(words[:3]) if word.lower() in verbs), -1)
    if words[i + 1 : i + 2] == ["be"]:
        i += 1  # "the total cost | be"
    if i < 0 or aux in ("has", "have"):
        return None
    return _with_verb(aux, " ".join([subject, *words[:i]]), " ".join(words[i:]))


def _with_verb(aux: str, subject: str, tail: str) -> str | None:
    if aux not in ("do", "does"):
        return f"{subject} {aux} {tail}".rstrip()
    verb, _, rest = tail.partition(" ")
    if not re.fullmatch(r"[a-z]{2,}", verb) or verb in ("not", "also", "usually", "still"):
        return None
    return f"{subject} {third_person(verb) if aux == 'does' else verb} {rest}".rstrip()


def plain_words(text: str) -> list[str]:
    """Returns the lower-case words with contractions expanded, so that spellings of the same word compare equal."""
    return [_FULL.get(word[1:], word) if word[0] in "'’" else word for word in _WORD.findall(text.lower())]
