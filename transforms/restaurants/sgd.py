"""Simulated dialogues in the SGD layout: a service, and turns with acts, spans, states, service calls and results.

In SGD, user and system alternate and no call is spoken. So what the bot says in several lines, with the user silent in
between, is one turn; its frame has the call and its results. The facts before a dialogue of task 3 are the results of
the search when the bot starts to offer; those before a dialogue of task 4, the result of the reservation.
"""

from __future__ import annotations

from typing import Any

from parapet.transforms.restaurants.ontology import CALLS, Ontology
from parapet.transforms.restaurants.simulating import Dialogue, TurnPair, Utterance, World
from parapet.transforms.sgd_turns import (
    Line,
    act,
    joined,
    schema_intent,
    schema_service,
    schema_slot,
    state,
    system_turn,
    user_turn,
)

# What the user or the bot does, to acts of SGD without a slot.
_ACTS = {
    "no_more": ("NEGATE",),
    "reject": ("REQUEST_ALTS",),
    "accept": ("SELECT",),
    "thank": ("THANK_YOU",),
    "decline": ("NEGATE", "GOODBYE"),
    "greet": ("REQ_MORE",),
    "updated": ("REQ_MORE",),
    "reserve": ("NOTIFY_SUCCESS",),
    "reserve_by_name": ("NOTIFY_SUCCESS",),
    "anything_else": ("REQ_MORE",),
    "farewell": ("GOODBYE",),
}


def schema(ontology: Ontology) -> list[dict[str, Any]]:
    """The services of a corpus: one."""
    domain, extras = ontology.domain, ontology.extras
    slots = [
        schema_slot("name", f"Name of the {domain}"),
        *(schema_slot(field.name, f"{_aloud(field.name)} of the {domain}", field.values) for field in ontology.fields),
        schema_slot("rating", f"Rating of the {domain}, the higher the better"),
        *(schema_slot(extra, f"{_aloud(extra)} of the {domain}") for extra in extras),
    ]
    names = [slot["name"] for slot in slots]
    find, reserve = intents(ontology)
    by_fields = f"Find a {domain} by {', '.join(ontology.names)}"
    return [
        schema_service(
            service_name(ontology),
            f"Finds a {domain} that is what the user wants, and books it",
            slots,
            [
                schema_intent(find, by_fields, ontology.names, names),
                schema_intent(reserve, f"Book a {domain} by its name", ["name"], names, transactional=True),
            ],
        )
    ]


def service_name(ontology: Ontology) -> str:
    """``Restaurants_1``."""
    return f"{_camel(ontology.domain)}s_1"


def intents(ontology: Ontology) -> tuple[str, str]:
    """``FindRestaurant`` and ``ReserveRestaurant``."""
    return f"Find{_camel(ontology.domain)}", f"Reserve{_camel(ontology.domain)}"


def sgd_dialogue(world: World, dialogue: Dialogue) -> dict[str, Any]:
    """A dialogue as an SGD file has it."""
    turns = _Turns(world)
    for pair in dialogue.pairs:
        turns.add(pair)
    return {
        "dialogue_id": dialogue.dialogue_id,
        "services": [turns.service],
        "turns": turns.finished(),
    }


class _Turns:
    """The turns of a dialogue while they are collected."""

    def __init__(self, world: World) -> None:
        self.world, self.service = world, service_name(world.ontology)
        self.find, self.reserve = intents(world.ontology)
        # Values of these are told by their place in the text, the others are among the possible values.
        self._free = {field.name for field in world.ontology.fields if not field.shared}
        self._free |= {"name", *world.ontology.extras}
        self._turns: list[dict[str, Any]] = []
        self._said: list[Utterance] = []  # by the bot, since the user last spoke
        self._call: tuple[str, dict[str, str]] | None = None
        self._known: list[dict[str, str]] = []  # the entities whose facts were given
        self._wishes: dict[str, str] = {}
        self._offered = ""
        self._intent = "NONE"

    def add(self, pair: TurnPair) -> None:
        """The next line of the dialogue."""
        if pair.results:
            self._known = [{"name": entity.name, **self.world.facts(entity)} for entity in pair.results]
        if pair.user:
            self._close()
            self._turns.append(self._of_user(pair.user))
        self._of_bot(pair.bot)

    def finished(self) -> list[dict[str, Any]]:
        """All turns."""
        self._close()
        return self._turns

    def _of_user(self, utterance: Utterance) -> dict[str, Any]:
        kind, _, extra = utterance.act.partition(".")
        values = utterance.values
        acts = [act("INFORM", slot, value) for slot, value in values.items()]
        if kind == "request":
            self._intent = self.reserve if "name" in values else self.find
            acts.append(act("INFORM_INTENT", "intent", self._intent))
        elif kind == "accept":
            self._intent, self._wishes["name"] = self.reserve, self._offered
        elif kind in ("thank", "decline"):
            self._intent = "NONE"
        if kind == "question":
            acts.append(act("REQUEST", extra))
        elif kind != "greet":
            acts += [act(name) for name in _ACTS.get(kind, ())]
        self._wishes |= values
        after = state(
            self._intent, {slot: [value] for slot, value in self._wishes.items()}, [extra] if kind == "question" else []
        )
        return user_turn(self.service, self._spans(utterance.line), acts, after)

    def _of_bot(self, utterance: Utterance) -> None:
        if utterance.act in CALLS:
            self._call = (self.find, utterance.values)
            return
        if utterance.act == "option" and self._call is None:  # task 3
            self._call = (self.find, {name: self._wishes[name] for name in self.world.names})
        if utterance.act in ("option", "next_option"):
            self._offered = utterance.values["name"]
        if utterance.act in ("reserve", "reserve_by_name"):
            self._call = (self.reserve, {"name": self._wishes["name"]})
        self._said.append(utterance)

    def _close(self) -> None:
        """Ends the bot's turn, if there is one."""
        if not self._said:
            return
        acts = [action for utterance in self._said for action in _bot_acts(utterance)]
        line = joined(*(self._spans(utterance.line) for utterance in self._said))
        self._turns.append(system_turn(self.service, line, acts, self._call, self._results()))
        self._said, self._call = [], None

    def _results(self) -> list[dict[str, str]]:
        """Of the call: of a search all that is known by then, of a reservation what is reserved."""
        if self._call and self._call[0] == self.reserve:
            return [entity for entity in self._known if entity["name"] == self._call[1]["name"]]
        return self._known

    def _spans(self, line: Line) -> Line:
        return Line(line.utterance, tuple(span for span in line.spans if span[0] in self._free))


def _bot_acts(utterance: Utterance) -> list[dict[str, Any]]:
    kind, _, slot = utterance.act.partition(".")
    if kind == "ask":
        return [act("REQUEST", slot)]
    if kind in ("option", "next_option"):
        return [act("OFFER", "name", utterance.values["name"])]
    if kind == "give":
        return [act("INFORM", slot, utterance.values[slot])]
    return [act(name) for name in _ACTS.get(kind, ())]


def _aloud(name: str) -> str:
    return name.replace("_", " ").capitalize()


def _camel(domain: str) -> str:
    """A word as part of a name in CamelCase; letters and digits only."""
    return "".join(c for c in domain if c.isascii() and c.isalnum()).capitalize()
