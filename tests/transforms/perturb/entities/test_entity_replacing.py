"""One dialogue with other values: the same everywhere, nowhere else, in its form, and never a wrong span."""

import copy
import re
from datetime import date

from entity_corpora import TRAINING, action, dialogue, marked, replace, spans_of, turn
from hypothesis import given
from hypothesis import strategies as st
from kit import cases, raised, state

from parapet.schemas.errors import InputError
from parapet.transforms.perturb.entities.kinds import ordinal
from parapet.transforms.perturb.entities.mentions import leaks


def rows_by_slot(made):
    return {row["slot"]: row for row in made.rows}


def test_values_that_are_parts_of_others():
    """ "2" in "2 pm", a city in a name: the longest first, and never inside another."""
    values = ("name", "Oakland Star"), ("price", "$2", "2"), ("time", "2 pm", "14:00")
    unmarked = action("city", ("Oakland", "Oakland")), action("seats", ("2", "2"))
    made = replace(marked("SYSTEM", "The Oakland Star in Oakland costs $2 at 2 pm for 2.", *values, unmarked=unmarked))
    rows = rows_by_slot(made)
    name, city = rows["name"]["canonical_replacement"], rows["city"]["canonical_replacement"]
    assert "Oakland" not in name
    price, time = rows["price"]["replacement"][0], rows["time"]["replacement"][0]
    assert made.dialogue["turns"][0]["utterance"] == f"The {name} in {city} costs {price} at {time} for 2."
    assert price.startswith("$")
    assert re.fullmatch(r"\d\d?:\d\d pm", time)
    assert spans_of(made.dialogue) == [("name", name), ("price", price), ("time", time)]


def test_what_is_no_article_stays():
    raw = marked("USER", "Come a 11:45 am", ("time", "11:45 am", "11:45"))
    assert replace(raw).dialogue["turns"][0]["utterance"].startswith("Come a ")


@cases(
    "raw reasons",
    (marked("USER", "at noonish", ("time", "noonish")), {"unknown_form"}),
    (marked("USER", "for five bucks", ("price", "five bucks", "5")), {"unknown_form"}),
    (marked("USER", "March 5th", ("date", "March 5th", "whenever")), {"unknown_form"}),
    (marked("USER", "a play", ("title", "play", "A"), unmarked=[action("title", ("play", "B"))]), {"two_values"}),
    (marked("USER", "the Oakland Star Hall", ("name", "Oakland Star"), ("title", "Star Hall")), {"overlapping_spans"}),
    # Otherwise one could check out before one checks in.
    (marked("USER", "March 5th to March 9th", ("date", "March 5th", "2019-03-05"), ("date", "March 9th", "whenever")),
     {"kept_dates", "unknown_form"}),
    (marked("USER", "Put in Reservation at Uno's.", ("title", "Reservation at Uno's"),
            unmarked=[action("name", ("Uno's", "Uno's"))]), {"no_generator", "kept_elsewhere"}),
)  # fmt: skip
def test_what_cannot_be_told_apart_is_kept(raw, reasons):
    made = replace(raw)
    kept = {("kept", reason) for reason in reasons}
    assert (made.dialogue, {(row["status"], row["reason"]) for row in made.rows}) == (raw, kept)


def test_new_values_hold_no_old_one():
    raw = marked("USER", "from New York", ("city", "New York"))
    pool = {"city": ["East New York", "New York", "Yorkton"]}
    for seed in "0123":
        assert replace(raw, seed, pools=pool).rows[0]["canonical_replacement"] == "Yorkton"


def utterances(made):
    return [one["utterance"] for one in made.dialogue["turns"]]


def test_dates_move_together_and_keep_their_form():
    """A day of the week stays, and the order stays."""
    first = {"5th of March": "2019-03-05", "the 3rd": "2019-03-03", "mar 9": "2019-03-09", "next monday": "2019-03-04"}
    first |= {"tomorrow": "2019-03-02", "March 10": "2019-03-10"}
    acts = [action("date", pair) for pair in first.items()]
    text = "the 5th of March, on the 3rd, mar 9, next monday, tomorrow, by March 10"
    raw = dialogue(turn("USER", text, dict.fromkeys(first, "date"), *acts), turn("SYSTEM", "Or March 10?"))
    for seed in "01234":
        made = replace(raw, seed)
        new = {row["canonical"]: date.fromisoformat(row["canonical_replacement"]) for row in made.rows}
        moved = {day - date.fromisoformat(old) for old, day in new.items()}
        assert len(moved) == 1
        assert not moved.pop().days % 7
        third, fifth, ninth, tenth = (new[f"2019-03-{day}"] for day in ("03", "05", "09", "10"))
        month = f"{ninth:%b}".lower()
        assert utterances(made) == [
            f"the {ordinal(fifth.day)} of {fifth:%B}, on the {ordinal(third.day)}, {month} {ninth.day}, "
            f"next monday, tomorrow, by {tenth:%B} {tenth.day}",
            f"Or {tenth:%B} {tenth.day}?",
        ]


@cases(
    "kind value behind",
    ("title", "Play", ["Play a song.", "play a song", "Would you play it?"]),
    ("title", "for you", ["I found it for you.", "For you I found it."]),
    ("task", "New alarm", ["Is it a new alarm?"]),
    ("cuisine", "to go", ["Would you like to go?"]),
)
def test_ordinary_words_are_no_values(kind, value, behind):
    raw = marked("USER", f"I want {value}", (kind, value))
    raw["turns"] += [turn("SYSTEM", text) for text in behind]
    first, *others = utterances(replace(raw))
    assert (first != f"I want {value}", others) == (True, behind)


@cases("again", "'Play'", '"Play" is nice', "I like Play")
def test_unmarked_names_are_replaced(again):
    raw = marked("USER", "I want Play", ("title", "Play"))
    raw["turns"].append(turn("SYSTEM", again))
    made = replace(raw)
    new = made.rows[0]["replacement"][0]
    assert utterances(made) == [f"I want {new}", again.replace("Play", new)]


def test_articles():
    for seed in map(str, range(12)):
        made = replace(marked("USER", "the Godfather on a Monday", ("title", "Godfather")), seed)
        assert not re.search(r"\bthe (the|an?)\b", utterances(made)[0], re.IGNORECASE)
        (said,) = utterances(replace(marked("USER", "a Greek place, a Greek", ("cuisine", "Greek")), seed))
        assert all((article == "an") == (name[0] in "AEIO") for article, name in re.findall(r"(an?) ([A-TV-Z])", said))


@cases("like", "evening {}", "{} in the evening", "{}:00 in the evening")
def test_times_of_a_part_of_the_day_keep_their_form(like):
    said = like.format("6")
    (text,) = utterances(replace(marked("USER", f"at {said}", ("time", said, "18:00"))))
    assert re.fullmatch(like.replace("{}:00", "{}").format(r"[5-8]:\d\d"), text.removeprefix("at "))


def test_dishes_become_food():
    raw = marked("USER", "pasta, or a pasta place", ("cuisine", "pasta", "Italian"))
    assert re.fullmatch(r"([A-Z][\w -]+ food), or an? \1 place", utterances(replace(raw))[0])
    raw = marked("USER", "I want pasta.", ("cuisine", "pasta", "Italian"))
    assert re.fullmatch(r"I want [A-Z][\w -]+ food\.", utterances(replace(raw))[0])


def test_a_town_in_a_slot_for_airports():
    made = replace(marked("USER", "from Oakland to JFK Airport", ("airport", "Oakland"), ("airport", "JFK Airport")))
    kinds = {row["value"][0]: row["kind"] for row in made.rows}
    assert kinds == {"Oakland": "city", "JFK Airport": "airport"}
    assert "Airport" not in utterances(made)[0].partition(" to ")[0]


def test_multiwoz_spans_with_values():
    """Copied slots have no characters, but values, as a list or as one."""
    raw = dialogue(turn("USER", "the same place", None))
    raw["turns"][0]["frames"][0]["slots"] = [
        {"slot": "city", "copy_from": "other_city", "value": ["oakland", "Oakland"]},
        {"slot": "other_city", "copy_from": "city", "value": "oakland"},
    ]
    first, second = replace(raw).dialogue["turns"][0]["frames"][0]["slots"]
    assert (second["value"], [one.lower() for one in first["value"]]) == (first["value"][0], [second["value"]] * 2)


def test_a_value_of_a_slot_that_is_kept_too():
    """A word would be two things; a bare number is another value than the price."""
    raw = marked("USER", "Jazz, that is jazz", ("title", "Jazz"), ("mood", "jazz", "Jazz"))
    made = replace(raw)
    assert (made.dialogue, rows_by_slot(made)["title"]["reason"]) == (raw, "kept_elsewhere")
    acts = [action("price", ("2", "2")), action("seats", ("2", "2"))]
    raw = dialogue(turn("USER", "cost: 2", {"2": "price"}, *acts), turn("USER", "seats: 2", {"2": "seats"}, *acts))
    first, second = (one["utterance"] for one in replace(raw).dialogue["turns"])
    assert (first != "cost: 2", second) == (True, "seats: 2")


TEXTS = st.text(st.sampled_from("aAo 7.'’-éß🙂\u0301ｗ$,"), max_size=12)


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
    assert reason in ("", "bad_span", "torn_span")
    if reason:
        return
    (now,) = made.dialogue["turns"][0]["frames"][0]["actions"][0]["values"]
    assert spans_of(made.dialogue) == [(slot, now)] or now.casefold() == spans_of(made.dialogue)[0][1].casefold()
    for row in made.rows:
        if row["status"] == "replaced":
            assert not leaks(TRAINING, row["kind"], row["canonical_replacement"])
        else:
            assert made.dialogue == raw


def test_times_stay_on_their_side_of_noon():
    raw = dialogue(turn("USER", "", None, action("time", ("11:59", "11:59"), ("12:00", "12:00"), ("23:59", "23:59"))))
    for seed in "01234":
        (values,) = (one["values"] for one in replace(raw, seed).dialogue["turns"][0]["frames"][0]["actions"])
        assert values[0] < "12:00" <= values[1] < values[2] <= "23:59"
        assert len({*values, "11:59", "12:00", "23:59"}) == 6


def test_spans_that_are_none():
    good = turn("USER", "to Oakland", {"Oakland": "city"}, action("city", ("Oakland", "Oakland")))
    for change in ({"start": 4}, {"exclusive_end": 11}, {"start": -7}, {"start": 10, "exclusive_end": 3}):
        bad = copy.deepcopy(good)
        bad["frames"][0]["slots"][0].update(change)
        raised(InputError, replace, dialogue(bad), match="bad_span")
