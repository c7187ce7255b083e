"""Foreign utterances: requests that stand on their own, sources row by row, and what becomes of their texts."""

import re
from importlib.resources import files

import kit
import msgspec
from kit import cases, frame, raised, state, write

from parapet.schemas.dialogue import Dialogue
from parapet.schemas.errors import InputError
from parapet.schemas.layout import read_root
from parapet.schemas.service import Intent, Service, Slot
from parapet.transforms.perturb import ood
from parapet.transforms.perturb.corpora import dialogues_of, read_corpus
from parapet.transforms.perturb.ood import utterances
from parapet.transforms.perturb.ood.utterances import Topics, key_of, merged, pool_numbers, pool_of, utterance_of

ALONE = """I need a bus to Fresno, can you find one?|I want to rent a car and keep it until the 8th of March.
Is there any rain forecast for the weekend in Paris?|Some friends told me that they love the album Mercury Lane.
Hi there, I'd like to book the Alder Inn this Friday.|My friends and I want a house, can you find them one?"""
BACK = """Where's the venue at?|I want to reserve a hotel there.|Do you know whether it is furnished?
Can you find me another song, please?|What's the rent, and do they allow pets?|I like that one a lot.|I need two please.
Actually, make that two tickets.|What station does this bus go to?|Leaving from Anaheim, on Monday.
Auntie Mame sounds good.|I would like a show of it on Saturday.|I want to send the money to Ann.
Yes, I want to make a transfer.|Thanks, please play a song.|Now send money to their account.
Is there any additional bus?|Will you find me some interesting events in and around?|Can you find me a bus to the ?"""


@cases("texts alone", (ALONE, True), (BACK, False))
def test_what_stands_alone(texts, alone):
    assert [
        text
        for text in re.split(r"[|\n]", texts)
        if utterances.is_self_contained(utterances.without_greeting(text)) != alone
    ] == []


@cases(
    "text asks action",
    ("Find me a hotel.", True, True),
    ("Can you look for a dentist in Ulm?", True, True),
    ("Is there a bus to Fresno?", True, False),
    ("What is the weather like in Ulm?", True, False),
    ("2 bedrooms.", False, False),
    ("I will be planning to leave on March 5th.", False, False),
    ("My cat is sitting on my keyboard.", False, False),
)
def test_what_is_asked(text, asks, action):
    assert (utterances.is_request(text), utterances.asks_for_action(text)) == (asks, action)


SERVICES = [
    Service("Inns_1", "Find hotels", [Slot("pets", "Whether dogs are allowed")], [Intent("FindHotel", "")]),
    Service("Buses_1", "Buses and their tickets", [Slot("fare", "")], [Intent("FindBus", "")]),
    Service("Plays_1", "Theatres", [Slot("ticket", "")], [Intent("BuyTicket", "")]),
    Service("Games_1", "Matches", [Slot("ticket", "")], [Intent("BuyTicket", "")]),
]
TOPICS = utterances.topics_of_services(SERVICES)


@cases(
    "text about",
    ("Do you take my dog?", {"Inns"}),
    ("A bus to the hotel", {"Buses", "Inns"}),
    ("Two tickets", {"Buses", "Plays", "Games"}),
    ("Why do wolves howl?", set()),
    ("At 5 pm on Monday", set()),
)
def test_what_a_text_is_about(text, about):
    assert TOPICS.about(text) == about


def test_what_several_services_have_names_none():
    assert TOPICS.named("a bus", ["Buses"])
    assert not TOPICS.named("a bus", ["Inns"])
    assert not TOPICS.named("two tickets", ["Plays"])  # three have it
    assert not TOPICS.named("a dog", ["Inns"])  # a slot's word is no name


def dialogue(*said):
    """Of (text, service, active intent)."""
    turns = [kit.turn("USER", text, frame(service, state=state(intent))) for text, service, intent in said]
    return msgspec.convert(kit.dialogue("1", *turns), Dialogue)


def test_requests_start_something_new():
    made = dialogue(
        ("Hi! I need a hotel in Ulm.", "Inns_1", "FindHotel"),
        ("I need a hotel with a pool.", "Inns_1", "FindHotel"),
        ("Can you find me a bus to Ulm?", "Buses_1", "FindBus"),
        ("Can you find me a place in Ulm?", "Plays_1", "BuyTicket"),
        ("I want a bus to Bonn.", "Buses_1", "NONE"),
    )
    assert list(utterances.requests_of(made, TOPICS)) == [
        (0, "I need a hotel in Ulm."),
        (2, "Can you find me a bus to Ulm?"),
    ]


def test_sgd(real_data):
    """Of services that no rule was written on: a request in every second dialogue, and no answers."""
    root = real_data / "sgd_more"
    topics = utterances.topics_of_services(service for of in read_root(root) for service in of.services)
    dialogues = [one for file in read_corpus(root, ["train"]).files[:3] for *_, one in dialogues_of(file)]
    texts = [text for one in dialogues for _, text in utterances.requests_of(one, topics)]
    assert len(texts) > len(dialogues) / 2
    assert not [text for text in texts if re.match(r"(?:yes|no|thanks|thank you|hi|hello)\b", text, re.I)]


TOPICS_OOD_POOL = Topics({"bus": frozenset({"Buses"})}, {})


def pool(*texts, origin="x.txt"):
    return pool_of([utterance_of(text, f"{origin}:{i}", origin) for i, text in enumerate(texts)], TOPICS_OOD_POOL)


@cases(
    "text status",
    ("🙂 ...", "empty"),
    ("many words " * 50, "too_long"),
    ("Okay, thanks.", "generic"),
    ("At five, please.", "generic"),
    ("Why do wolves howl?", "kept"),
)
def test_what_becomes_of_a_text(text, status):
    kept, counts = pool(text, "Foxes bark.", "Owls hoot.")
    numbers = pool_numbers(counts)
    assert (numbers["different"], numbers[status]) == (3, 1 + 2 * (status == "kept"))
    assert (text in [one.text for one in kept]) == (status == "kept")


def test_our_own_lines_are_taken_as_they_are():
    assert len(pool("Yes.", "No.", "Why do wolves howl?", origin="chat")[0]) == 3


def test_the_same_words_are_one_utterance():
    same = [utterance_of("stop", "a:2", "own", ("A",)), utterance_of("STOP", "a:1", "own", ("A",))]
    same.insert(0, utterance_of("Stop!", "b:1", "own", ("B",), ("train",)))
    (one,) = merged(same)
    assert (one.text, one.source, one.about, one.splits) == ("STOP", "a:1", ("A", "B"), ("train",))
    assert merged(reversed(same)) == [one]


def test_our_small_talk():
    lines = files(ood).joinpath("small_talk.txt").read_text("utf-8").splitlines()
    assert len({key_of(line) for line in lines}) == len(lines) >= 300
    assert all(line.strip() == line and line[-1] in ".?!" and 3 <= len(line.split()) <= 20 for line in lines)
    assert 0.4 < sum(line.endswith("?") for line in lines) / len(lines) < 0.8


TURN = {"speaker": "USER", "utterance": "Why do wolves howl?", "frames": []}
TALK = [
    {"dialogue_id": "1", "services": [], "turns": [TURN, {**TURN, "utterance": "Could you send it there by boat?"}]}
]


def rows(path):
    """(source, text) or (where, reason id) of each row of each file."""
    found = []
    for file in utterances.list_sources(str(path)):
        for row in utterances.read_source(file):
            if isinstance(row, InputError):
                found.append((f"{row.path}: {row.where}", row.reason.partition(":")[0]))
            else:
                found.append((row.source, row.text))
    return found


def test_plain_text(tmp_path):
    path = tmp_path / "talk.txt"
    path.write_bytes(b"\xef\xbb\xbf[laughs] good one\r\n\n  two   words \nbad \xff byte\n" + '"é" ｆull\n'.encode())
    assert rows(path) == [
        ("talk.txt:1", "[laughs] good one"),
        ("talk.txt:3", "two words"),
        ("talk.txt: line 4", "not_utf8"),
        ("talk.txt:5", '"é" ｆull'),
    ]


def test_ood_sources_sgd(sample):
    files = utterances.list_sources(str(sample))
    assert [file.name for file in files] == [
        f"{name}/dialogues_00{n}.json" for name, n in (("dev", 1), ("test", 1), ("train", 1), ("train", 2))
    ]
    first = next(iter(utterances.read_source(files[1])))
    assert not isinstance(first, InputError)
    assert (first.source, first.about, first.splits) == ("test/dialogues_001.json:1_00000:0", ("Repairs",), ())


def test_several_sources(tmp_path):
    text = write(tmp_path / "a, b.txt", "Why do wolves howl?")
    turns = write(tmp_path / "talk.json", TALK)
    found = utterances.list_sources(f"own, chat,{turns}")
    assert [(file.name, file.path) for file in found] == [("chat", ""), ("talk.json", str(turns))]
    assert [file.name for file in utterances.list_sources(str(text))] == ["a, b.txt"]
    statuses = [row.status for row in utterances.read_source(found[1]) if not isinstance(row, InputError)]
    assert statuses == ["kept", "refers_back"]  # "there"
    assert utterances.list_sources("own") == []
    raised(InputError, utterances.list_sources, ",", match="must be one or more of own, chat, files and folders")


@cases("source", "talk", "talk/a.jsonl")
def test_what_has_no_utterances(source, tmp_path):
    write(tmp_path / "talk" / "a.jsonl", "x")
    raised(InputError, utterances.list_sources, str(tmp_path / source), match="contains no utterances; give own, chat")
