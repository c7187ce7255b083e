"""Services for the tests of hits: invented ones, the bundled sample, and real SGD where PARAPET_DATA points to it."""

import os
from pathlib import Path

from parapet.schemas.layout import read_root, sample_root, services_by_name
from parapet.schemas.service import Intent, Service, Slot

HOSTILE = [
    "<script>alert(1)</script>",
    "]]> & &amp; ]]&gt;",
    "\U0001f600 smile \x00\x0b",
    "${body} ${x}",
    "{{ 7 * 7 }} {% raw %}",
    "\"quoted\" 'twice' <b>",
    "</textarea></label></form>",
    "=HYPERLINK(1)",
    "left\u202eright \u00fcml\u00e4ut",
    "line\none\r\ntwo\u2028three",
    "<!-- comment -->",
    "\ud800 lone",
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
