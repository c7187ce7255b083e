"""``parapet statistics`` as a person runs it."""

import json

import pytest
from kit import cases, intent, lacking, refused, run, service, slot, write


def a_service(name, slots, intents, description):
    made = [intent(*one, *list(slots)[:1], results=slots) for one in intents.items()]
    return service(name, [slot(*one) for one in slots.items()], made, description)


SENDING = {"amount": "How much money to send", "city": "The city of the bank"}
BANKS = a_service("Banks_1", SENDING, {"SendMoney": "Send money to a friend"}, "Manage your money at the bank")
STAYING = {"city": "The city of the hotel", "stars": "How many stars the hotel has"}
TO_STAY = "A service to find and to book a hotel"
HOTELS = a_service("Hotels_1", STAYING, {"FindHotel": "Find a hotel in a city"}, TO_STAY)
TO_GO = "Find a train to a city"
TRAINS = a_service("Trains_1", {"city": "City to go to"}, {"FindTrain": TO_GO}, "Travel by train in the country")


MORE = {"1": "now", "2": "today", "10": "eventually"}


def variant_of(service, suffix, more):
    """The service with ``more`` behind its names and descriptions."""
    text = json.dumps(service)
    for one in service["slots"]:
        text = text.replace(f'"{one["name"]}"', f'"{one["name"]}_{more}"')
    made = json.loads(text)
    made["service_name"] += suffix
    for element in (made, *made["slots"], *made["intents"]):
        element["description"] += f" {more}"
    for one in made["intents"]:
        one["name"] += more.capitalize()
    return made


def write_schemas(root, **splits):
    for split, services in splits.items():
        write(root / split / "schema.json", services)


@pytest.fixture
def corpus(tmp_path):
    """Banks in train, Hotels and Trains in test; v1 and v10 (which sorts behind v2) of all of them, v2 as well."""
    write_schemas(tmp_path / "sgd", train=[BANKS], test=[BANKS, HOTELS, TRAINS])
    for number, more in MORE.items():
        made = [variant_of(service, number, more) for service in (BANKS, HOTELS, TRAINS)]
        write_schemas(tmp_path / "variants" / f"v{number}", train=made[:1], test=made)
    (tmp_path / "variants" / "notes").mkdir()
    write(tmp_path / "variants" / ".hidden" / "train" / "schema.json", "half a fi")
    return tmp_path


def measure(corpus, *flags, out="out", status=0):
    """Statistics and what is said of them; flags replace those before them."""
    given = ["--sgd", corpus / "sgd", "--variants", corpus / "variants", "--output", corpus / out, *flags]
    ran = run("statistics", *given, status=status)
    return ran.json("statistics.json") if status == 0 else None, ran.errors


def test_dev_is_taken_where_there_is_no_test_and_the_page_shows_the_numbers(corpus):
    for folder in ("sgd", "variants/v1", "variants/v2", "variants/v10"):
        (corpus / folder / "test").rename(corpus / folder / "dev")
    found, _ = measure(corpus)
    assert found["split"] == "dev"
    page = (corpus / "out" / "report.html").read_text()
    distance = found["variants"]["v10"]["name_distance"]
    assert not lacking(page, f">{distance:.2f}", "3 services in 3 variants.")


def test_one_variant_in_a_single_file(corpus):
    write(corpus / "single" / "de" / "schema.json", [variant_of(HOTELS, "_de", "jetzt")])
    found, _ = measure(corpus, "--variants", corpus / "single")
    assert (list(found["variants"]), found["self_bleu"]) == (["de"], None)


def test_a_service_missing_from_one_variant(corpus):
    write_schemas(corpus / "variants" / "v2", test=[variant_of(BANKS, "2", "today"), variant_of(HOTELS, "2", "today")])
    reason = "service 'Trains_1' is in variant v1, but not in v2: the variant has no service 'Trains_12'"
    assert reason in measure(corpus, status=2)[1]
    assert not (corpus / "out").exists()


@cases(
    "flags message",
    (["--variants", "{0}/variants/notes"], "contains no variants: expected folders such as v1/train/schema.json"),
    (["--sgd", "{0}/variants"], "contains no schema"),
    (["--sgd", "{0}/variants/v2"], "no service of the corpus has a match in v1"),
)
def test_wrong_flags(corpus, flags, message):
    assert message.format(corpus) in measure(corpus, *(flag.format(corpus) for flag in flags), status=2)[1]
    assert not (corpus / "out" / "run.json").exists()


def test_services_that_the_corpus_lacks_are_ignored(corpus):
    """The published variants have all services of SGD, whatever part of it the corpus is."""
    write_schemas(corpus / "sgd", test=[HOTELS])
    actual, _ = measure(corpus)
    for number, more in MORE.items():
        write_schemas(corpus / "variants" / f"v{number}", test=[variant_of(HOTELS, number, more)])
    expected, _ = measure(corpus, out="cut")
    assert actual == expected


def test_nothing_unseen_or_no_train(corpus):
    write_schemas(corpus / "sgd", train=[BANKS, HOTELS, TRAINS])
    said = refused("statistics", sgd=corpus / "sgd", output=corpus / "alone")
    assert "train has all services of test, so there are no unseen services to measure" in said
    (corpus / "sgd" / "train" / "schema.json").unlink()
    said = refused("statistics", sgd=corpus / "sgd", output=corpus / "alone")
    assert "there is no train/schema.json, so it is not known which names occur in train" in said


def test_variants_are_measured_without_a_train_split(corpus):
    whole, _ = measure(corpus, out="whole")
    (corpus / "sgd" / "train" / "schema.json").unlink()
    found, said = measure(corpus)
    assert "warning: there is no train/schema.json, so names that occur in train are not counted\n" in said
    assert {row["slot_names_seen"] for row in (*found["variants"].values(), found["average"])} == {None}
    assert found["unseen_services"] == 0 < whole["unseen_services"]
    assert found["average"]["name_distance"] > 0


def test_without_variants_the_names_seen_of_the_original(corpus):
    """The first column of Table 1: SGD-X says how many names of SGD's unseen services are not new."""
    ran = run("statistics", sgd=corpus / "sgd", output=corpus / "out")
    found = ran.json("statistics.json")
    assert found["original"] == {"slot_names_seen": 0.666667, "intent_names_seen": 0.0}
    assert (found["variants"], found["average"], found["self_bleu"]) == ({}, {}, None)
    assert (found["services"], found["unseen_services"], found["services_without_variants"]) == (3, 2, [])
    assert ran.output.splitlines()[:2] == ["          slots seen  intents seen", "original       66.7%          0.0%"]
    assert "slots seen" in ran.text("report.html")
