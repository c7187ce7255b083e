"""A rule-based system for dialog bAbI task 6 (Bordes et al. 2017, section 4.1), with rules in TOML.

A rule fires on words of the user, the position in the dialogue, entities in the user's utterance, the bot's last
utterance, or the state of the dialogue. It updates the state, gives a response, or makes an API call. Responses are
patterns: the most frequent text of the training set selected by a regular expression and its gaps, filled with
entities.
"""

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence

import msgspec

from parapet.schemas.errors import InputError
from parapet.transforms.core.inputs import convert, parse_toml
from parapet.transforms.simulators.formats import SILENCE, BabiDialogue, Exchange, Fact, best_rated, filled, slots_of

CALL, NO_RESULT = "api_call", ("api_call", "no", "result")
ENTITY, ANY = "entity", "any"  # values that a rule may set: the entity in the utterance, or no preference
RATING = "R_rating"


class Pattern(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """Selects texts of the bot.

    Attributes:
      match: a regular expression to find in the text, in any case, with gaps such as ``{name}`` for values.
      gaps: the exact gaps of the text.
      text: the most frequent text, determined by training.
    """

    match: str = ""
    gaps: tuple[str, ...] = ()
    text: str = ""


class When(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """The conditions of a rule, all of which must hold.

    Attributes:
      words: at least one of these words is in the user's utterance, as a whole word.
      no_words: none of these words is in it.
      turn: the number of the turn in the dialogue, from 1.
      silent: whether the user is silent.
      entities: slots with a value in the user's utterance.
      known: slots with a value or no preference in the state; with ``least``, at least that many slots are known.
      unknown: slots that the state has nothing for.
      after: names of patterns, one of which matches the bot's last utterance; or ``call``.
      changed: whether the state differs from that of the last call.
      results: whether the last call had results.
      left: whether there are results that were not offered yet.
      offered: whether a result was offered.
    """

    words: tuple[str, ...] = ()
    no_words: tuple[str, ...] = ()
    turn: int | None = None
    silent: bool | None = None
    entities: tuple[str, ...] = ()
    known: tuple[str, ...] = ()
    least: int = 0
    unknown: tuple[str, ...] = ()
    after: tuple[str, ...] = ()
    changed: bool | None = None
    results: bool | None = None
    left: bool | None = None
    offered: bool | None = None


class Rule(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """A rule.

    Attributes:
      name: the name of the rule.
      when: the conditions.
      set: slot to a value, ``entity`` or ``any``.
      clear: slots to forget.
      respond: patterns; the first one that can be filled is the response.
      call: whether it makes an API call instead.
    """

    name: str
    when: When = When()
    set: dict[str, str] = {}
    clear: tuple[str, ...] = ()
    respond: tuple[str, ...] = ()
    call: bool = False

    @property
    def answers(self) -> bool:
        """Whether the rule answers; otherwise it updates the state."""
        return self.call or bool(self.respond)


class Script(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """The rules of a domain.

    Attributes:
      slots: the slots of API calls in order; ``R_SLOT`` is the relation, and stands for an unknown value.
      patterns: name to pattern.
      rules: the rules. Updates are made in this order; the first other rule that fires answers.
    """

    slots: tuple[str, ...]
    patterns: dict[str, Pattern]
    rules: tuple[Rule, ...]


def read_script(data: bytes, path: object) -> Script:
    """Parses a file of rules. Raises InputError with the place."""
    script: Script = convert(parse_toml(data, path), Script, path)
    for place, reason in _problems(script):
        raise InputError(reason, path, place)
    return script


def _problems(script: Script) -> Iterator[tuple[str, str]]:
    """Yields (place, reason) for each problem."""
    for name, pattern in script.patterns.items():
        try:
            re.compile(pattern.match)
        except re.error as error:
            yield f"patterns.{name}.match", f"is not a regular expression: {error}"
    seen: set[str] = set()
    for i, rule in enumerate(script.rules):
        if rule.name in seen:
            yield f"rules[{i}].name", f"{rule.name!r} appears twice"
        seen.add(rule.name)
        if rule.answers == bool(rule.set or rule.clear) or (rule.call and rule.respond):
            yield f"rules[{i}]", f"{rule.name}: must have either respond, or call, or set and clear"
        slots = (*rule.set, *rule.clear, *rule.when.entities, *rule.when.known, *rule.when.unknown)
        known = [(slots, script.slots, "slot"), (rule.respond, script.patterns, "pattern")]
        for names, among, kind in (*known, (rule.when.after, (*script.patterns, "call"), "pattern")):
            for name in names:
                if name not in among:
                    yield f"rules[{i}]", f"{rule.name}: there is no {kind} {name!r}: must be one of {', '.join(among)}"


class Texts:
    """Finds values in texts.

    Args:
      script: the source of slots and patterns.
      values: slot, ``name`` or another relation to its values.
    """

    def __init__(self, script: Script, values: Mapping[str, Iterable[str]]) -> None:
        self._slot = {value: slot for slot, slot_values in values.items() for value in slot_values}
        patterns = script.patterns.items()
        self._patterns = {name: (re.compile(pattern.match, re.I), set(pattern.gaps)) for name, pattern in patterns}
        self._names: dict[str, frozenset[str]] = {}

    def entities(self, text: str) -> dict[str, str]:
        """Returns the last value of each slot in a text."""
        return {self._slot[word]: word for word in text.split() if word in self._slot}

    def with_gaps(self, text: str) -> str:
        """Replaces each value in a text by a gap. Several values of the same slot are a list, which is kept."""
        words = text.split()
        several = Counter(self._slot[word] for word in set(words) if word in self._slot)
        gaps = {word: f"{{{self._slot[word]}}}" for word in words if several[self._slot.get(word, "")] == 1}
        return " ".join(gaps.get(word, word) for word in words)

    def names_of(self, text: str) -> frozenset[str]:
        """Returns the patterns that select a text of the bot; ``call`` for an API call."""
        if text not in self._names:
            bare = self.with_gaps(text)
            gaps = set(slots_of(bare))
            names = {name for name, (match, needed) in self._patterns.items() if gaps == needed and match.search(bare)}
            self._names[text] = frozenset({"call"} if text.startswith(f"{CALL} ") else names)
        return self._names[text]


def values_of(script: Script, dialogues: Iterable[BabiDialogue], knowledge: Iterable[Fact]) -> dict[str, list[str]]:
    """Returns slot, ``name`` or another relation to its sorted values in knowledge base, facts and calls."""
    by_slot: dict[str, set[str]] = {slot: set() for slot in script.slots}
    dialogues = list(dialogues)
    for fact in (*knowledge, *(fact for dialogue in dialogues for fact in dialogue.facts)):
        if (fact.entity, fact.relation, fact.value) != NO_RESULT and fact.relation != RATING:
            by_slot.setdefault("name", set()).add(fact.entity)
            by_slot.setdefault(fact.relation.removeprefix("R_"), set()).add(fact.value)
    for bot in (exchange.bot for dialogue in dialogues for exchange in dialogue.exchanges):
        if bot.startswith(f"{CALL} "):
            for slot, value in zip(script.slots, bot.split()[1:], strict=False):
                if not value.startswith("R_"):
                    by_slot[slot].add(value)
    for detail in by_slot.keys() - {"name", *script.slots}:  # the placeholder for details that the knowledge base lacks
        by_slot[detail] |= {f"{name}_{detail}" for name in by_slot["name"]}
    return {slot: sorted(values) for slot, values in by_slot.items()}


def extracted(script: Script, dialogues: Iterable[BabiDialogue], texts: Texts) -> Script:
    """Fills the script with the most frequent text of each pattern in the dialogues; ties are broken alphabetically."""
    counts: dict[str, Counter[str]] = {name: Counter() for name in script.patterns}
    for text, n in Counter(exchange.bot for dialogue in dialogues for exchange in dialogue.exchanges).items():
        for name in texts.names_of(text) - {"call"}:
            counts[name][texts.with_gaps(text)] += n
    best = {name: min(counter, key=lambda text: (-counter[text], text), default="") for name, counter in counts.items()}
    patterns = {name: msgspec.structs.replace(pattern, text=best[name]) for name, pattern in script.patterns.items()}
    return msgspec.structs.replace(script, patterns=patterns)


class System:
    """The rule-based system in one dialogue, which hears the right answer after each turn.

    Args:
      script: the script with the texts of its patterns.
      texts: finds the values in texts.
      candidates: the possible answers; empty for no restriction.
    """

    def __init__(self, script: Script, texts: Texts, candidates: frozenset[str]) -> None:
        self.script, self.texts, self.candidates = script, texts, candidates
        self.state: dict[str, str] = {}
        self._called: dict[str, str] = {}
        self._turn = 0
        self._last = ""
        self._facts: dict[str, dict[str, str]] = {}
        self._results: dict[str, None] = {}
        self._offered: list[str] = []

    def read(self, fact: Fact) -> None:
        """Adds a fact of the dialogue."""
        if (fact.entity, fact.relation, fact.value) != NO_RESULT:
            self._facts.setdefault(fact.entity, {})[fact.relation.removeprefix("R_")] = fact.value
            self._results[fact.entity] = None

    def fired(self, user: str) -> Iterator[tuple[Rule, str]]:
        """Updates the state with the user's utterance, and yields each rule that fires with its answer, in order."""
        self._turn += 1
        entities = self.texts.entities(user)
        words = f" {' '.join(user.lower().split())} "
        for rule in self.script.rules:
            if not rule.answers and self._holds(rule.when, user, words, entities):
                for slot in rule.clear:
                    self.state.pop(slot, None)
                self.state |= {slot: entities.get(slot, ANY) if to == ENTITY else to for slot, to in rule.set.items()}
        for rule in self.script.rules:
            if rule.answers and self._holds(rule.when, user, words, entities):
                texts = [self._call()] if rule.call else self._responses(rule.respond, entities.get("name", ""))
                if answer := next((text for text in texts if text in self.candidates or not self.candidates), ""):
                    yield rule, answer

    def hear(self, text: str) -> None:
        """Updates the state with the right answer."""
        self._last = text
        if text.startswith(f"{CALL} "):
            for slot, value in zip(self.script.slots, text.split()[1:], strict=False):
                if not value.startswith("R_"):
                    self.state[slot] = value
            self._called, self._results, self._offered = dict(self.state), {}, []
        elif name := self.texts.entities(text).get("name"):
            self._offered.append(name)

    def _holds(self, when: When, user: str, words: str, said: Mapping[str, str]) -> bool:
        facts = {
            "turn": self._turn,
            "silent": user == SILENCE,
            "changed": self.state != self._called,
            "results": bool(self._results),
            "left": bool(self._next()),
            "offered": bool(self._offered),
        }
        return (
            all(getattr(when, name) in (None, fact) for name, fact in facts.items())
            and (not when.words or any(f" {word} " in words for word in when.words))
            and not any(f" {word} " in words for word in when.no_words)
            and all(slot in said for slot in when.entities)
            and all(slot in self.state for slot in when.known)
            and len(self.state) >= when.least
            and not any(slot in self.state for slot in when.unknown)
            and (not when.after or bool(self.texts.names_of(self._last) & set(when.after)))
        )

    def _next(self) -> str:
        """Returns the best rated result that was not offered yet."""
        return best_rated([name for name in self._results if name not in self._offered], self._facts, "rating")

    def _call(self) -> str:
        values = {slot: value for slot, value in self.state.items() if value != ANY}
        return " ".join((CALL, *(values.get(slot, f"R_{slot}") for slot in self.script.slots)))

    def _responses(self, patterns: Sequence[str], named: str) -> Iterator[str]:
        """Yields the patterns that can be filled: first from the state, then also from the facts about the entity."""
        wanted = {slot: value for slot, value in self.state.items() if value != ANY}
        for of_entity in (False, True):
            for name in patterns:
                text = self.script.patterns[name].text
                gaps = slots_of(text)
                details = [gap for gap in gaps if gap not in ("name", *self.script.slots)]
                about = (named or (self._offered[-1] if self._offered else "")) if details else self._next()
                facts = self._facts.get(about, {})
                known = {**(facts if of_entity else {}), **wanted, "name": about}
                known |= {detail: facts.get(detail) or f"{about}_{detail}" for detail in details if about}
                if text and all(known.get(gap) for gap in gaps):
                    yield filled(text, known).utterance


def answers_of(script: Script, texts: Texts, candidates: frozenset[str], dialogue: BabiDialogue) -> list[str]:
    """Returns the answer at each turn of a dialogue; empty if no rule fires."""
    return [next((answer for _, answer in fired), "") for fired, _ in turns_of(script, texts, candidates, dialogue)]


def turns_of(
    script: Script, texts: Texts, candidates: frozenset[str], dialogue: BabiDialogue
) -> Iterator[tuple[list[tuple[Rule, str]], str]]:
    """Yields (rules that fire with their answers, the right answer) for each turn of a dialogue."""
    system = System(script, texts, candidates)
    for line in dialogue.lines:
        if isinstance(line, Exchange):
            yield list(system.fired(line.user)), line.bot
            system.hear(line.bot)
        elif isinstance(line, Fact):
            system.read(line)


def optimised(
    script: Script, texts: Texts, candidates: frozenset[str], dev: Sequence[BabiDialogue]
) -> tuple[Script, float, float]:
    """Returns the best rules in the best order for dev, and their accuracy before and after.

    Rules that answer are moved, one at a time, to their best position, as long as accuracy improves. Then each rule
    that updates the state is dropped if that improves accuracy. Because the system hears the right answers, the order
    of answers does not affect which rules fire.
    """
    ordered, before, best = _ordered(script, texts, candidates, dev)
    for rule in [rule for rule in script.rules if not rule.answers]:
        fewer = msgspec.structs.replace(ordered, rules=tuple(kept for kept in ordered.rules if kept.name != rule.name))
        tried, _, accuracy = _ordered(fewer, texts, candidates, dev)
        if accuracy > best:
            ordered, best = tried, accuracy
    return ordered, before, best


def _ordered(
    script: Script, texts: Texts, candidates: frozenset[str], dev: Sequence[BabiDialogue]
) -> tuple[Script, float, float]:
    """Returns the script in the best order, and its accuracy on dev before and after."""
    fires: dict[str, int] = {}  # the turns as bits
    right: dict[str, int] = {}
    turns = 0
    for dialogue in dev:
        for fired, truth in turns_of(script, texts, candidates, dialogue):
            for rule, answer in fired:
                fires[rule.name] = fires.get(rule.name, 0) | 1 << turns
                right[rule.name] = right.get(rule.name, 0) | (answer == truth) << turns
            turns += 1

    def correct(names: Sequence[str]) -> int:
        open_, correct_turns = (1 << turns) - 1, 0
        for name in names:
            correct_turns += (right.get(name, 0) & open_).bit_count()
            open_ &= ~fires.get(name, 0)
        return correct_turns

    names = [rule.name for rule in script.rules if rule.answers]
    before = best = correct(names)
    better = True
    while better:
        better = False
        for name in list(names):
            others = [other for other in names if other != name]
            for place in range(len(others) + 1):
                moved = [*others[:place], name, *others[place:]]
                if (n := correct(moved)) > best:
                    names, best, better = moved, n, True
    by_name = {rule.name: rule for rule in script.rules}
    rules = (*(rule for rule in script.rules if not rule.answers), *(by_name[name] for name in names))
    return msgspec.structs.replace(script, rules=rules), before / max(1, turns), best / max(1, turns)
