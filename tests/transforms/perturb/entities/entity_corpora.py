"""Small dialogues for the tests of unseen entities, and what the sample's test split needs to be replaced."""

import kit
import msgspec
from kit import act, span

from parapet.schemas.dialogue import Dialogue
from parapet.transforms.perturb.entities.choosing import Replacer, replaced
from parapet.transforms.perturb.entities.mentions import grams_in

SERVICE = "Trips_1"
_KINDS = {"other_city": "city", "name": "business", "seats": "number", "artist": "person", "street": "address"}
_KINDS |= {kind: kind for kind in ("city", "title", "cuisine", "date", "time", "price", "phone")}
_KINDS |= {kind: kind for kind in ("airport", "place", "task")}
KINDS = {**{(SERVICE, slot): kind for slot, kind in _KINDS.items()}, (SERVICE, "kept_class"): "categorical"}


def training_of(texts):
    return frozenset(grams_in(set(texts)))


TRAINING = training_of(["I want to go to Rome at 7 pm", "A table in Port Alder", "2019-03-05", "the july 9th"])


def action(slot, *pairs):
    """An action with (value, canonical form) pairs."""
    return act("INFORM", slot, *(said for said, _ in pairs), canonical_values=[meant for _, meant in pairs])


def turn(speaker, utterance, spans=None, *actions, **frame):
    """A turn with one frame; ``spans`` has a slot for each text that stands in the utterance, where it first does."""
    slots = [span(slot, utterance, text) for text, slot in (spans or {}).items()]
    return kit.turn(speaker, utterance, kit.frame(SERVICE, *actions, slots=slots, **frame))


def dialogue(*turns, name="1_00000"):
    """A dialogue as a file has it."""
    return kit.dialogue(name, *turns)


def marked(speaker, utterance, *values, unmarked=()):
    """A dialogue of one turn with a span and an action of each (slot, text) or (slot, text, canonical form)."""
    acts = [action(slot, (text, (*canonical, text)[0])) for slot, text, *canonical in values]
    return dialogue(turn(speaker, utterance, {text: slot for slot, text, *_ in values}, *acts, *unmarked))


def replace(raw, seed="0", kinds=KINDS, **more):
    """The dialogue with other values."""
    return replaced(raw, msgspec.convert(raw, Dialogue), Replacer(seed, kinds, TRAINING, **more))


def spans_of(raw):
    """(slot, text) of every span."""
    frames = [(one["utterance"], frame) for one in raw["turns"] for frame in one["frames"]]
    spans = [(text, span) for text, frame in frames for span in frame["slots"]]
    return [(span["slot"], text[span["start"] : span["exclusive_end"]]) for text, span in spans]
