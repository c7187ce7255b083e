"""Services and dialogues for the tests of hits: invented ones, the sample, and real SGD where PARAPET_DATA is set."""

import os
from pathlib import Path

from parapet.schemas.dialogue import Action, Dialogue, Frame, SlotSpan, Turn
from parapet.schemas.layout import read_root, sample_root, services_by_name
from parapet.schemas.service import Intent, Service, Slot

HOSTILE = [
    *("<script>alert(1)</script>", "]]> & &amp; ]]&gt;", "\U0001f600 smile \x00\x0b", "${body} ${x}"),
    *("{{ 7 * 7 }} {% raw %}", "\"quoted\" 'twice' <b>", "</textarea></label></form>", "=HYPERLINK(1)"),
    *("left\u202eright \u00fcml\u00e4ut", "line\none\r\ntwo\u2028three", "<!-- comment -->", "\ud800 lone"),
]


def hostile_service() -> Service:
    slots = [Slot(f"slot{i} {text}", f"{text} {i}", True, [text, str(i)]) for i, text in enumerate(HOSTILE)]
    return Service("Hostile_1", "".join(HOSTILE), slots, [Intent("Do" + HOSTILE[0], HOSTILE[1])])


def big_service(slots: int = 400) -> Service:
    made = [Slot(f"quantity_{i}", f"How many of the goods of sort {i} are kept in stock") for i in range(slots)]
    return Service("Warehouse_1", "Keeps goods", made, [Intent("MoveGoods", "Carry goods to another shelf")])


def corpus() -> list[Service]:
    """The sample; with it every service below PARAPET_DATA/sgd, or PARAPET_DATA itself, where that is set."""
    roots = [sample_root()]
    if data := os.environ.get("PARAPET_DATA"):
        roots.append(Path(data, "sgd") if Path(data, "sgd").is_dir() else Path(data))
    return [service for root in roots for service in services_by_name(read_root(root)).values()]


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
