"""Names and descriptions as they come back, and what cannot be used of them."""

import kit
from hypothesis import given
from hypothesis import strategies as st
from kit import cases

from parapet.schemas.rows import BackTranslation
from parapet.schemas.service import parse_service
from parapet.transforms.reports.text import Convention, Conventions
from parapet.transforms.variants.back_translation import Legs, back_translated, name_of, texts_of, without_collisions

ACCOUNT = kit.slot("account_type", "", "checking")
TRANSFER = kit.intent("TransferMoney", "Sends money", "amount", "recipient", account_type="checking")
RAW = kit.service(
    "Banks_1",
    [kit.slot("amount", "How much"), ACCOUNT, kit.slot("recipient", "Who gets it")],
    [{**TRANSFER, "result_slots": ["amount"]}],
    "Handles  accounts",
)


def legs(**back):
    """Pivot texts are the English ones in capitals; ``back`` by English text, blanks as underscores."""
    texts = texts_of([parse_service(RAW)])
    there = {text: text.upper() for text in texts}
    given = {text.replace("_", " "): value for text, value in back.items()}
    return Legs(there, {text.upper(): given.get(text, text) for text in texts})


def translated(**back):
    variant, rows = back_translated(RAW, "zh", legs(**back), Conventions())
    return variant, {(row.element_id.partition("/")[2], row.field): row for row in rows}


@cases(
    "back reason",
    ("Amount", "identical"),
    ("...", "empty"),
    ("金額 of money", "non_ascii"),
    ("a b c d e f g h i j k", "too_long"),
)
def test_a_name_that_cannot_be_used_stays(back, reason):
    variant, rows = translated(amount=back)
    row = rows["slot/amount", "name"]
    assert (row.emitted, row.reason, row.back_text) == ("amount", reason, back)
    assert variant["slots"][0]["name"] == "amount"
    assert name_of("café à la carte", "x", Convention.SNAKE) == ("cafe_a_la_carte", ""), "accents are no reason"


NAMES = st.lists(st.sampled_from("abcdef"), min_size=1, max_size=6, unique=True)


@given(NAMES, st.data())
def test_names_end_unique_and_each_is_new_or_original(originals, data):
    rows = []
    for name in originals:
        new = data.draw(st.sampled_from("abcdef"))
        reason = "identical" if new == name else ""
        rows.append(BackTranslation(f"S/slot/{name}", "name", "zh", name, name, "x", new, new, reason))
    settled = without_collisions(rows, [("",)] * len(rows))
    names = [row.emitted for row in settled]
    assert len(set(names)) == len(names)
    for before, after in zip(rows, settled, strict=True):
        assert after.emitted in (before.emitted, before.original)
        assert (after.reason == "collision") == (after.emitted != before.emitted)
    # Nothing gave way without need: what went back had another name equal to it.
    if len({row.emitted for row in rows}) == len(rows):
        assert settled == rows


def test_names_of_other_scopes_do_not_collide():
    rows = [BackTranslation(f"T/{i}", "name", "pt", "unit", "unit", "x", "measure", "measure", "") for i in range(3)]
    settled = without_collisions(rows, [("a/",), ("b/",), ("b/", "c/")])
    assert [(row.emitted, row.reason) for row in settled] == [("measure", ""), ("measure", ""), ("unit", "collision")]
