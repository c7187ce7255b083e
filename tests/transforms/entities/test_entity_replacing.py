"""One dialogue with other values: the same everywhere, nowhere else, in its form, and never a wrong span."""

import copy
import re
from itertools import product
from typing import Any

import pytest
from entity_corpora import KINDS, SERVICE, TRAINING, action, dialogue, replace, spans_of, state, turn
from hypothesis import given, settings
from hypothesis import strategies as st

from parapet.schemas.errors import InputError
from parapet.transforms.perturbations.entities import kinds as forms
from parapet.transforms.perturbations.entities.choosing import Sources
from parapet.transforms.perturbations.entities.kinds import SlotKind

SF = action("city", ("San Fran", "San Francisco"))


def rows_by_slot(made: Any) -> dict[str, dict[str, Any]]:
    return {row["slot"]: row for row in made.rows}


def test_one_value_everywhere():
    """Variants, later mentions, other slots, calls and results; what only looks like it stays."""
    raw = dialogue(
        turn("USER", "Fly me to San Fran.", {"San Fran": "city"}, SF, state=state(city=["San Fran"])),
        turn(
            "SYSTEM",
            "To San Francisco? San Franciscans will like you; san francisco's hills too.",
            {"San Francisco": "city"},
            action("city", ("San Francisco", "San Francisco")),
            service_call={"method": "Go", "parameters": {"city": "San Francisco", "seats": "2"}},
            service_results=[{"city": "San Francisco", "other_city": "Oakland"}, {"other_city": "san francisco"}],
        ),
        turn(
            "USER", "Yes.", None, state=state(city=["San Fran", "San Francisco"], seats=["2"], kept_class=["dontcare"])
        ),
    )
    before = copy.deepcopy(raw)
    made = replace(raw)
    assert raw == before
    new = rows_by_slot(made)["city"]["canonical_replacement"]
    first, second, third = made.dialogue["turns"]
    assert first["utterance"] == f"Fly me to {new}."
    assert second["utterance"] == f"To {new}? San Franciscans will like you; {new.lower()}'s hills too."
    assert spans_of(made.dialogue) == [("city", new), ("city", new)]
    assert first["frames"][0]["actions"] == [action("city", (new, new))]
    assert second["frames"][0]["service_call"]["parameters"] == {"city": new, "seats": "2"}
    results = second["frames"][0]["service_results"]
    assert (results[0]["city"], results[1]["other_city"]) == (new, new.lower())
    assert results[0]["other_city"] not in ("Oakland", new)
    assert third["frames"][0]["state"] == state(city=[new], seats=["2"], kept_class=["dontcare"])
    row = rows_by_slot(made)["city"]
    assert {name: row[name] for name in ("utterances", "spans", "state", "actions", "service_call", "results")} == {
        "utterances": 3, "spans": 2, "state": 3, "actions": 4, "service_call": 1, "results": 1,
    }  # fmt: skip
    assert (row["value"], row["canonical"], row["unseen"]) == (["San Fran", "san francisco"], "San Francisco", True)
    seats = rows_by_slot(made)["seats"]
    assert (seats["status"], seats["reason"], seats["canonical"]) == ("kept", "closed", "2")


def test_values_that_are_parts_of_others():
    """ "2" in "2 pm", a city in a name: the longest first, and never inside another."""
    raw = dialogue(
        turn(
            "SYSTEM",
            "The Oakland Star in Oakland costs $2 at 2 pm for 2.",
            {"Oakland Star": "name", "$2": "price", "2 pm": "time"},
            action("name", ("Oakland Star", "Oakland Star")),
            action("price", ("$2", "2")),
            action("time", ("2 pm", "14:00")),
            action("city", ("Oakland", "Oakland")),
            action("seats", ("2", "2")),
        )
    )
    made = replace(raw)
    rows = rows_by_slot(made)
    name, city = rows["name"]["canonical_replacement"], rows["city"]["canonical_replacement"]
    assert "Oakland" not in name
    price, time = rows["price"]["replacement"][0], rows["time"]["replacement"][0]
    assert made.dialogue["turns"][0]["utterance"] == f"The {name} in {city} costs {price} at {time} for 2."
    assert price.startswith("$")
    assert re.fullmatch(r"\d\d?:\d\d pm", time)
    assert spans_of(made.dialogue) == [("name", name), ("price", price), ("time", time)]


def test_forms():
    raw = dialogue(
        turn(
            "USER",
            "On the 4th of this month, leave today; return March 11th by half past 11 in the morning, for $1,640.50?",
            {
                "the 4th of this month": "date",
                "today": "date",
                "March 11th": "date",
                "half past 11 in the morning": "time",
                "$1,640.50": "price",
            },
            action(
                "date", ("the 4th of this month", "2019-03-04"), ("today", "2019-03-01"), ("March 11th", "2019-03-11")
            ),
            action("time", ("half past 11 in the morning", "11:30")),
            action("price", ("$1,640.50", "1640.50")),
            action("phone", ("(408) 971-8523", "(408) 971-8523")),
        )
    )
    made = replace(raw)
    frame = made.dialogue["turns"][0]["frames"][0]
    from datetime import date

    first, second, third = (date.fromisoformat(day) for day in frame["actions"][0]["canonical_values"])
    assert (first - second).days == 3
    assert (third - first).days == 7
    assert (second - date(2019, 3, 1)).days % 7 == 0
    month = second.strftime("%B")
    assert re.match(
        rf"On \w+ \d+(st|nd|rd|th), leave on {month} {second.day}\w\w; return ", made.dialogue["turns"][0]["utterance"]
    )
    assert re.fullmatch(r"1?\d:\d\d [ap]m", frame["actions"][1]["values"][0])
    assert re.fullmatch(r"\d\d:\d\d", frame["actions"][1]["canonical_values"][0])
    (price,), (amount,) = frame["actions"][2]["values"], frame["actions"][2]["canonical_values"]
    assert re.fullmatch(r"\$\d,\d{3}\.\d\d", price)
    assert price.replace("$", "").replace(",", "") == amount
    assert re.fullmatch(r"\(\d{3}\) \d{3}-\d{4}", frame["actions"][3]["values"][0])


@pytest.mark.parametrize("said", ["an Italian", "a Mexican", "An Italian", "A Mexican"])
def test_articles(said):
    """Articles follow what stands behind them; the span does not take them in."""
    article, cuisine = said.split()
    for seed in "0123456789":
        raw = dialogue(turn("USER", f"{said} place", {cuisine: "cuisine"}, action("cuisine", (cuisine, cuisine))))
        made = replace(raw, seed)
        new = made.rows[0]["canonical_replacement"]
        wanted = "a" if re.match("Ukr|Uru|Uy|[^AEIOU]", new) and not new.startswith("Uy") else "an"
        wanted = wanted.capitalize() if article[0] == "A" else wanted
        assert made.dialogue["turns"][0]["utterance"] == f"{wanted} {new} place"
        assert spans_of(made.dialogue) == [("cuisine", new)]


def test_what_is_no_article_stays():
    raw = dialogue(turn("USER", "Come a 11:45 am", {"11:45 am": "time"}, action("time", ("11:45 am", "11:45"))))
    assert replace(raw).dialogue["turns"][0]["utterance"].startswith("Come a 1")


@pytest.mark.parametrize(
    ("utterance", "spans", "actions", "reason"),
    [
        ("Play One, I want one now", {"One": "title"}, [("title", ("One", "One"))], "ambiguous_word"),
        ("Sunset is on at sunset", {"Sunset": "title"}, [("title", ("Sunset", "Sunset"))], "ambiguous_word"),
        ("It costs 7 for 7", {"7": "price"}, [("price", ("7", "7"))], "ambiguous_word"),
        ("at noonish", {"noonish": "time"}, [("time", ("noonish", "noonish"))], "unknown_form"),
        ("for five bucks", {"five bucks": "price"}, [("price", ("five bucks", "5"))], "unknown_form"),
        ("March 5th", {"March 5th": "date"}, [("date", ("March 5th", "whenever"))], "unknown_form"),
        ("a play", {"play": "title"}, [("title", ("play", "One Play")), ("title", ("play", "Two Play"))], "two_values"),
        ("say it", {}, [("class", ("economy", "economy"))], "not_said_so"),
    ],
)
def test_what_cannot_be_told_apart_is_kept(utterance, spans, actions, reason):
    raw = dialogue(turn("USER", utterance, spans, *(action(slot, pair) for slot, pair in actions)))
    made = replace(raw)
    assert made.dialogue == raw
    assert {(row["status"], row["reason"]) for row in made.rows} == {("kept", reason)}


def test_overlapping_spans_are_kept():
    text = "in the Oakland Star Hall"
    raw = dialogue(
        turn(
            "USER",
            text,
            {"Oakland Star": "name", "Star Hall": "title"},
            action("name", ("Oakland Star", "Oakland Star")),
            action("title", ("Star Hall", "Star Hall")),
        )
    )
    made = replace(raw)
    assert made.dialogue == raw
    assert {row["reason"] for row in made.rows} == {"overlapping_spans"}


def test_spans_that_are_none():
    good = turn("USER", "to Oakland", {"Oakland": "city"}, action("city", ("Oakland", "Oakland")))
    for change in ({"start": 4}, {"exclusive_end": 11}, {"start": -7}, {"start": 10, "exclusive_end": 3}):
        bad = copy.deepcopy(good)
        bad["frames"][0]["slots"][0].update(change)
        with pytest.raises(InputError, match="bad_span"):
            replace(dialogue(bad))


def test_an_edit_that_tears_a_span():
    """The article belongs to another value's span."""
    raw = dialogue(
        turn(
            "USER",
            "see a Mexican",
            {"see a": "title", "Mexican": "cuisine"},
            action("title", ("see a", "see a")),
            action("cuisine", ("Mexican", "Mexican")),
        )
    )
    for seed in "01234567":
        made = replace(raw, seed)  # what a span has is not touched from outside
        assert "Mexican" not in made.dialogue["turns"][0]["utterance"]


def test_categorical_values_from_their_closed_set():
    raw = dialogue(
        turn(
            "USER",
            "In Economy please",
            None,
            action("class", ("Economy", "economy")),
            state=state(**{"class": ["Economy"]}),
        ),
        turn("SYSTEM", "economy it is", None, action("class", ("economy", "economy"))),
    )
    made = replace(raw)
    (row,) = made.rows
    assert (row["kind"], row["status"], row["unseen"]) == ("categorical", "replaced", False)
    assert row["canonical_replacement"] in ("business", "first")
    assert made.dialogue["turns"][1]["utterance"] == f"{row['canonical_replacement']} it is"
    assert not made.open


def test_what_is_categorical_and_open_is_kept():
    """An unseen value is in no closed set, and one value has one replacement."""
    raw = dialogue(
        turn("USER", "First, please", None, action("class", ("First", "first")), action("title", ("First", "First")))
    )
    made = replace(raw)
    assert made.dialogue == raw
    assert {row["reason"] for row in made.rows} == {"categorical"}


def test_new_values_hold_no_old_one():
    raw = dialogue(turn("USER", "from New York", {"New York": "city"}, action("city", ("New York", "New York"))))
    pool = {"city": ["East New York", "New York", "Yorkton"]}
    for seed in "0123":
        assert replace(raw, sources=Sources("file", seed, pool)).rows[0]["canonical_replacement"] == "Yorkton"


def test_times_stay_on_their_side_of_noon():
    raw = dialogue(turn("USER", "", None, action("time", ("11:59", "11:59"), ("12:00", "12:00"), ("23:59", "23:59"))))
    for seed in "01234":
        (values,) = (one["values"] for one in replace(raw, seed).dialogue["turns"][0]["frames"][0]["actions"])
        assert values[0] < "12:00" <= values[1] < values[2] <= "23:59"
        assert len({*values, "11:59", "12:00", "23:59"}) == 6


def test_forms_of_a_gazetteer():
    """Given as annotation has them, written as the utterance has them."""
    raw = dialogue(
        turn(
            "USER",
            "next friday at half past 5 for $2,000, 408-555-0101",
            {"next friday": "date", "half past 5": "time", "$2,000": "price", "408-555-0101": "phone"},
            action("date", ("next friday", "2019-03-08")),
            action("time", ("half past 5", "17:30")),
            action("price", ("$2,000", "2000")),
            action("phone", ("408-555-0101", "408-555-0101")),
        )
    )
    pools = {"date": ["2020-02-29"], "time": ["6:07"], "price": ["1,234.50"], "phone": ["(212) 555 0199"]}
    made = replace(raw, sources=Sources("file", "0", pools))
    assert made.dialogue["turns"][0]["utterance"] == "February 29th at 6:07 am for $1,234.50, 212-555-0199"
    canonical = [one["canonical_values"] for one in made.dialogue["turns"][0]["frames"][0]["actions"]]
    assert canonical == [["2020-02-29"], ["06:07"], ["1234.50"], ["212-555-0199"]]


@pytest.mark.parametrize(
    ("said", "wanted"),
    [
        ("I leave {today}", "I leave on {}"),
        ("leave the {day after tomorrow} at last", "leave on {} at last"),
        ("I'd prefer {next Monday}", "I'd prefer {}"),
        ("{Tomorrow} will do", "{} will do"),
        ("on the {4th of March}", "on {}"),
        ("the {next Friday} bus", "the {} bus"),
        ("until {Sunday}", "until {}"),
    ],
)
def test_words_around_dates(said, wanted):
    text = said[said.index("{") + 1 : said.index("}")]
    utterance = said.replace("{", "").replace("}", "")
    raw = dialogue(turn("USER", utterance, {text: "date"}, action("date", (text, "2019-03-08"))))
    made = replace(raw)
    ((_, new),) = spans_of(made.dialogue)
    assert made.dialogue["turns"][0]["utterance"] == wanted.format(new)


def test_days_that_only_an_action_marks():
    """ "today" is the date where the turn speaks of the date, and a mere word elsewhere."""
    acts = action("date", ("today", "2019-03-08"))
    raw = dialogue(
        turn("USER", "book it for today", {"today": "date"}, acts),
        turn("SYSTEM", "For 3 people today?", None, acts),
        turn("SYSTEM", "Done. Anything else today?", None),
    )
    made = replace(raw)
    new = made.rows[0]["replacement"][0]
    said = [one["utterance"] for one in made.dialogue["turns"]]
    assert said == [f"book it for {new}", f"For 3 people on {new}?", "Done. Anything else today?"]
    assert (made.rows[0]["utterances"], made.rows[0]["spans"]) == (2, 1)


def test_multiwoz_spans_with_values():
    """Copied slots have no characters, but values, as a list or as one."""
    raw = dialogue(turn("USER", "the same place", None))
    raw["turns"][0]["frames"][0]["slots"] = [
        {"slot": "city", "copy_from": "other_city", "value": ["oakland", "Oakland"]},
        {"slot": "other_city", "copy_from": "city", "value": "oakland"},
    ]
    made = replace(raw)
    first, second = made.dialogue["turns"][0]["frames"][0]["slots"]
    assert second["value"] == first["value"][0]
    assert [one.lower() for one in first["value"]] == [second["value"]] * 2


def test_nothing_is_unseen_where_training_has_it_all():
    raw = dialogue(turn("USER", "to Oakland", {"Oakland": "city"}, action("city", ("Oakland", "Oakland"))))
    made = replace(raw, sources=Sources("file", "0", {"city": ["Oakland", "Rome"]}))
    assert (made.dialogue, made.rows[0]["reason"]) == (raw, "no_unseen_value")
    made = replace(raw, sources=Sources("file", "0", {"title": ["X"]}))
    assert made.rows[0]["reason"] == "not_in_file"


def test_times_of_a_slot_keep_its_step():
    raw = dialogue(turn("USER", "at half past 6", {"half past 6": "time"}, action("time", ("half past 6", "18:30"))))
    for seed in "01234567":  # a half hour stays a round time even where the slot's steps are smaller
        assert forms.minutes_of(replace(raw, seed).rows[0]["canonical_replacement"]) % 15 == 0
    for step, seed in product((5, 15, 30, 60), "0123"):
        kinds = {**KINDS, (SERVICE, "time"): SlotKind("time", step=step)}
        new = replace(raw, seed, kinds=kinds).rows[0]["canonical_replacement"]
        assert new != "18:30"
        assert forms.minutes_of(new) % (30 if step == 60 else step) < (60 if step == 60 else 1)


def test_what_an_event_is_called_is_kept_with_what_it_names():
    acts = [action("title", *[("Reservation at Uno's",) * 2]), action("name", ("Uno's", "Uno's"))]
    raw = dialogue(turn("USER", "Put in Reservation at Uno's.", {"Reservation at Uno's": "title"}, *acts))
    made = replace(raw)
    assert made.dialogue == raw
    assert {row["slot"]: row["reason"] for row in made.rows} == {"title": "no_generator", "name": "kept_elsewhere"}


def test_a_value_of_a_slot_that_is_kept_too():
    """A word would be two things; a bare number is another value than the price."""
    acts = [action("title", ("Jazz", "Jazz")), action("mood", ("jazz", "Jazz"))]
    raw = dialogue(turn("USER", "Jazz, that is jazz", {"Jazz": "title", "jazz": "mood"}, *acts))
    made = replace(raw)
    assert made.dialogue == raw
    assert rows_by_slot(made)["title"]["reason"] == "kept_elsewhere"
    acts = [action("price", ("2", "2")), action("seats", ("2", "2"))]
    raw = dialogue(turn("USER", "cost: 2", {"2": "price"}, *acts), turn("USER", "seats: 2", {"2": "seats"}, *acts))
    first, second = (one["utterance"] for one in replace(raw).dialogue["turns"])
    assert (first != "cost: 2", second) == (True, "seats: 2")


TEXTS = st.text(st.sampled_from("aAo 7.'’-éß🙂\u0301ｗ$,"), max_size=12)


@settings(max_examples=120, deadline=None)
@given(before=TEXTS, value=TEXTS, behind=TEXTS, again=TEXTS, slot=st.sampled_from(["city", "title", "price", "time"]))
def test_any_text(before, value, behind, again, slot):
    """Whatever is said: spans are values, what is outside of mentions stays, or the dialogue is refused."""
    utterance = f"{before}{value}{behind}"
    span = {"slot": slot, "start": len(before), "exclusive_end": len(before) + len(value)}
    first = turn("USER", utterance, None, action(slot, (value, value)), state=state(**{slot: [value]}))
    first["frames"][0]["slots"] = [span]
    raw = dialogue(first, turn("SYSTEM", again))
    try:
        made = replace(raw)
    except InputError as error:
        reason = error.reason.partition(":")[0]
    else:
        reason = ""
    assert reason in ("", "bad_span", "left_behind", "state_differs", "torn_span")
    if reason:
        return
    (now,) = made.dialogue["turns"][0]["frames"][0]["actions"][0]["values"]
    assert spans_of(made.dialogue) == [(slot, now)] or now.casefold() == spans_of(made.dialogue)[0][1].casefold()
    for row in made.rows:
        if row["status"] == "replaced":
            assert not TRAINING.leaks(row["canonical_replacement"])
        else:
            assert made.dialogue == raw
