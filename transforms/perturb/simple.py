"""Simplify turns: keep what dialogue acts and spans say, drop fillers and politeness (RADDLE, section 4).

There are two ways. If the acts express everything in a turn (a yes, a no, thanks), it becomes one or two words.
Otherwise, sentences lose optional beginnings and polite phrases, but stay sentences: "I am looking for a bus" becomes
"I want a bus", never "A bus". Only safe rules are applied: words of values are never touched, and a turn is unchanged
if no rule applies.
"""

import re
from collections.abc import Iterator
from itertools import pairwise

from parapet.transforms.perturb import edits, english, rewrites, typos, user_turns

_BETWEEN = re.compile(r"(?<=[.!?])\s+(?=[A-Z])")
_YES_ACTS = frozenset({"AFFIRM", "AFFIRM_INTENT", "SELECT"})
_NO_ACTS = frozenset({"NEGATE", "NEGATE_INTENT"})
_END_ACTS = frozenset({"THANK_YOU", "GOODBYE"})


def simplified(user_turn: user_turns.UserTurn) -> rewrites.Rewrite:
    """Shortens a turn, or return the reason why it is unchanged."""
    if not any(map(str.isalpha, user_turn.utterance)):
        return rewrites.Rewrite(reason="no_word")
    operations = _by_acts(user_turn) or _by_sentences(user_turn)
    if not operations:
        return rewrites.Rewrite(reason="no_rule")
    rewrite = rewrites.by_edits(user_turn, operations)
    if len(rewrite.text) >= len(user_turn.utterance) or not any(map(str.isalnum, rewrite.text)):
        return rewrites.Rewrite(reason="not_shorter")
    return rewrite


def _by_acts(user_turn: user_turns.UserTurn) -> list[typos.Operation]:
    """Replaces the whole turn by its acts, if these are only a yes, a no or thanks."""
    text, acts = user_turn.utterance, user_turn.acts
    if not acts or user_turn.protected() or OBJECTING.search(text):
        return []
    end = _end(text, acts)
    if "GOODBYE" in acts and not end:
        return []  # an unknown form of farewell
    if acts <= _YES_ACTS | {"GOODBYE"} and not NEGATED.search(text):
        return _cut(text, YES.match(text), end) or _pleasant(text, end)
    if acts & _NO_ACTS and acts <= _NO_ACTS | _END_ACTS:
        return _cut(text, NO.match(text), end or (", thanks" if "THANK_YOU" in acts else ""))
    if acts <= _END_ACTS and end.startswith(", thanks"):
        return _whole(text, f"Thanks{end.removeprefix(', thanks')}")
    return []


def _end(text: str, acts: frozenset[str]) -> str:
    """Returns a short ending for a turn with acts of thanks or farewell."""
    thanks = ", thanks" if acts & _END_ACTS and THANKS.search(text) else ""
    if "GOODBYE" not in acts:
        return thanks
    leave = ", bye" if BYE.search(text) else ", that's all" if ALL.search(text) else ""
    # The other words may be an unknown farewell, so they are kept.
    return thanks + leave if leave or THANKING.match(text) else ""


def _whole(text: str, new: str) -> list[typos.Operation]:
    new = english.in_style_of(text, new)
    return [typos.Operation(0, len(text), new, "by_acts")] if len(new) < len(text) else []


def _cut(text: str, first: re.Match[str] | None, more: str) -> list[typos.Operation]:
    """Keeps the first word and replace the rest by ``more``."""
    if first is None or len(text) <= first.end() + len(more) + 1:
        return []
    return [typos.Operation(first.end(), len(text), english.in_style_of(text, more), "by_acts")]


def _pleasant(text: str, more: str) -> list[typos.Operation]:
    match = PLEASANT.match(text)
    return _whole(text, f"{match[1].capitalize()}{more}") if match else []


def _sentences(text: str, kept: edits.Ranges) -> list[edits.Range]:
    gaps = [match.span() for match in _BETWEEN.finditer(text) if not kept.overlap(match.start(), match.start())]
    starts, ends = [0, *(end for _, end in gaps)], [*(start for start, _ in gaps), len(text.rstrip())]
    return list(zip(starts, ends, strict=True))


def _by_sentences(user_turn: user_turns.UserTurn) -> list[typos.Operation]:
    text, kept = user_turn.utterance, edits.Ranges(user_turn.protected())
    sentences = _sentences(text, kept)
    droppable = [sentence for sentence in sentences if _may_drop(user_turn, *sentence, kept)]
    dropped = set(droppable[1:] if len(droppable) == len(sentences) else droppable)
    operations: list[typos.Operation] = []
    for i, (start, end) in enumerate(sentences):
        if (start, end) in dropped:
            # including the blanks between it and its neighbour
            last = i + 1 == len(sentences)
            start = len(text[:start].rstrip()) if last else start
            end = end if last else sentences[i + 1][0]
            operations.append(typos.Operation(start, end, "", "dropped_sentence"))
        else:
            operations += _in_sentence(user_turn, start, end, kept)
    # Two dropped sentences may share their blanks.
    return [
        later for earlier, later in pairwise([typos.Operation(0, 0, "", ""), *operations]) if earlier.end <= later.start
    ]


def _may_drop(user_turn: user_turns.UserTurn, start: int, end: int, kept: edits.Ranges) -> bool:
    if kept.touch(start, end):
        return False
    sentence = user_turn.utterance[start:end]
    thanks = not user_turn.acts & _END_ACTS and THANKING.match(sentence)
    return bool(thanks) or GREETING.fullmatch(sentence) is not None


def _in_sentence(user_turn: user_turns.UserTurn, start: int, end: int, kept: edits.Ranges) -> Iterator[typos.Operation]:
    text = user_turn.utterance
    if user_turn.acts & _YES_ACTS and not kept.touch(start, end) and end < len(text.rstrip()):
        yes = YES.match(text, start, end)
        rest = text[yes.end() : end].lstrip(" ,") if yes else ""
        if yes and PLEASANT.match(rest) and not OBJECTING.search(rest) and not NEGATED.search(rest):
            yield typos.Operation(yes.end(), end, ".", "by_acts")
            return
    first, new, keeps_mark = start, "", True
    for kind, pattern in LEADING:
        match = pattern.match(text, first, end)
        if match is None or kept.overlap(*match.span()):
            continue
        rest = text[match.end() : end]
        if kind in ("ask", "wish") and GOES_ON.search(rest):
            continue
        if kind == "want":
            new = "I want to " if match[0].rstrip().endswith("to") else "I want "
        first, last = match.end(), kind
        if kind in ("want", "ask", "wish"):
            keeps_mark = kind != "ask" and "," in rest  # ", any suggestions?"
            break
    if first > start:
        yield typos.Operation(start, first, new, last)
        if not new and text[start].isupper() and "a" <= text[first] <= "z" and not kept.touch(first, first + 1):
            yield typos.Operation(first, first + 1, text[first].upper(), "capital")
    yield from _inner(text, first + 1, end, kept)
    if text[end - 1] == "?" and not keeps_mark and not kept.overlap(end - 1, end):
        yield typos.Operation(end - 1, end, ".", "mark")


def _inner(text: str, start: int, end: int, kept: edits.Ranges) -> list[typos.Operation]:
    operations: list[typos.Operation] = []
    for kind, pattern in INNER:
        for match in pattern.finditer(text, start, end):
            # A blank beside a value may be removed with what follows it, but the value must not be touched.
            is_free = all(match.end() <= other.start or other.end <= match.start() for other in operations)
            if is_free and not kept.overlap(*match.span()):
                operations.append(typos.Operation(match.start(), match.end(), "", kind))
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
_HELLO = r"(?:hi|hello|hey|greetings|good (?:morning|afternoon|evening))(?:\s+there)?+"
_SOFT = r"(?:(?:please|kindly|maybe|possibly|perhaps|just|also)\s+)*"
_YOU = r"(?:can|could|would|will)\s+you\s+" + _SOFT
_ID = r"i(?:'d|\s+would)\s+(?:also\s+|really\s+)?"
_WHAT = r"(?=(?!to\b|for\b|it\b|if\b|that\b|not\b|you\b)[\w$])"

# Optional beginnings of a sentence. ``ask`` and ``wish`` turn it into an order, which ends with a full stop; ``want``
# says "I want".
LEADING = (
    ("greeting", english.rule(_HELLO + r"\b[,.!]*\s+")),
    ("filler", english.rule(r"(?:well|so|oh|hmm+|um+|uh+|actually|also|anyway|basically|and|plus)\b,\s+")),
    ("filler", english.rule(r"(?:and|also)\s+(?=(?:can|could|what|is|are|do|does|where|when|how|will)\b)")),
    ("politeness", english.rule(r"(?:please|kindly)\b,?\s+(?=[a-z])(?!do\b\W*$)")),
    ("ask", english.rule(_YOU + r"(?:help\s+me\s+(?:to\s+)?)?" + _DO)),
    ("wish", english.rule(_ID + r"(?:like|love|prefer)\s+(?:for\s+)?(?:you\s+)?to\s+" + _WISHED)),
    ("wish", english.rule(r"i\s+(?:also\s+|really\s+)?(?:want|need|wish)\s+(?:you\s+)?to\s+" + _WISHED)),
    ("want", english.rule(r"i(?:'m|\s+am|\s+was)\s+(?:also\s+)?(?:looking|searching)\s+for\s+" + _WHAT)),
    ("want", english.rule(_ID + r"(?:like|love|prefer)\s+" + _WHAT)),
    ("want", english.rule(_ID + r"(?:like|love|prefer)\s+to\s+(?=(?!know\b|say\b|thank\b)[a-z])")),
)  # fmt: skip

# Phrases that may be dropped inside a sentence, with the comma before them.
INNER = (
    ("politeness", english.rule(r",?(?<!\s)\s+please(?=[.!?]|$)")),
    ("politeness", english.rule(r"(?:(?<=,)\s+please\b,?(?=\s)|(?<![\s,])\s+please\b(?=[\s,]))")),
    ("filler", english.rule(r"(?<=[a-z])\s+(?:really|actually|basically)\b(?=\s)")),
)  # fmt: skip

# Sentences that may be dropped if another one is left; thanks only if the turn has no act of thanking.
GREETING = english.rule(_HELLO + r"\W*")
THANKING = english.rule(
    r"(?:thanks|thank\s+you)(?:\s+(?:so|very)\s+much|\s+a\s+lot|\s+in\s+advance)?(?:\s+for\s+(?:your|the|that|all)(?:\s+\w+)?)?\W*$"
)

# Continuations that do not fit an order: "I need a cab and am fine with a shared one".
GOES_ON = english.rule(
    r"\bmyself\b|(?:\band|\bbut|,)\s+(?:am|was|would|will|have|need|want|can|could|don't|do\s+not|prefer|like|do|does|is"
    r"|are|what|when|where|which|who|how)\b|\?\s+\w"
)

# For turns expressed completely by their acts. The rest of their words must not ask, object or restrict.
YES = english.rule(r"(?:yes|yeah|yep|yup|yea|sure|okay|ok|alright|all\s+right|absolutely|definitely|correct)\b")
NO = english.rule(r"(?:no|nope|nah)\b")
THANKS = english.rule(r"\b(?:thanks|thank\s+you|thank|thx)\b")
ALL = english.rule(
    r"\b(?:(?:that|it|this)(?:'s|\s+is|\s+was|\s+will\s+be|\s+would\s+be|'ll\s+be)\s+(?:about\s+)?(?:all|it|everything)"
    r"|(?:that|this|it)(?:\s+will|'ll|\s+should)\s+do(?:\s+it)?|all\s+i\s+need(?:ed)?|(?:i'm|i\s+am)\s+all\s+set"
    r"|nothing\s+else|(?:don't|do\s+not|won't)\s+need\s+anything\s+(?:else|more))\b"
)
BYE = english.rule(
    r"\b(?:bye|goodbye|good\s+(?:bye|night|day)|see\s+you|so\s+long|take\s+care"
    r"|have\s+an?\s+\w+\s+(?:one|day|night|evening|afternoon|weekend|time))\b"
)
PLEASANT = english.rule(
    r"(?:sounds|(?:that|it|this|everything)(?:\s+(?:one|all))?"
    r"(?:'s|\s+(?:is|was|sounds|looks|seems|would\s+be|will\s+be)))\s+"
    r"(?:(?:all|so|very|really|pretty|just|like|a|an|quite|absolutely|sounds)\s+)*"
    r"(good|great|perfect|fine|nice|awesome|wonderful|correct|right|okay|lovely|excellent|amazing|fantastic)\b"
)
OBJECTING = english.rule(
    r"\b(?:but|except|instead|although|however|unless|only|if|or|change|rather|first|second|third|last|other|what|when|where|how|which|who)\b|\?|\d"
)
NEGATED = english.rule(r"\b(?:not|never|don't|doesn't|won't|isn't|can't)\b")
