"""How names are matched: by position, by a recorded mapping, and what is refused."""

import copy

import msgspec
import pytest
from kit import cases, raised
from variant_corpora import NAMES, TAXI, TAXI_NAMES

from parapet.schemas.errors import InputError
from parapet.transforms.variants import matching as rules
from parapet.transforms.variants.matching import mapping_bytes, read_mapping


def variant(**changes):
    """Taxi_1 under the names of these tests, in the order of the original."""
    service = copy.deepcopy(TAXI)
    service.service_name = TAXI_NAMES.service
    for intent in service.intents:
        intent.name = TAXI_NAMES.intents[intent.name]
    for slot in service.slots:
        slot.name = TAXI_NAMES.slots[slot.name]
    return msgspec.structs.replace(service, **changes)


ONCE = "of the mapping must be those of the two schemas, each of them once: "


@cases(
    "kind change reason",
    ("slots", {"to": None}, ONCE + "'to'"),
    ("slots", {"fare": "cost"}, ONCE + "'cost', 'fare'"),
    ("slots", {"to": "goal"}, ONCE + "'goal'"),
    ("slots", {"to": "to"}, "of the mapping must be those of the two schemas"),
    ("slots", {"to": "pooled", "shared": "from"}, "slot 'to' is not categorical, but 'pooled' in the variant is"),
    ("intents", {"GetTaxi": None}, ONCE + "'GetTaxi'"),
)
def test_a_mapping_that_does_not_hold(kind, change, reason):
    given = {old: new for old, new in {**getattr(TAXI_NAMES, kind), **change}.items() if new is not None}
    with pytest.raises(InputError, match=reason):
        rules.by_mapping(TAXI, variant(), msgspec.structs.replace(TAXI_NAMES, **{kind: given}))


def test_a_mapping_comes_back_from_its_file():
    mapped = {"v2": NAMES, "v1": {"Taxi_1": TAXI_NAMES}}
    data = mapping_bytes(mapped)
    assert (read_mapping(b"\xef\xbb\xbf" + data, "m"), list(msgspec.json.decode(data))) == (mapped, ["v1", "v2"])
    assert data.endswith(b"}\n")


@cases(
    "data said",
    (b'{"v1": \n}', "m.json: line 2 column 1: not JSON: Expecting value"),
    (b'{"v1": {"A": {"service": "A1", "slots": {}}}}', "missing required field `intents`"),
    (b'{"v1": NaN}', "m.json: "),
)
def test_a_file_that_is_no_mapping(data, said):
    assert said in str(raised(InputError, read_mapping, data, "m.json"))
