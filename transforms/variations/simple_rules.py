"""The rules of the simple form: what a sentence can lose and still say the same."""

from __future__ import annotations

import re


def _rule(pattern: str) -> re.Pattern[str]:
    # People write apostrophes in three ways, or not at all.
    return re.compile(pattern.replace("'", "['’]?"), re.IGNORECASE)


_DO = (
    r"(?=(?:find|show|tell|give|get|search|look|check|book|reserve|make|suggest|recommend|play|buy|purchase|rent|"
    r"schedule|add|transfer|send|set|locate|provide|put|change|confirm|pull|see|list|order|share|repeat|arrange|hire|"
    r"watch|hear|cancel|start|stream|visit|inquire|explore|try|plan|create|move|pay)\b)"
)
_WISHED = (
    r"(?=(?:find|search|get|check|book|reserve|buy|purchase|rent|schedule|make|transfer|set|order|add|send|hire)\b)"
)
_SOFT = r"(?:(?:please|kindly|maybe|possibly|perhaps|just|also)\s+)*"
_YOU = r"(?:can|could|would|will)\s+you\s+" + _SOFT
_ID = r"i(?:'d|\s+would)\s+(?:also\s+|really\s+)?"
_NOUN = r"(?=(?:an|a|some)\s+(?!help\b|hand\b|favou?r\b|lot\b|little\b|bit\b))"
_POSSESSED = r"(?=(?:the|their|its|your)\b)"

# What a sentence may begin with and need not. ``ask`` makes an order of a question: it then ends with a full stop.
# ``name`` leaves a question of its subject alone, and needs a sentence that is one phrase.
LEADING = (
    ("greeting", _rule(r"(?:hi|hello|hey|greetings|good (?:morning|afternoon|evening))(?:\s+there)?\b[,.!]*\s+")),
    ("filler", _rule(r"(?:well|so|oh|hmm+|um+|uh+|actually|also|anyway|basically|and|plus)\b,\s+")),
    ("filler", _rule(r"(?:and|also)\s+(?=(?:can|could|what|is|are|do|does|where|when|how|will)\b)")),
    ("filler", _rule(r"so\s+(?=(?:can|could|what|is|are|do|does|where|when|I)\b)")),
    ("politeness", _rule(r"(?:please|kindly)\b,?\s+(?=[a-z])")),
    ("name", _rule(_YOU + r"(?:tell|give)\s+me\s+" + _POSSESSED)),
    ("name", _rule(r"(?:can|could|may|might)\s+i\s+" + _SOFT + r"(?:have|get|know)\s+" + _POSSESSED)),
    ("name", _rule(r"(?:what's|what\s+is|what\s+are|what\s+will\s+be)\s+" + _POSSESSED)),
    ("name", _rule(r"i(?:'d|\s+would)\s+(?:also\s+)?like\s+to\s+know\s+" + _POSSESSED)),
    ("ask", _rule(_YOU + r"(?:help\s+me\s+(?:to\s+)?)?" + _DO)),
    ("ask", _rule(r"(?:can|could)\s+i\s+" + _SOFT + r"(?=(?:book|reserve|buy|purchase|rent|schedule)\b)")),
    ("wish", _rule(_ID + r"(?:like|love|prefer)\s+(?:for\s+)?(?:you\s+)?to\s+" + _WISHED)),
    ("wish", _rule(r"i\s+(?:also\s+|really\s+)?(?:want|need|wish)\s+(?:you\s+)?to\s+" + _WISHED)),
    ("wish", _rule(r"i(?:'m|\s+am|\s+was)\s+(?:also\s+)?(?:looking|hoping|trying|wanting)\s+to\s+" + _WISHED)),
    ("wish", _rule(r"i(?:'m|\s+am)\s+(?:also\s+)?(?:looking|searching)\s+for\s+" + _NOUN)),
    ("wish", _rule(_ID + r"(?:like|love|prefer)\s+" + _NOUN)),
    ("wish", _rule(r"i\s+(?:also\s+|really\s+)?(?:want|need)\s+" + _NOUN)),
)  # fmt: skip

# What may go inside a sentence, with the comma before it.
INNER = (
    ("politeness", _rule(r",?(?<!\s)\s+please(?=[.!?]|$)")),
    ("politeness", _rule(r"(?<!\s)\s+please\b,?(?=\s)")),
    ("politeness", _rule(r",?(?<!\s)\s*\b(?:if\s+possible|if\s+you\s+(?:can|could|don't\s+mind)|kindly)"
                         r"\b(?=[.,!?\s]|$)")),
    ("filler", _rule(r"(?<=[a-z])\s+(?:really|actually|basically)\b(?=\s)")),
    ("filler", _rule(r",\s+" + _YOU + r"(?:help|assist)(?:\s+me)?(?:\s+with\s+(?:that|this))?(?:\s+please)?\?$")),
)  # fmt: skip

# Sentences that may go as a whole, where another is left; the second only where the turn does not thank by its acts.
DROPPED = (
    ("filler", _rule(_YOU + r"(?:help|assist)(?:\s+me)?(?:\s+out)?(?:\s+with\s+(?:this|that|it))?(?:\s+please)?\W*$")),
    ("filler", _rule(r"(?:hi|hello|hey|greetings|good (?:morning|afternoon|evening))(?:\s+there)?\W*$")),
    ("filler", _rule(r"(?:please\s+)?(?:help\s+me|let\s+me\s+know)(?:\s+please)?\W*$")),
)
THANKING = _rule(
    r"(?:thanks|thank\s+you)(?:\s+(?:so|very)\s+much|\s+a\s+lot|\s+in\s+advance)?(?:\s+for\s+(?:your|the|that|all)(?:\s+\w+)?)?\W*$"
)

# Forms that are shorter and say the same.
CONTRACTED = tuple(
    (_rule(pattern), text)
    for pattern, text in (
        (r"\bI am(?= [a-z])", "I'm"),
        (r"\bI would(?= (?:like|love|prefer|rather)\b)", "I'd"),
        (r"\bI will(?= [a-z])", "I'll"),
        (r"\bI have(?= (?:been|a\s+meeting|got)\b)", "I've"),
        (r"\b(?:that|it) is(?= [a-z])", ""),
        (r"\bwhat is(?= [a-z])", "what's"),
        (r"\bdo not(?= [a-z])", "don't"),
        (r"\bcannot(?= [a-z])", "can't"),
        (r"\bin order to\b", "to"),
    )
)

# A noun phrase up to the question mark, two at most: after such a "what is" may go.
_PHRASE = r"(?:\s+(?!and\b|or\b|is\b|are\b|do\b|does\b|can\b|will\b|if\b)[\w'’-]+){1,7}"
PHRASE = re.compile(rf"{_PHRASE}(?:\s+and{_PHRASE})?\s*[?.]?$", re.IGNORECASE)
LOOSE_END = re.compile(
    r"\b(?:about|like|for|at|in|from|to|on|of|with|by|called|named|doing|playing|again|located|situated)\W*$",
    re.IGNORECASE,
)

# Whole turns, of which the acts say all. What they say in their own words must not ask, object or restrict.
YES = re.compile(
    r"(?:yes|yeah|yep|yup|yea|sure|okay|ok|alright|all\s+right|absolutely|definitely|correct)\b", re.IGNORECASE
)
# So a choice may begin as well.
PLEASED = re.compile(r"(?:cool|great|good|perfect|nice|wonderful|awesome|excellent|fine)\b", re.IGNORECASE)
NO = re.compile(r"(?:no|nope|nah)\b", re.IGNORECASE)
THANKS = re.compile(r"\b(?:thanks|thank\s+you|thank|thx)\b", re.IGNORECASE)
ALL = re.compile(
    r"\b(?:(?:that|it|this)(?:['’]?s|\s+is|\s+was|\s+will\s+be|\s+would\s+be|['’]ll\s+be)\s+(?:about\s+)?(?:all|it|everything)"
    r"|(?:that|this|it)(?:\s+will|['’]?ll|\s+should)\s+do(?:\s+it)?|all\s+i\s+need(?:ed)?|(?:i['’]?m|i\s+am)\s+all\s+set"
    r"|nothing\s+else|(?:don['’]?t|do\s+not|won['’]?t)\s+need\s+anything\s+(?:else|more))\b",
    re.IGNORECASE,
)
BYE = re.compile(
    r"\b(?:bye|goodbye|good\s+(?:bye|night|day)|see\s+you|so\s+long|take\s+care"
    r"|have\s+an?\s+\w+\s+(?:one|day|night|evening|afternoon|weekend|time))\b",
    re.IGNORECASE,
)
PLEASANT = re.compile(
    r"(?:sounds|(?:that|it|this|everything)(?:\s+(?:one|all))?"
    r"(?:['’]?s|\s+(?:is|was|sounds|looks|seems|would\s+be|will\s+be)))\s+"
    r"(?:(?:all|so|very|really|pretty|just|like|a|an|quite|absolutely|sounds)\s+)*"
    r"(good|great|perfect|fine|nice|awesome|wonderful|correct|right|okay|lovely|excellent|amazing|fantastic)\b",
    re.IGNORECASE,
)
OBJECTING = re.compile(
    r"\b(?:but|except|instead|although|however|unless|only|if|or|change|rather|first|second|third|last|other|what|when|where|how|which|who)\b|\?|\d",
    re.IGNORECASE,
)
NEGATED = re.compile(r"\b(?:not|never|don['’]?t|doesn['’]?t|won['’]?t|isn['’]?t|can['’]?t)\b", re.IGNORECASE)
