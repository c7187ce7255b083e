"""Words, what training has, kinds of slots, and where values come from."""

import pickle
import re
from datetime import date

from entity_corpora import training_of
from hypothesis import given
from hypothesis import strategies as st
from kit import cases, raised, write

from parapet.schemas.errors import InputError
from parapet.transforms.core.counts import Counts, check_invariants
from parapet.transforms.perturb.entities import kinds
from parapet.transforms.perturb.entities.choosing import article_of, pools_of, read_gazetteer
from parapet.transforms.perturb.entities.kinds import NAMES, are_quarters, kind_of, kind_of_value
from parapet.transforms.perturb.entities.mentions import GENERIC, leaks, words
from parapet.transforms.perturb.entities.names import country_of, made_up_name, short_form, subject
from parapet.transforms.perturb.entities.perturbation import UnseenEntities

SAYABLE = ["red", "blue", "Red", "7", "7:17", "o'clock", "the", "park", "Of"]
SAID = st.lists(st.sampled_from(SAYABLE), max_size=8).map(" ".join)


@given(st.lists(SAID, max_size=6), SAID)
def test_leaks_against_a_plain_search(texts, value):
    """Every sequence of two words or more, or the one word, looked for in every text."""
    training = pickle.loads(pickle.dumps(training_of(texts)))
    found = words(value)
    least = min(2, len(found))
    parts = [found[i:j] for i in range(len(found)) for j in range(i + least, len(found) + 1)]
    parts = [part for part in parts if not all(word in GENERIC or word[0].isdecimal() for word in part)] or parts
    said = [f" {' '.join(words(text))} " for text in texts]
    assert leaks(training, "title", value) == any(f" {' '.join(part)} " in text for part in parts for text in said)


@cases(
    "name description values kind",
    ("free_entry", "", ["True", "dontcare"], "boolean"),
    ("destination_airport_name", "", ["PDX International Airport"], "airport"),
    ("category", "The category of food offered by the restaurant", ["Asian"], "cuisine"),
    ("genre", "Genre of the movie", ["Drama"], "genre"),
    ("event_location", "Name of event location", ["Chase Field Stadium"], "place"),
    ("where_to", "Location of the house", ["Paris", "New York"], "city"),
    ("ticket", "What to show at the entrance", ["X7-99213", "K2-10442"], "code"),
    ("mail", "How to reach the hotel", ["desk@inn.example"], "other"),
    ("wait", "How long until the car of the company comes", ["5 minutes"], "other"),
    ("contact", "Whom to ask", ["01223 351241", "+44 1223 351242"], "other"),
)
def test_kinds(name, description, values, kind):
    assert kind_of(name, description, values) == kind


MULTIWOZ = {
    "hotel-name": (["alder lodge", "elm hotel"], "business"),
    "hotel-postcode": (["cb13ef", "CB2 1AB"], "postcode"),
    "hotel-ref": (["7GAWK763", "MMABCDEF", "8NSXI2YL"], "code"),
    "train-ref": ([], "other"),
    "train-leaveat": (["17:45", "after 9"], "time"),
    "train-duration": (["79 minutes"], "other"),
    "attraction-entrancefee": (["4 pounds", "free", "?"], "price"),
    "restaurant-food": (["gastropub"], "cuisine"),
    "hospital-department": (["teenage cancer unit"], "other"),
}


@cases("described", True, False)
@cases("slot", *MULTIWOZ)
def test_kinds_of_slots_with_a_domain_before_them(slot, described):
    """Of "hotel-postcode" the hotel is the domain; without a description "hotel-name" still is a hotel's."""
    values, kind = MULTIWOZ[slot]
    service, _, own = slot.partition("-")
    assert kind_of(slot, f"{own} of the {service}" * described, values, service) == kind


def test_kinds_of_single_values():
    assert kind_of_value("title", "Reservation at Mcdonald's") == "other"
    assert kind_of_value("title", "Movie show") == "other"
    assert kind_of_value("title", "The Flight of Dragons") == "title"
    assert kind_of_value("person", "North Meridian Dental") == "business"
    assert kind_of_value("place", "5434 Ygnacio Valley Road #90") == "address"
    assert kind_of_value("place", "2g Japanese Brasserie") == "place"
    assert kind_of_value("city", "John Wayne Airport") == "airport"
    assert kind_of_value("airport", "Anaheim") == kind_of_value("station", "Anaheim") == "city"
    assert kind_of_value("airport", "LAX") == kind_of_value("airport", "Eppley Airfield") == "airport"
    assert kind_of_value("station", "Santa Fe Depot") == "station"
    assert kind_of_value("business", "Union Station") == "business"
    assert kind_of_value("title", "12 Angry Street") == "title"


@given(st.sampled_from(NAMES), st.text(max_size=20), st.integers(0, 2**64 - 1))
def test_made_names(kind, like, number):
    name = made_up_name(kind, like, number)
    assert name == made_up_name(kind, like, number)
    assert words(name)
    assert not re.search(r"(.)\1\1", re.sub(r"\d", "", name))


KEPT = r"""place|travel|Hyde Park|.+ Park
business|library|Millfield Library|.+ Library
business|restaurant|Palermo Italian Restaurant|.+ Italian Restaurant
business|theater|Airport Stadium 12|[A-Z].* [A-Z].*
business|hotel|Best Western Long Beach|(?!.* Beach$).+
business|artist|Linkin Park|(?!.* Park$).+ .+
person|recipient|Diego|[\w-]+
person|director|Iain Softley|[\w-]+ \w+
person|doctor|Dr. Eve Lee, MD|Dr\. [\w-]+ \w+
address||29 East Allen Street 2nd Floor|\d\d \w+ Street
address||855 El Camino Real #12|\d{3} \w+ \w+
airport||SFO International Airport|[A-Z]{3} International Airport
title|event|Mets Vs Cubs|\w+ Vs \w+
car||Civic|\S+( 3)?"""


@cases("row", *KEPT.splitlines())
def test_names_keep_what_they_are(row):
    kind, slot, like, form = row.split("|", 3)
    about = subject((("Some_1", f"{slot}_name"),))
    made = {made_up_name(kind, like, number * 7919**4, about) for number in range(40)}
    assert len(made) > 9
    assert [name for name in made if not re.fullmatch(form, name)] == []


def test_parts_of_names():
    """A state is said of the new value as it was of the old one."""
    assert subject((("Events_1", "name"), ("Media_1", "movie_name"))) == "movie"
    assert short_form("Fresno, CA", "Fresno", "Boise") == "Boise, ID"
    assert short_form("Fres", "Fresno", "Boise") == "Boise"
    assert (country_of(["408-971-8523", "94301"]), country_of(["01223 351241", "cb13ef"])) == ("us", "gb")
    assert made_up_name("city", "", 1, country="gb") != made_up_name("city", "", 1)


def test_dates_and_times():
    like = ["2019-03-05", "March 5th", "march 5th", "Mar 5", "the 5th", "next Tuesday", "5th of March"]
    assert [kinds.said_date(date(2019, 7, 22), one) for one in like] == [
        "2019-07-22", "July 22nd", "july 22nd", "Jul 22", "the 22nd", "next Tuesday", "22nd of July",
    ]  # fmt: skip
    assert [kinds.ordinal(n) for n in (1, 2, 3, 4, 11, 12, 13, 21, 22, 23, 30)] == [
        "1st", "2nd", "3rd", "4th", "11th", "12th", "13th", "21st", "22nd", "23rd", "30th",
    ]  # fmt: skip
    assert [kinds.said_time(17 * 60 + 22, one) for one in ("17:00", "5:00", "5 pm", "half past 5", "05:10")] == [
        "17:22", "5:22", "5:22 pm", "5:22 pm", "17:22",
    ]  # fmt: skip
    assert [kinds.said_time(n, "noon") for n in (7, 719, 725)] == ["12:07 am", "11:59 am", "12:05 pm"]
    assert (kinds.minutes_of("24:00"), kinds.minutes_of("-8:17"), kinds.day_of("2019-02-30")) == (None, None, None)


def test_quarters():
    hours = [f"{hour:02}:{minute}" for hour in range(8, 20) for minute in ("00", "30")]
    assert are_quarters([*hours, "7:15 pm", "noon", "7:10 pm"])  # one in twenty-five
    assert not are_quarters(["18:05", "7 pm"])


@given(st.integers(1, 9999), st.sampled_from(["", ".00", ".25", ".5"]), st.integers(0, 2**64 - 1))
def test_amounts(whole, cents, number):
    """Each once, of as many digits, half to twice as much, and as round."""
    old = f"{whole}{cents}"
    amounts = list(kinds.other_amounts(old, number))
    assert len(set(amounts)) == len(amounts) <= 200
    for new in amounts:
        assert len(new) == len(old)
        assert float(old) / 2 - 1 <= float(new) <= 2 * float(old)
        assert whole < 8000 or whole % 1000 or not int(float(new)) % 1000


@given(st.sampled_from(["408-971-8523", "+44 20 7706 4660", "01223 353888", "1"]), st.integers(0, 2**64 - 1))
def test_phone_numbers(like, number):
    new = kinds.said_code(kinds.other_code("phone", kinds.code_of(like), number), like)
    assert re.sub(r"\d", "0", new) == re.sub(r"\d", "0", like)
    assert new[:3] == like[:3] or len(like) < 3


@given(st.integers(0, 1439), st.sampled_from(["5 pm", "5pm", "5:10 P.M.", "5:10 am", "17:10", "5:10", "noon", ""]))
def test_times_in_the_style_of_others(minutes, like):
    text = kinds.said_time(minutes, like)
    found = kinds.minutes_said(text)
    assert found is not None
    assert (found - minutes) % 720 == 0
    assert like in ("5:10", "17:10") or found == minutes
    assert text.isupper() == (like == "5:10 P.M.") or like in ("17:10", "5:10")


def test_articles_of_texts():
    an = ["Uzbek", "8:07 pm", "11:15 am", "18:02", "hour", "honest man", "$8", "Émile", "Ulster"]
    a = ["Uruguayan", "Ukrainian", "European", "one-way", "7 pm", "110", "Mexican", "unicorn", "house", ""]
    assert [article_of(text) for text in an] == ["an"] * len(an)
    assert [article_of(text) for text in a] == ["a"] * len(a)


def test_a_set_that_is_hardly_changed_fails():
    counts = Counts()
    counts.add("open", 8, set="unseen_entities", split="test")
    told = "only 0.0% of 8 dialogues with open slots changed"
    raised(InputError, check_invariants, counts, UnseenEntities().invariants(), match=told)


def test_gazetteer(tmp_path):
    path = tmp_path / "values.csv"
    path.write_text('\ufeffslot_or_kind,value\ncity,"Rome"\ncity,Tarn\ncity, Tarn \n\nA.b,"x, y"\n')
    kinds = {("Buses_1", "fare"): "price", ("A", "b"): "title"}
    assert pools_of(read_gazetteer(str(path)), str(path), kinds) == {"city": ["Rome", "Tarn"], "A.b": ["x, y"]}


@cases(
    "text told",
    ("", "the header must be slot_or_kind,value"),
    ("slot_or_kind,value\n", "contains no values"),
    ("slot_or_kind,value\ncity,a,b\nnowhere,x\ncity,\n", "row 2: the row has 3 columns, but must have 2"),
    ("slot_or_kind,value\nnowhere,x\n", "row 2: 'nowhere' is neither a slot with names nor a kind of names"),
    ("slot_or_kind,value\ncity,dontcare\n", "row 2: 'dontcare' is not a usable value"),
    ("slot_or_kind,value\ndate,July 9th\n", "row 2: 'date' is neither a slot with names nor a kind of names"),
)
def test_gazetteers_that_are_none(text, told, tmp_path):
    path = write(tmp_path / "values.csv", text)
    assert told in str(raised(InputError, lambda: pools_of(read_gazetteer(str(path)), str(path), {})))
    for data, said in ((b"\xff\xfe", "not UTF-8"), (None, "cannot be read")):
        path.unlink() if data is None else path.write_bytes(data)
        raised(InputError, read_gazetteer, str(path), match=said)
