"""Foreign utterances: requests that stand on their own, sources row by row, and what becomes of their texts."""

import copy
import re
from collections import Counter
from importlib.resources import files
from itertools import pairwise

import kit
import msgspec
from hypothesis import given
from hypothesis import strategies as st
from kit import cases, frame, raised, state, write

from parapet.schemas.dialogue import Dialogue
from parapet.schemas.errors import InputError
from parapet.schemas.layout import read_root
from parapet.schemas.service import Intent, Service, Slot
from parapet.transforms.core.seeding import stable_hash
from parapet.transforms.perturb import ood
from parapet.transforms.perturb.corpora import dialogues_of, read_corpus
from parapet.transforms.perturb.ood import plan as plans
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
    for text in re.split(r"[|\n]", texts):
        assert utterances.is_self_contained(utterances.without_greeting(text)) == alone, text


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
    found = [(0, "I need a hotel in Ulm."), (2, "Can you find me a bus to Ulm?")]
    assert list(utterances.requests_of(made, TOPICS)) == found


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


TURN = kit.turn("USER", "Why do wolves howl?")
TALK = [kit.dialogue("1", TURN, kit.turn("USER", "Could you send it there by boat?"))]


def test_plain_text(tmp_path):
    text = b"\xef\xbb\xbf[laughs] good one\r\n\n  two   words \nbad \xff byte\n" + '"é" ｆull\n'.encode()
    (file,) = utterances.list_sources(str(write(tmp_path / "talk.txt", text)))
    one, two, bad, four = utterances.read_source(file)
    assert [row.source for row in (one, two, four)] == ["talk.txt:1", "talk.txt:3", "talk.txt:5"]
    assert [row.text for row in (one, two, four)] == ["[laughs] good one", "two words", '"é" ｆull']
    assert (bad.where, bad.reason.partition(":")[0]) == ("line 4", "not_utf8")


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


# Places, rates and the dialogues that come out.


STATE = {**kit.state("Find", ["price"], city=["Ulm"]), "note": 1}


def raw_dialogue(speakers, services=("Bars_1",)):
    turns = []
    for i, speaker in enumerate(speakers):
        more = {"state": copy.deepcopy(STATE)} if speaker == "U" else {}
        frame = kit.frame(services[0], kit.act("X"), **more)
        turns.append(kit.turn("USER" if speaker == "U" else "SYSTEM", f"{speaker}{i}", frame))
    return {"dialogue_id": "d", "services": list(services), "turns": turns, "extra": "kept"}


def test_frames_without_a_state_are_not_kept():
    frames = [{"service": "A", "slots": []}, {"service": "B", "slots": [1], "state": {"slot_values": {}}}]
    kept = {"service": "B", "slots": [], "state": {"slot_values": {}, "requested_slots": []}}
    assert plans.kept_frames(frames) == [kept]


@given(st.text(alphabet="US", max_size=14))
def test_they_still_take_turns(speakers):
    """No two turns of one side stand together that did not before."""
    raw = raw_dialogue(speakers)
    turns = plans.turns_with_place(msgspec.convert(raw, Dialogue))
    several = [plans.Injection(0, turn, utterance_of(f"say {turn}", "x:1", "x"), 1) for turn in turns]
    new, rows = plans.injected(raw, several, "0")

    def together(of):
        return sum(one == other for one, other in pairwise([turn["speaker"] for turn in of["turns"]]))

    assert (together(new), sum(row["label"] == "ood" for row in rows)) == (together(raw), len(turns))
    for row in rows:
        assert new["turns"][row["turn"]]["utterance"] == row["utterance"]


def places(split, domain, n):
    return [plans.Place(stable_hash(split, str(i)), split, f"{split}/a.json", 0, i, (domain,)) for i in range(n)]


def utterances_about(domain, n):
    return [utterance_of(f"of {domain} {i}", f"{domain}:{i}", "own", (domain,)) for i in range(n)]


def rates(*of):
    return plans.Config(of, "s", ("train",))


def test_nobody_hears_of_his_own_domain():
    about_a = utterances_about("A", 1)
    (found,), _ = plans.plan(rates("0.5"), places("train", "B", 2), about_a, {"train": 2})
    assert [found[1].utterance] == about_a
    few = "too few places or foreign utterances for ood-50 of train"
    raised(InputError, plans.plan, rates("0.5"), places("train", "A", 2), about_a, {"train": 2}, match=few)


def test_utterances_are_used_again_after_all_others():
    """Twice in no dialogue, a second time only where all that fit are used, and not more often in a smaller set."""
    of = [("A", "B"), ("A",), ("A",)]
    there = [plans.Place(stable_hash(str(i)), "train", "train/a.json", i // 4, i % 4, of[i % 3]) for i in range(400)]
    pool = [*utterances_about("C", 40), *utterances_about("B", 30)]
    planned, counts = plans.plan(rates("0.1", "0.4"), there, pool, {"train": 400})
    found = [one for _, one in planned]
    assert (len(found), set(Counter(one.utterance.key for one in found).values())) == (160, {2, 3})
    assert max(Counter((one.dialogue, one.utterance.key) for one in found).values()) == 1
    low = [one.utterance.key for one in found if one.sets == 2]
    assert len(low) == len(set(low)) == 40
    assert [counts.sum("distinct", set=name) for name in ("ood-10", "ood-40")] == [40, 70]
    assert [counts.sum("most_uses", set=name) for name in ("ood-10", "ood-40")] == [1, 3]


def test_no_utterance_is_used_in_two_splits():
    """One that is said in a split is used there; the others are drawn, more for a larger split."""
    config = msgspec.structs.replace(rates("0.5"), splits=("test", "train"))
    there = [*places("test", "A", 20), *places("train", "A", 60)]
    said = [utterance_of(f"in test {i}", f"t:{i}", "own", ("C",), ("test",)) for i in range(3)]
    planned, _ = plans.plan(config, there, [*utterances_about("B", 40), *said], {"test": 20, "train": 60})
    of_split = {split: {one.utterance.key for file, one in planned if split in file} for split in config.splits}
    assert not of_split["test"] & of_split["train"]
    assert {one.key for one in said} <= of_split["test"]
    assert len(of_split["train"]) > len(of_split["test"])


def test_the_highest_rate_can_be_had_and_no_higher():
    """Places that nothing fits are passed over: the rate counts those that can be served."""
    there = [*places("train", "A", 30), *places("train", "C", 70)]
    pool, turns = utterances_about("C", 50), {"train": 100}
    missing = r"too few.*lower --rates to 0\.3 or less, the highest"
    raised(InputError, plans.plan, rates("0.5"), there, pool, turns, match=missing)
    assert len(plans.plan(rates("0.3"), there, pool, turns)[0]) == 30
    few = "no rate is possible, or use another --source"
    raised(InputError, plans.plan, rates("0.5"), there[30:], pool, {"train": 70}, match=few)


def test_fallbacks_fit_what_was_said():
    def answers(text):
        return {plans.fallback_of("s", str(i), 0, text) for i in range(99)}

    said, asked, wanted = map(answers, ("I have never seen snow.", "Why is the sky blue?", "Find me a bus."))
    assert len(said) == 2
    assert said < asked & wanted
    assert asked | wanted == set(plans.FALLBACKS)
    assert "I'm sorry, I'm not able to do that for you." in wanted - asked
