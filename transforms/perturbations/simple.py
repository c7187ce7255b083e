"""Simplify turns: keep what dialogue acts and spans say, drop fillers and politeness (RADDLE, section 4).

There are two ways. If the acts express everything in a turn (a yes, a no, thanks), it becomes one or two words.
Otherwise, sentences lose optional beginnings and polite phrases, but stay sentences: "I am looking for a bus" becomes
"I want a bus", never "A bus". Only safe rules are applied: words of values are never touched, and a turn is unchanged
if no rule applies, or none except contractions.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from parapet.transforms.perturbation.edits import Range, Ranges, edited
from parapet.transforms.perturbation.user_turns import UserTurn
from parapet.transforms.perturbations.language import in_style_of, rule
from parapet.transforms.perturbations.typos import Operation

_BETWEEN = re.compile(r"(?<=[.!?])\s+(?=[A-Z])")
_YES_ACTS = frozenset({"AFFIRM", "AFFIRM_INTENT", "SELECT"})
_NO_ACTS = frozenset({"NEGATE", "NEGATE_INTENT"})
_END_ACTS = frozenset({"THANK_YOU", "GOODBYE"})


def simple_operations(user_turn: UserTurn) -> tuple[list[Operation], str]:
    """Return the operations that shorten a turn, in order; without any, the reason."""
    if not any(map(str.isalpha, user_turn.utterance)):
        return [], "no_word"
    operations = _by_acts(user_turn) or _by_sentences(user_turn)
    if not operations:
        return [], "no_rule"
    if all(operation.kind == "contraction" for operation in operations):
        return [], "only_contraction"
    new = edited(user_turn.utterance, operations)
    if len(new) >= len(user_turn.utterance) or not any(map(str.isalnum, new)):
        return [], "not_shorter"
    return operations, ""


def _by_acts(user_turn: UserTurn) -> list[Operation]:
    """Replace the whole turn by its acts, if these are only a yes, a no or thanks."""
    text, acts = user_turn.utterance, user_turn.acts
    if not acts or not text.replace("’", "'").isascii() or user_turn.protected() or OBJECTING.search(text):
        return []
    end = _end(text, acts)
    if "GOODBYE" in acts and not end:
        return []  # an unknown form of farewell
    if acts <= _YES_ACTS | {"GOODBYE"} and not NEGATED.search(text):
        first = YES.match(text) or (PLEASED.match(text) if "SELECT" in acts else None)
        return _cut(text, first, end) or _pleasant(text, end)
    if acts & _NO_ACTS and acts <= _NO_ACTS | _END_ACTS:
        return _cut(text, NO.match(text), end or (", thanks" if "THANK_YOU" in acts else ""))
    if acts <= _END_ACTS and end.startswith(", thanks"):
        return _whole(text, f"Thanks{end.removeprefix(', thanks')}")
    return []


def _end(text: str, acts: frozenset[str]) -> str:
    """Return a short ending for a turn with acts of thanks or farewell."""
    thanks = ", thanks" if acts & _END_ACTS and THANKS.search(text) else ""
    if "GOODBYE" not in acts:
        return thanks
    leave = ", bye" if BYE.search(text) else ", that's all" if ALL.search(text) else ""
    # The other words may be an unknown farewell, so they are kept.
    return thanks + leave if leave or THANKING.match(text) else ""


def _whole(text: str, new: str) -> list[Operation]:
    new = in_style_of(text, new)
    return [Operation(0, len(text), new, "by_acts", text)] if len(new) < len(text) else []


def _cut(text: str, first: re.Match[str] | None, more: str) -> list[Operation]:
    """Keep the first word and replace the rest by ``more``."""
    if first is None or len(text) <= first.end() + len(more) + 1:
        return []
    return [Operation(first.end(), len(text), in_style_of(text, more), "by_acts", text[first.end() :])]


def _pleasant(text: str, more: str) -> list[Operation]:
    match = PLEASANT.match(text)
    return _whole(text, f"{match[1].capitalize()}{more}") if match else []


def _sentences(text: str, kept: Ranges) -> list[Range]:
    ends = [match.start() for match in _BETWEEN.finditer(text) if not kept.overlap(match.start(), match.start())]
    starts = [0, *(_after_blanks(text, end) for end in ends)]
    return list(zip(starts, [*ends, len(text.rstrip())], strict=True))


def _after_blanks(text: str, at: int) -> int:
    while at < len(text) and text[at].isspace():
        at += 1
    return at


def _by_sentences(user_turn: UserTurn) -> list[Operation]:
    text, kept = user_turn.utterance, Ranges(user_turn.protected())
    sentences = _sentences(text, kept)
    droppable = [sentence for sentence in sentences if _may_drop(user_turn, *sentence, kept)]
    dropped = set(droppable[1:] if len(droppable) == len(sentences) else droppable)
    operations: list[Operation] = []
    for i, (start, end) in enumerate(sentences):
        if (start, end) in dropped:
            # including the blanks between it and its neighbour
            last = i + 1 == len(sentences)
            start = len(text[:start].rstrip()) if last else start
            end = end if last else sentences[i + 1][0]
            operations.append(Operation(start, end, "", "dropped_sentence", text[start:end]))
        else:
            operations += _in_sentence(user_turn, start, end, kept)
    return _apart(operations)


def _apart(operations: Sequence[Operation]) -> list[Operation]:
    """Sort operations and drop those that overlap the previous one: two dropped sentences may share their blanks."""
    operations_here: list[Operation] = []
    for operation in sorted(operations):
        if not operations_here or operations_here[-1].end <= operation.start:
            operations_here.append(operation)
    return operations_here


def _may_drop(user_turn: UserTurn, start: int, end: int, kept: Ranges) -> bool:
    if kept.touch(start, end):
        return False
    sentence = user_turn.utterance[start:end]
    thanks = not user_turn.acts & _END_ACTS and THANKING.match(sentence)
    return bool(thanks) or any(pattern.match(sentence) for _, pattern in DROPPED)


def _in_sentence(user_turn: UserTurn, start: int, end: int, kept: Ranges) -> Iterator[Operation]:
    text = user_turn.utterance
    if user_turn.acts & _YES_ACTS and not kept.touch(start, end) and end < len(text.rstrip()):
        yes = YES.match(text, start, end)
        rest = text[yes.end() : end].lstrip(" ,") if yes else ""
        if yes and PLEASANT.match(rest) and not OBJECTING.search(rest) and not NEGATED.search(rest):
            yield Operation(yes.end(), end, ".", "by_acts", text[yes.end() : end])
            return
    first, new, mark = start, "", ""
    for kind, pattern in LEADING:
        match = pattern.match(text, first, end)
        if match is None or kept.overlap(*match.span()):
            continue
        rest = text[match.end() : end]
        if kind == "question":
            if not PHRASE.match(f" {rest}") or LOOSE_END.search(rest):
                continue
            new, mark = ("What are " if _is_plural(rest) else "What's "), "?"
        elif kind == "want":
            new = "I want to " if match[0].rstrip().endswith("to") else "I want "
            mark = "" if "," in rest else "."
        elif kind in ("ask", "wish"):
            if rest.count("?") + rest.count(" and ") > 1 or GOES_ON.search(rest):
                continue
            mark = "" if kind == "wish" and "," in rest else "."  # ", any suggestions?"
        first, last = match.end(), kind
        if kind in ("question", "want", "ask", "wish"):
            break
    if first > start:
        yield Operation(start, first, new, last, text[start:first])
        if not new and text[start].isupper() and "a" <= text[first] <= "z" and not kept.touch(first, first + 1):
            yield Operation(first, first + 1, text[first].upper(), "capital", text[first])
    taken = _inner(text, first + 1 if first > start else start + 1, end, kept)
    yield from taken
    old = text[end - 1]
    if {old, mark} == {".", "?"} and not kept.overlap(end - 1, end) and all(other.end < end for other in taken):
        yield Operation(end - 1, end, mark, "mark", old)


def _is_plural(phrase: str) -> bool:
    """Whether the first noun of a phrase is plural, or there are two of them."""
    head = re.split(r"\s+(?:of|for|at|in|to|with|from|on|by|near)\b|\W*$", phrase, maxsplit=1)[0]
    return " and " in phrase or (head.endswith("s") and not head.endswith(("ss", "us", "is")))


def _inner(text: str, start: int, end: int, kept: Ranges) -> list[Operation]:
    found = [
        (match, "." if match[0].endswith("?") else "", kind)
        for kind, pattern in INNER
        for match in pattern.finditer(text, start, end)
    ]
    for pattern, new in CONTRACTED:
        for match in pattern.finditer(text, max(start - 1, 0), end):
            after = new or f"{match[0][:-3]}'s"
            found.append((match, after[0].upper() + after[1:] if match[0][0].isupper() else after, "contraction"))
    operations: list[Operation] = []
    for match, new, kind in found:
        # A blank beside a value may be removed with what follows it, but the value must not be touched.
        is_free = all(match.end() <= other.start or other.end <= match.start() for other in operations)
        if is_free and not kept.overlap(*match.span()):
            operations.append(Operation(match.start(), match.end(), new, kind, match[0]))
    return sorted(operations)


_DO = (
    r"(?=(?:find|show|tell|give|get|search|look|check|book|reserve|make|suggest|recommend|play|buy|purchase|rent|"
    r"schedule|add|transfer|send|set|locate|provide|put|change|confirm|pull|see|list|order|share|repeat|arrange|hire|"
    r"watch|hear|contact|grab|cancel|start|stream|visit|inquire|explore|try|plan|create|move|pay)\b)"
)
_WISHED = (
    r"(?=(?:find|search|book|reserve|buy|purchase|rent|schedule|make|transfer|order|add|send|hire|set(?!\s+off)"
    r"|get(?!\s+(?:to|back|there|home|from|off|out|in|into|on|away|around|together|rid|over)\b)|check(?!\s+(?:in|out)\b))\b)"
)
_SOFT = r"(?:(?:please|kindly|maybe|possibly|perhaps|just|also)\s+)*"
_YOU = r"(?:can|could|would|will)\s+you\s+" + _SOFT
_ID = r"i(?:'d|\s+would)\s+(?:also\s+|really\s+)?"
_WHAT = r"(?=(?!to\b|for\b|it\b|if\b|that\b|not\b|you\b)[\w$])"
_POSSESSED = r"(?=(?:the|their|its|your)\b)"

# Optional beginnings of a sentence. ``ask`` and ``wish`` turn it into an order, which ends with a full stop;
# ``question`` asks for a phrase with "What's"; ``want`` says "I want".
LEADING = (
    ("greeting", rule(r"(?:hi|hello|hey|greetings|good (?:morning|afternoon|evening))(?:\s+there)?+\b[,.!]*\s+")),
    ("filler", rule(r"(?:well|so|oh|hmm+|um+|uh+|actually|also|anyway|basically|and|plus)\b,\s+")),
    ("filler", rule(r"(?:and|also)\s+(?=(?:can|could|what|is|are|do|does|where|when|how|will)\b)")),
    ("filler", rule(r"so\s+(?=(?:can|could|what|is|are|do|does|where|when|I)\b)")),
    ("politeness", rule(r"(?:please|kindly)\b,?\s+(?=[a-z])(?!do\b\W*$)")),
    ("politeness", rule(r"(?:go\s+ahead\s+and|help\s+me(?:\s+to)?)\s+" + _DO)),
    ("question", rule(_YOU + r"(?:tell|give)\s+me\s+" + _POSSESSED)),
    ("question", rule(r"(?:can|could|may|might)\s+i\s+" + _SOFT + r"(?:have|get|know)\s+" + _POSSESSED)),
    ("question", rule(r"i(?:'d|\s+would)\s+(?:also\s+)?like\s+to\s+know\s+" + _POSSESSED)),
    ("ask", rule(_YOU + r"(?:help\s+me\s+(?:to\s+)?)?" + _DO)),
    ("ask", rule(r"i(?:'m|\s+am|\s+was)?\s+(?:just\s+)?wonder(?:ing)?\s+(?:if|whether)\s+you\s+could\s+" + _DO)),
    ("ask", rule(r"(?:can|could)\s+i\s+" + _SOFT + r"(?=(?:book|reserve|buy|purchase|rent|schedule)\b)")),
    ("wish", rule(_ID + r"(?:like|love|prefer)\s+(?:for\s+)?(?:you\s+)?to\s+" + _WISHED)),
    ("wish", rule(r"i\s+(?:also\s+|really\s+)?(?:want|need|wish)\s+(?:you\s+)?to\s+" + _WISHED)),
    ("wish", rule(r"i(?:'m|\s+am|\s+was)\s+(?:also\s+)?(?:looking|hoping|trying|wanting)\s+to\s+" + _WISHED)),
    ("want", rule(r"i(?:'m|\s+am|\s+was)\s+(?:also\s+)?(?:looking|searching)\s+for\s+" + _WHAT)),
    ("want", rule(_ID + r"(?:like|love|prefer)\s+" + _WHAT)),
    ("want", rule(_ID + r"(?:like|love|prefer)\s+to\s+(?=(?!know\b|say\b|thank\b)[a-z])")),
    ("want", rule(r"i(?:'m|\s+am|\s+was)\s+(?:also\s+)?(?:looking|hoping|wanting)\s+to\s+(?=[a-z])")),
)  # fmt: skip

# Phrases that may be dropped inside a sentence, with the comma before them.
INNER = (
    ("politeness", rule(r",?(?<!\s)\s+please(?=[.!?]|$)")),
    ("politeness", rule(r"(?:(?<=,)\s+please\b,?(?=\s)|(?<![\s,])\s+please\b(?=[\s,]))")),
    ("politeness", rule(r",?(?<!\s)\s*\b(?:if\s+possible|if\s+you\s+(?:can|could|don't\s+mind)|kindly)"
                         r"\b(?=[.,!?]|$)")),
    ("filler", rule(r"(?<=[a-z])\s+(?:really|actually|basically)\b(?=\s)")),
    ("filler", rule(r",\s+" + _YOU + r"(?:help|assist)(?:\s+me)?(?:\s+with\s+(?:that|this))?(?:\s+please)?\?$")),
)  # fmt: skip

# Sentences that may be dropped if another one is left; thanks only if the turn has no act of thanking.
DROPPED = (
    ("filler", rule(_YOU + r"(?:help|assist)(?:\s+me)?(?:\s+out)?(?:\s+with\s+(?:this|that|it))?(?:\s+please)?\W*$")),
    ("filler", rule(r"(?:hi|hello|hey|greetings|good (?:morning|afternoon|evening))(?:\s+there)?\W*$")),
    ("filler", rule(r"(?:please\s+)?(?:help\s+me|let\s+me\s+know)(?:\s+please)?\W*$")),
)
THANKING = rule(
    r"(?:thanks|thank\s+you)(?:\s+(?:so|very)\s+much|\s+a\s+lot|\s+in\s+advance)?(?:\s+for\s+(?:your|the|that|all)(?:\s+\w+)?)?\W*$"
)

# Shorter forms with the same meaning.
CONTRACTED = tuple(
    (rule(pattern), text)
    for pattern, text in (
        (r"\bI am(?= [a-z])", "I'm"),
        (r"\bI would(?= (?:like|love|prefer|rather)\b)", "I'd"),
        (r"\bI will(?= [a-z])", "I'll"),
        (r"\bI have(?= (?:been|a\s+meeting|got)\b)", "I've"),
        (r"\b(?:that|it) is(?= [a-z])(?! (?:then|and|but|or|if|now)\b)", ""),
        (r"\bwhat is(?= [a-z])", "what's"),
        (r"\bdo not(?= [a-z])", "don't"),
        (r"\bcannot(?= [a-z])", "can't"),
        (r"\bin order to\b", "to"),
    )
)

# A noun phrase up to the question mark, or two: before these, "what is" may be dropped.
_PHRASE = r"(?:\s+(?!and\b|or\b|is\b|are\b|do\b|does\b|can\b|will\b|if\b)[\w'’-]+){1,7}"
PHRASE = re.compile(rf"{_PHRASE}(?:\s+and{_PHRASE})?\s*[?.]?$", re.IGNORECASE)
# Continuations that do not fit an order: "I need a cab and am fine with a shared one".
GOES_ON = rule(
    r"\bmyself\b|(?:\band|\bbut|,)\s+(?:am|was|would|will|have|need|want|can|could|don't|do\s+not|prefer|like)\b"
)
LOOSE_END = rule(
    r"\b(?:about|like|for|at|in|from|to|on|of|with|by|called|named|doing|playing|again|located|situated)\W*$"
)

# For turns expressed completely by their acts. The rest of their words must not ask, object or restrict.
YES = rule(r"(?:yes|yeah|yep|yup|yea|sure|okay|ok|alright|all\s+right|absolutely|definitely|correct)\b")
# Selections may begin like this, too.
PLEASED = rule(r"(?:cool|great|good|perfect|nice|wonderful|awesome|excellent|fine)\b")
NO = rule(r"(?:no|nope|nah)\b")
THANKS = rule(r"\b(?:thanks|thank\s+you|thank|thx)\b")
ALL = rule(
    r"\b(?:(?:that|it|this)(?:'s|\s+is|\s+was|\s+will\s+be|\s+would\s+be|'ll\s+be)\s+(?:about\s+)?(?:all|it|everything)"
    r"|(?:that|this|it)(?:\s+will|'ll|\s+should)\s+do(?:\s+it)?|all\s+i\s+need(?:ed)?|(?:i'm|i\s+am)\s+all\s+set"
    r"|nothing\s+else|(?:don't|do\s+not|won't)\s+need\s+anything\s+(?:else|more))\b"
)
BYE = rule(
    r"\b(?:bye|goodbye|good\s+(?:bye|night|day)|see\s+you|so\s+long|take\s+care"
    r"|have\s+an?\s+\w+\s+(?:one|day|night|evening|afternoon|weekend|time))\b"
)
PLEASANT = rule(
    r"(?:sounds|(?:that|it|this|everything)(?:\s+(?:one|all))?"
    r"(?:'s|\s+(?:is|was|sounds|looks|seems|would\s+be|will\s+be)))\s+"
    r"(?:(?:all|so|very|really|pretty|just|like|a|an|quite|absolutely|sounds)\s+)*"
    r"(good|great|perfect|fine|nice|awesome|wonderful|correct|right|okay|lovely|excellent|amazing|fantastic)\b"
)
OBJECTING = rule(
    r"\b(?:but|except|instead|although|however|unless|only|if|or|change|rather|first|second|third|last|other|what|when|where|how|which|who)\b|\?|\d"
)
NEGATED = rule(r"\b(?:not|never|don't|doesn't|won't|isn't|can't)\b")
