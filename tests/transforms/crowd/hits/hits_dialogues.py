"""Dialogues for the tests of rewrites."""

from hits_corpora import HOSTILE

from parapet.schemas.dialogue import Action, Dialogue, Frame, SlotSpan, Turn


def user(text: str, *spans: tuple[str, str], actions: list[Action] | None = None, service: str = "Hotels_1") -> Turn:
    """A user's turn; of each (slot, value) the span is where the value first stands."""
    slots = [SlotSpan(slot, at := text.index(value), at + len(value)) for slot, value in spans]
    return Turn("USER", text, [Frame(service, slots, actions or [])])


def system(text: str) -> Turn:
    return Turn("SYSTEM", text, [])


def dialogue(*turns: Turn, id: str = "1_00000") -> Dialogue:
    return Dialogue(id, ["Hotels_1"], list(turns))


def hostile_dialogue() -> Dialogue:
    """Each hostile text as what is heard, as an utterance and as a value in one, and in the id."""
    turns = []
    for text in HOSTILE:
        visible = text.replace("\ud800", "\ufeff")  # no JSON reader gives lone surrogates
        turns += [user(f"I want {visible} please", ("where", visible)), system(visible)]
    return Dialogue("../<b>1", ["Hotels_1"], turns)
