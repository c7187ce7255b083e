"""One dialogue with other values: the same everywhere, nowhere else, in its form, and never a wrong span."""

import copy
import json
import random
import re
from datetime import date
from pathlib import Path

import msgspec
import pytest
from entity_corpora import SERVICE, TRAINING, action, dialogue, marked, replace, spans_of, turn
from hypothesis import given
from hypothesis import strategies as st
from kit import THOROUGH, cases, raised, state
from multiwoz_corpus import write_corpus

from parapet.schemas.dialogue import Dialogue, typed
from parapet.schemas.errors import InputError
from parapet.schemas.layout import SplitSchemas
from parapet.schemas.service import Service
from parapet.schemas.service import Slot as ServiceSlot
from parapet.transforms.perturb.apply import fitted
from parapet.transforms.perturb.corpora import read_corpus
from parapet.transforms.perturb.entities import mentions
from parapet.transforms.perturb.entities.choosing import replaced
from parapet.transforms.perturb.entities.kinds import ordinal
from parapet.transforms.perturb.entities.mentions import leaks
from parapet.transforms.perturb.entities.perturbation import UnseenEntities, kinds_of


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
    assert {row["value"][0]: row["kind"] for row in made.rows} == {"Oakland": "city", "JFK Airport": "airport"}
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


# Dialogues that nobody would write, and other cases and blanks than in the annotation: replaced or refused.


MUTATED = 12_000 if THOROUGH else 300
CHANGES = [
    *(str.lower, str.upper, str.swapcase, str.title, str.casefold, str.strip),
    *(lambda text, old=old, new=new: text.replace(old, new) for old, new in (
        (" ", "  "), (" ", "\u00a0"), (" ", "\n"), (" ", ""), ("i", "İ"), ("ss", "ß"), ("s", "ſ"), ("k", "\u212a"),
        ("fi", "ﬁ"), ("'", "’"), ("1", "１"), ("0", "٠"), ("e", "e\u0301"),
    )),
    *(lambda text: f" {text} ", lambda text: f"${text}", lambda text: text + text, lambda text: text[: len(text) // 2]),
]  # fmt: skip
ODD = (
    *("", " ", "\u200b", "ß", "SS", "İ", "ı", "ŉ", "ΐ", "🙂", "\x00", "\ud800", ".", "-", "$", "a", "an", "one"),
    *("9" * 40, "9" * 400, "9" * 5000, "1,2,3", "1.2.3", "1e5", "inf", "nan", "½", "²", "Ⅷ", "٣", "$.5", "+1", "(408)"),
    *("12:60", "25:00", "0 am", "13 pm", "１２:３０", "2019-02-30", "9999-12-31", "0001-01-01", "٢٠١٩-٠٣-٠٥"),
    *("today", "the 4th", "March", "5 pm", "dontcare", "None", "AB12", "cb1 3ef"),
)
VALUES = {"values", "canonical_values", "slot_values", "parameters", "service_results", "value"}


def strings_in(value, path=()):
    """The places of all strings."""
    if isinstance(value, str):
        yield path
    below = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, child in below:
        yield from strings_in(child, (*path, key))


def mutated(raw, rng):
    """A dialogue of which some texts, the same in some places or in all, or some spans, are others."""
    made = copy.deepcopy(raw)
    for _ in range(rng.choice((1, 1, 2, 4))):
        turns = made["turns"]
        places = [path for path in strings_in(turns) if "utterance" in path or not VALUES.isdisjoint(path)]
        if rng.random() < 0.2:
            spans = [span for one in turns for frame in one["frames"] for span in frame["slots"]]
            span = rng.choice(spans or [{}])
            span[rng.choice(("start", "exclusive_end"))] = rng.randrange(-2, 40)
            continue
        odd = rng.choice(ODD)
        change = rng.choice(CHANGES) if rng.random() < 0.7 else lambda _, odd=odd: odd
        place = rng.choice(places)
        old = at(turns, place)
        everywhere = rng.random()
        for one in places:
            same_field = ("utterance" in one) == ("utterance" in place)
            if one == place or (everywhere < 0.4 and at(turns, one) == old) or (everywhere > 0.7 and same_field):
                at(turns, one[:-1])[one[-1]] = change(at(turns, one))
    return made


def at(value, path):
    for key in path:
        value = value[key]
    return value


def test_mutated_dialogues_are_replaced_or_refused(sample):
    """Nothing but InputError is raised, no value of training is taken; that slots' kinds are told from them as well."""
    corpus = read_corpus(sample, ["train", "dev", "test"])
    schemas = list(corpus.folders.values())
    replacer = fitted(UnseenEntities(training=sample), corpus).of((corpus.files[0].relative, 0))
    raws = [raw for file in corpus.files for raw in json.loads(Path(file.path).read_bytes())]
    rng, done = random.Random("generated"), 0
    for _ in range(MUTATED // 2):
        raw = mutated(rng.choice(raws), rng)
        try:
            dialogue = typed(raw)
            found = {}
            for slot, same, canonical in mentions.distinct_annotations(dialogue):
                found.setdefault(slot, (set(), set()))[0].update(same)
                found[slot][1].update({canonical} - {None})
            mentions.find_values(dialogue, kinds_of(found, schemas))
            assert replaced(raw, dialogue, replacer).leaks == 0
            done += 1
        except InputError:
            pass
    assert done > MUTATED // 6


@cases("value", " ", "\u3000", "9" * 400, ".", "\ud800")
@cases("slot usual", ("location", "Oakland;Novato;Fremont"), ("price", "$5;$20;$12.50"), ("time", "12:30;9:15;17:00"))
def test_one_odd_value_does_not_end_the_run(slot, usual, value):
    """The kind of a slot and its steps are told from the values of all dialogues: one tells no less than without."""
    service = Service("Trips_1", "", [ServiceSlot(slot, "where it is", False, [])], [])
    schemas = [SplitSchemas("test", "", [], [service])]
    said = ({*usual.split(";")}, {*usual.split(";"), value})
    usually, with_odd = (kinds_of({("Trips_1", slot): (set(), of)}, schemas) for of in said)
    assert with_odd == usually


WORD = st.sampled_from(["Elm", "elm", "Zorb", "Port", "port", "7", "5th", "x's", "é"])
WORDS = st.lists(WORD, min_size=1, max_size=6)


@given(utterance=WORDS, values=st.lists(WORDS, min_size=1, max_size=4))
def test_mentions_as_word_by_word(utterance, values):
    """From left to right, the longest value first: the plain reference compares words."""
    texts = sorted({" ".join(value) for value in values if len(value) > 1}) or ["Port b"]
    groups = [mentions.Group({text}, {(SERVICE, "city")}, canonical=text, kind="city") for text in texts]
    text = " ".join(utterance)
    words, wanted, place = mentions.words_of(text), [], 0
    by_words = sorted({mentions.words_of(text) for text in texts}, key=lambda one: -len(one))
    while place < len(words):
        size = next((len(one) for one in by_words if words[place : place + len(one)] == one), 0)
        if size:
            wanted.append(words[place : place + size])
        place += size or 1
    table = mentions.Table(mentions.DialogueValues(groups, set(), {}), {*words})
    unmarked = table.unmarked(text, mentions.located_words(text))
    assert [mentions.words_of(mention.text) for mention in unmarked] == wanted


CASES = {"lower": str.lower, "upper": str.upper, "swapped": str.swapcase}


def spaced(raw, number):
    """A dialogue with more blanks in its utterances; spans move along."""

    def wider(text):
        return re.sub(" ", lambda blank: "  " if (blank.start() + number) % 3 == 0 else " ", text)

    found = copy.deepcopy(raw)
    for one in found["turns"]:
        for span in (span for frame in one["frames"] for span in frame["slots"]):
            span.update({end: len(wider(one["utterance"][: span[end]])) for end in ("start", "exclusive_end")})
        one["utterance"] = wider(one["utterance"])
    return found


def varied(raw):
    yield raw
    for change in CASES.values():
        yield {**raw, "turns": [{**one, "utterance": change(one["utterance"])} for one in raw["turns"]]}
    for number in range(3):
        yield spaced(raw, number)


def check_varied(root, train, splits, dead):
    """Every dialogue, however its utterances are written, is replaced or refused, and few are refused."""
    corpus = read_corpus(root, splits)
    files = corpus.files
    replacer = fitted(UnseenEntities(training=train), corpus).of((files[0].relative, 0))
    refused = total = 0
    for raw in (raw for file in files for raw in json.loads(Path(file.path).read_bytes())[:40]):
        for one in varied(raw):
            total += 1
            try:
                made = replaced(one, msgspec.convert(one, Dialogue), replacer)
            except InputError:
                refused += 1
                continue
            assert made.leaks == 0
    assert total > 40
    assert refused <= dead * total


def test_the_sample_and_multiwoz_however_they_are_written(sample, tmp_path):
    check_varied(sample, sample, ["train", "dev", "test"], 0)
    parts = [["hotel", "restaurant", "taxi"], ["train", "attraction"], ["hospital", "police", "bus"]] * 3
    root = write_corpus(tmp_path / "mw", {"train": parts, "test": parts})
    check_varied(root, root, ["test"], 0)


@pytest.mark.thorough
def test_real_dialogues_however_they_are_written(real_dialogues):
    check_varied(real_dialogues, real_dialogues, ["train", "dev"], 0.01)
