"""Names and descriptions as they come back, and what cannot be used of them."""

from typing import Any

import kit
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from parapet.schemas.rows import BackTranslation
from parapet.schemas.service import parse_service
from parapet.transforms.reports.text import Convention, Conventions
from parapet.transforms.variants.back_translation import (
    Legs,
    back_translated,
    name_of,
    phrase_of,
    source_texts,
    texts_of,
    without_collisions,
)

ACCOUNT = kit.slot("account_type", "", "checking")
TRANSFER = kit.intent("TransferMoney", "Sends money", "amount", "recipient", account_type="checking")
RAW = kit.service(
    "Banks_1",
    [kit.slot("amount", "How much"), ACCOUNT, kit.slot("recipient", "Who gets it")],
    [{**TRANSFER, "result_slots": ["amount"]}],
    "Handles  accounts",
)


def legs(**back: str) -> Legs:
    """Pivot texts are the English ones in capitals; ``back`` by English text, blanks as underscores."""
    texts = texts_of([parse_service(RAW)])
    there = {text: text.upper() for text in texts}
    given = {text.replace("_", " "): value for text, value in back.items()}
    return Legs(there, {text.upper(): given.get(text, text) for text in texts})


def translated(**back: str) -> tuple[dict[str, Any], dict[tuple[str, str], BackTranslation]]:
    variant, rows = back_translated(RAW, "zh", legs(**back), Conventions())
    return variant, {(row.element_id.partition("/")[2], row.field): row for row in rows}


def test_what_is_asked():
    asked = [(one.element_id, one.place, one.field, one.text) for one in source_texts(parse_service(RAW))]
    assert asked[0] == ("Banks_1/intent/TransferMoney", "intent_0", "name", "transfer money")
    assert asked[-1] == ("Banks_1/service", "service", "description", "Handles accounts")
    assert texts_of([parse_service(RAW)]) == sorted({text for *_, text in asked} - {""})
    assert phrase_of("FindATable2") == "find a table2"


def test_names_in_the_corpus_convention_and_every_reference():
    variant, rows = translated(
        amount="sheep", transfer_money="send some money", recipient="the receiver", **{"Sends money": "Money is sent"}
    )
    assert variant["service_name"] == "Banks_1zh"
    assert [slot["name"] for slot in variant["slots"]] == ["sheep", "account_type", "the_receiver"]
    (intent,) = variant["intents"]
    assert (intent["name"], intent["description"]) == ("SendSomeMoney", "Money is sent")
    assert intent["required_slots"] == ["sheep", "the_receiver"]
    assert intent["optional_slots"] == {"account_type": "checking"}
    row = rows["slot/amount", "name"]
    assert (row.original, row.text, row.pivot_text, row.back_text) == ("amount", "amount", "AMOUNT", "sheep")
    assert (row.emitted, row.reason) == ("sheep", "")


@pytest.mark.parametrize(
    ("back", "reason"),
    [("Amount", "identical"), ("...", "empty"), ("金額 of money", "non_ascii"), ("a b c d e f g h i j k", "too_long")],
)
def test_a_name_that_cannot_be_used_stays(back, reason):
    variant, rows = translated(amount=back)
    row = rows["slot/amount", "name"]
    assert (row.emitted, row.reason, row.back_text) == ("amount", reason, back)
    assert variant["slots"][0]["name"] == "amount"
    assert name_of("café à la carte", "x", Convention.SNAKE) == ("cafe_a_la_carte", ""), "accents are no reason"


def test_no_text_and_no_translation():
    variant, rows = back_translated(RAW, "zh", Legs({}, {}), Conventions())
    assert {row.reason for row in rows} == {"not_translated", "no_text"}
    assert [slot["name"] for slot in variant["slots"]] == [slot["name"] for slot in RAW["slots"]]
    assert variant["description"] == "Handles  accounts"


def test_of_two_that_are_the_same_the_later_stays():
    variant, rows = translated(amount="receiver", recipient="receiver")
    assert [slot["name"] for slot in variant["slots"]] == ["receiver", "account_type", "recipient"]
    assert rows["slot/recipient", "name"].reason == "collision"
    variant, _ = translated(amount="recipient", recipient="receiver")
    assert [slot["name"] for slot in variant["slots"]] == ["recipient", "account_type", "receiver"]


NAMES = st.lists(st.sampled_from("abcdef"), min_size=1, max_size=6, unique=True)


@settings(deadline=None)
@given(NAMES, st.data())
def test_names_end_unique_and_each_is_new_or_original(originals, data):
    rows = []
    for name in originals:
        new = data.draw(st.sampled_from("abcdef"))
        reason = "identical" if new == name else ""
        rows.append(BackTranslation(f"S/slot/{name}", "name", "zh", name, name, "x", new, new, reason))
    settled = without_collisions(rows)
    names = [row.emitted for row in settled]
    assert len(set(names)) == len(names)
    for before, after in zip(rows, settled, strict=True):
        assert after.emitted in (before.emitted, before.original)
        assert (after.reason == "collision") == (after.emitted != before.emitted)
    # Nothing gave way without need: what went back had another name equal to it.
    if len({row.emitted for row in rows}) == len(rows):
        assert settled == rows
