"""Rewrite turns in more words (the verbosity of RADDLE, section 4): one frame a turn, from ``verbose.toml``.

What a turn does (its acts, or its words if it has none) decides between the frames: an indirect form of its last
sentence, a phrase behind it, or a sentence before or after the turn. A turn stays as it is if no frame fits its length.
No frame is used twice in a dialogue, or repeats a word or the beginning of a sentence of the turn.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from functools import cache

from parapet.transforms.core import inputs, seeding
from parapet.transforms.perturb import english, rewrites, user_turns
from parapet.transforms.perturb.english import rule

LEAST, MOST = 1.3, 2.0  # minimum and maximum length relative to the turn
SHORT = 50  # characters that any turn may have, even of one or two words

_GREETING = rule(r"(?:hi|hello|hey|greetings|good (?:morning|afternoon|evening|day))(?: there)?\b")
# Beginnings that reply to what was said before: no sentence goes in front of them.
_REPLY = rule(
    r"(?:yes|yeah|yep|yup|yea|no|nope|nah|not|ok|okay|okey|alright|all right|sure|great|good|perfect|nice|cool|awesome"
    r"|excellent|wonderful|fine|right|correct|thanks|thank|sounds|looks|works|that|this|it|i see|i like|actually|sorry"
    r"|oops|oh|well|and|but|so|also|then|now|next|hmm+|wow|let me|what about|how about|or|please|maybe|perhaps|later"
    r"|instead|you|got it)\b"
)
_NO_QUESTION = rule(r"(?:what|where|when|how|which|who) (?:i|we|you|they|it|the|about)\b|do (?:the same|it|that|so)\b")
_CAN_YOU = rule(r"(?:please )?(?:can|could|would|will) you (?:please |kindly )?")
_CAN_I = rule(r"(?:can|could|may|should) (?:i|we)\b")
_PLEASE = rule(r"(?:please |go ahead and )+")
_HELP_ME = rule(r"help me (?:to )?(?!out\b|with\b)(?=\w)")
_WISH = rule(
    r"\b(?:i|we)(?: also| really)?(?: would|'d| want| need| prefer| am looking|'m looking| was hoping)\b"
    r"|make it\b|let's\b"
)
_WISH_TO = rule(
    r"i(?: would|'d) like to |i(?: really)? (?:want|need|wish|am looking|was hoping|am trying|was looking) to "
    r"|i'm (?:looking|trying|hoping) to "
)
_VERBAL = rule(r"\b(?:i|we|you|they|it|there|is|are|was|were|will|would|has|have|can|should|do|does|my)\b")
_WHAT_IS = rule(r"what(?:'s| is| are) (?:the|an?)\b")
_PHRASE = rule(
    r"what(?:'s| is| are| was| will be| would be) "
    r"(?P<s>(?:the|their|its|his|her) (?!.*\b(?:going to|like|if|and|called|named|for|doing|again)\b).+)"
)
_GOES_ON = rule(r"(?:\b(?:and|but)|,) (?:i|am|was|would|will|can|do|what|when|where|which|is|are|how|then|does|did)\b")
_THANKS = rule(r"(?<!no )(?<!\w, )\b(?:thanks|thank you)(?: (?:so|very) much| a lot| again)?(?= *(?:[.!,]|$))")
_THANKED = rule(r"\bthank|\bbye\b|\bgoodbye\b")
_QUOTATION = re.compile(r"([\"“])(.*)([\"”])", re.DOTALL)
_ENDS_QUOTED = re.compile(r"[\"”’'][.!?]*$")
# The first letters of words that a frame may share with its turn.
_COMMON = """
that this woul with have what coul like your from just ther abou some they will when whic then into want than need very
real okay sure good more firs best
"""
_SHARED = frozenset(_COMMON.split())
_REPLIES = {"NEGATE_INTENT": "decline", "AFFIRM_INTENT": "agree", "AFFIRM": "confirm", "SELECT": "select"}

Candidate = tuple[str, str]  # a frame, and the turn in it


@cache
def _frames() -> Mapping[str, Mapping[str, Sequence[str]]]:
    return inputs.read_table(__package__, "verbose.toml")


@cache
def _verbs() -> tuple[re.Pattern[str], frozenset[str]]:
    """Returns a pattern for the beginning of an order, and the verbs that end the subject of a question."""
    verbs = inputs.read_table(__package__, "paraphrases.toml")["verbs"]
    return re.compile(rf"(?:{'|'.join(verbs['order'])})\b", re.IGNORECASE), frozenset(verbs["events"])


def _stems(text: str) -> frozenset[str]:
    return frozenset(re.findall(r"\b[a-z]{4}", text.lower()))


_stems_of_frame = cache(_stems)


def verbose(user_turn: user_turns.UserTurn, key: bytes, said: set[str]) -> rewrites.Rewrite:
    """Rewrites a turn in more words, or return the reason why it is unchanged.

    Args:
      user_turn: the turn.
      key: the key of the draws.
      said: frames used earlier in the dialogue; that of the turn is added.
    """
    text = user_turn.utterance.strip()
    if not any(map(str.isalpha, text)):
        return rewrites.Rewrite(reason="no_word")
    longest = max(MOST * len(text), SHORT)
    words = _stems(text) - _SHARED
    choices = [
        (frame, new)
        for frame, new in _candidates(user_turn, text)
        if frame not in said and LEAST * len(text) <= len(new) <= longest and not _stems_of_frame(frame) & words
        if frame[0].islower() or " ".join(frame.split(" ", 2)[:2]).lower() not in text.lower()
    ]
    draw = seeding.draws(key).__next__
    indirect = [choice for choice in choices if "{s}" in choice[0]]
    if indirect and draw() * 3 // seeding.DRAW_LIMIT:
        choices = indirect
    if not choices:
        return rewrites.Rewrite(reason="no_rule")
    frame, new = choices[draw() * len(choices) // seeding.DRAW_LIMIT]
    rewrite = rewrites.reworded(user_turn, user_turn.utterance.replace(text, new), rewrites.RULES)
    if rewrite.text:
        said.add(frame)
    return rewrite


def _candidates(user_turn: user_turns.UserTurn, text: str) -> Iterator[Candidate]:
    """Yields the frames that suit a turn. What is said about a quotation goes inside it, or in front of it."""
    if quotation := _QUOTATION.fullmatch(text):
        first, text, last = quotation.groups()
        for frame, new in _candidates(user_turn, text):
            yield frame, f"{first}{new}{last}"
    elif "\n" not in text:
        for frame, new in _framed(user_turn, text):
            yield frame, english.in_style_of(text, new.replace(frame, frame.lower()) if text.islower() else new)


def _framed(user_turn: user_turns.UserTurn, text: str) -> Iterator[Candidate]:
    body, marks, _ = list(english.sentences(text))[-1]
    start = text[: len(text) - len(body) - len(marks)]
    *leads, last = english.clauses(body)
    lead, clause = body[: len(body) - len(last.text)], re.sub(r",? please$", "", last.text, flags=re.IGNORECASE)
    order = _order(clause)
    mood = mood_of(user_turn, body, marks, bool(order) or _CAN_YOU.match(clause) is not None)
    frames = _frames().get(mood, {})
    before = frames.get("next" if user_turn.before else "first", ())
    if not _REPLY.match(text) and not _GREETING.match(text):
        for frame in before:
            yield frame, f"{frame} {text}"
    elif start and user_turn.before and (_WISH.match(body) if mood == "wish" else english.asks(body)):
        for frame in before:
            yield frame, f"{start}{frame} {body}{marks}"
    if all(lead.text.count(" ") < 3 and not english.asks(lead.text) for lead in leads) and not _GOES_ON.search(clause):
        for kind, words in _indirect(clause, mood, order):
            for frame in frames.get(kind, ()):
                new = frame.replace("{s}", english.with_small_letter(words))
                yield frame, f"{start}{lead}{english.with_small_letter(new) if lead else new}"
    if mood == "end" and (thanks := _THANKS.search(text)):
        for frame in frames["thanks"]:
            new = frame.capitalize() if thanks[0][0].isupper() else frame
            yield frame, f"{text[: thanks.start()]}{new}{text[thanks.end() :]}"
    # What is said behind the turn is about its last sentence, and never behind a quotation.
    if _ENDS_QUOTED.search(text) or (_THANKED.search(body) and mood != "end") or ("?" in start and "?" not in marks):
        return
    if mood == "wish" and not _WISH.search(body):
        return
    if body.count(" ") > 1 and "?" not in marks and not re.search(r"\b(?:if|please)\b", body):
        for frame in frames.get("behind", ()):
            yield frame, f"{start}{body}, {frame}{marks}"
    for frame in frames.get("after", ()):
        yield frame, f"{text}{'' if marks else '?' if mood == 'ask' else '.'} {frame}"
    if text == body + marks and body in [user_turn.utterance[slice(*place)] for place in user_turn.ranges]:
        for frame in frames.get("alone", ()):
            yield frame, frame.replace("{s}", body)


def mood_of(user_turn: user_turns.UserTurn, body: str, marks: str, is_order: bool) -> str:
    """Returns what a turn does: the name of a table in ``verbose.toml``, or an empty string if that is unclear.

    Args:
      user_turn: the turn.
      body: the words of its last sentence.
      marks: the final marks.
      is_order: whether that is an order, or a question such as *can you*.
    """
    acts = user_turn.acts
    asks = english.asks(body) and not _NO_QUESTION.match(body)
    if _GREETING.fullmatch(user_turn.utterance.strip(" .!,")):
        return "greet"
    if acts and not acts & {"INFORM", "INFORM_INTENT", "REQUEST", "REQUEST_ALTS"}:
        if asks or "?" in marks:
            return ""
        if acts & {"NEGATE", "THANK_YOU", "GOODBYE"}:
            return "end"
        return next((mood for act, mood in _REPLIES.items() if act in acts), "")
    if "REQUEST_ALTS" in acts:
        return "choose" if _NO_QUESTION.match(body) else "alternatives"
    if {"NEGATE", "INFORM"} <= acts:
        return "change"
    if is_order:
        return "order"
    if asks or ("REQUEST" in acts and "?" in marks):
        return "ask"
    if not acts and (_REPLY.match(body) or _THANKED.search(body)):
        return "end" if _THANKED.search(body) else ""
    if "INFORM_INTENT" in acts or not user_turn.before:
        return "wish"
    if "AFFIRM_INTENT" in acts:
        return "agree"
    if "?" in marks:
        return "choose" if _NO_QUESTION.match(body) else ""
    if _REPLY.match(body):
        return ""
    return "choose" if _WISH.match(body) or not _VERBAL.search(body) else "" if "REQUEST" in acts else "tell"


def _order(clause: str) -> str:
    """Returns the verb phrase of an order or a request; empty if a clause is neither."""
    words = clause
    for pattern in (_CAN_YOU, _PLEASE, _HELP_ME):
        if match := pattern.match(words):
            words = words[match.end() :]
    return words if _verbs()[0].match(words) else ""


def _indirect(clause: str, mood: str, order: str) -> Iterator[tuple[str, str]]:
    """Yields (kind of frame, words in it) of the indirect forms of a clause."""
    order_begins, verbs = _verbs()
    wish = _WISH_TO.match(clause)
    if order:
        yield "vp", order
    elif mood == "wish" and wish and order_begins.match(clause, wish.end()):
        yield "vp", clause[wish.end() :]
    elif phrase := _PHRASE.fullmatch(clause):
        yield "phrase", phrase["s"]
    elif not _WHAT_IS.match(clause) and (question := english.embedded(clause, verbs)):
        yield "wh", question
    elif not _CAN_I.match(clause) and (question := english.embedded_choice(clause, verbs)):
        yield "whether", question
