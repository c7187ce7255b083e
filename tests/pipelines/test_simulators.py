"""``parapet reminders``, ``restaurants`` and ``babi_task6`` as a person runs them."""

from collections import Counter
from typing import NamedTuple

import pytest
from dstc2_calls import WELCOME, asian_oriental, cheap_chinese, write_lists
from kit import THOROUGH, act, cases, dialogues_of, edit, json_of, lacking, refused, refused_at_once, run, write

from parapet.schemas.dialogue import problems_of, read_dialogues
from parapet.schemas.layout import read_root, services_by_name
from parapet.transforms.simulators import formats
from parapet.transforms.simulators import restaurants_simulation as simulating
from parapet.transforms.simulators.formats import SPLITS, dialogues_name, parse_candidates, parse_dialogues, parse_facts
from parapet.transforms.simulators.restaurants_corpus import PUBLISHED
from parapet.transforms.simulators.restaurants_simulation import World, default_ontology, knowledge_base, lines_of


@pytest.fixture(scope="module")
def reminders(tmp_path_factory):
    flags = {"dialogues": "40,0,12", "per_file": 16}
    return run("reminders", **flags, output=tmp_path_factory.mktemp("output") / "out").folder


@cases(
    "command flags message",
    ("reminders", ["--dialogues", "5,5"], "--dialogues: must be three numbers of dialogues, for train, dev and test"),
    ("reminders", ["--dialogues", "0,0,0"], "--dialogues: must be three numbers of dialogues"),
    ("reminders", ["--dialogues", "1,x,0"], "--dialogues: 'x' is not a whole number"),
    ("reminders", ["--per_file", "0"], "--per_file: 0: must be a number from 1 to 10,000"),
    ("restaurants", ["--tasks", "6"], "--tasks: 6: must be a number from 1 to 5"),
    ("restaurants", ["--sizes", "train=x"], "--sizes: 'x' is not a size"),
    ("restaurants", ["--sizes", "training=5"], "--sizes: 'training' is not a split: must be one of train, dev, test,"),
    ("restaurants", ["--sizes", "0"], "--sizes: at least one size must be above 0"),
)
def test_mistakes(command, flags, message, tmp_path):
    assert message in refused_at_once(command, *flags, output=tmp_path / "out")


def test_the_corpus(reminders):
    services = services_by_name(read_root(reminders))
    for split, n in (("train", 40), ("test", 12)):
        typed = [one for file in sorted((reminders / split).glob("d*.json")) for one in read_dialogues(file)]
        assert [one.dialogue_id for one in typed] == [f"{split}_{i:05}" for i in range(n)]
        assert not [problem for one in typed for problem in problems_of(one, services)]
    numbers = json_of(reminders / "statistics.json")
    train = list(dialogues_of(reminders / "train").values())
    of = numbers["splits"]["train"]
    utterances = [turn["utterance"] for one in train for turn in one["turns"]]
    assert (of["dialogues"], of["turns"], of["different_utterances"]) == (40, len(utterances), len(set(utterances)))
    frames = [turn["frames"][0] for one in train for turn in one["turns"]]
    assert of["calls"] == sum("service_call" in frame for frame in frames)
    assert of["failed_calls"] == sum("service_call" in frame and not frame["service_results"] for frame in frames)
    assert train[0]["turns"][0]["utterance"] in (reminders / "report.html").read_text()
    assert "| train | 40 |" in (reminders / "README.md").read_text()
    counts = json_of(reminders / "run.json")["counts"]
    assert (counts["dialogues//train"], counts["dialogues//test"]) == (40, 12)
    assert counts["turns//train"] == len(utterances)


FIELDS = ("R_cuisine", "R_location", "R_number", "R_price")
SIMULATED = 1000 if THOROUGH else 300  # dialogues of each split, beside 1000 published ones
SIZES = {"train": 24, "dev": 8, "test": 8, "oov": 12}
FLAGS = ["--sizes", ",".join(f"{split}={n}" for split, n in SIZES.items()), "--babi_plus"]

HOTELS = """
domain = "hotel"
entity = "inn"
ratings = 5
extras = ["phone"]
[[fields]]
name = "area"
seen = ["north", "south", "east", "west", "centre"]
unseen = ["harbour", "hills", "island"]
[[fields]]
name = "room"
values = ["single", "double", "suite"]
"""


@pytest.fixture(scope="module")
def output(tmp_path_factory):
    return run("restaurants", *FLAGS, output=tmp_path_factory.mktemp("simulated") / "out").folder


def sets(folder):
    names = {(task, split): dialogues_name(task, split) for task in formats.TASKS for split in SPLITS}
    return {key: list(parse_dialogues((folder / name).read_bytes())) for key, name in names.items()}


def test_published_files(output):
    found = sets(output)
    candidates = parse_candidates((output / "dialog-babi-candidates.txt").read_bytes())
    facts = set(parse_facts((output / "dialog-babi-kb-all.txt").read_bytes()))
    assert (len(set(candidates)), len(candidates), len(facts)) == (4212, 4212, 8400)
    for (_, split), dialogues in found.items():
        assert len(dialogues) == SIZES[split]
        for dialogue in dialogues:
            assert {one.bot for one in dialogue.exchanges} <= set(candidates)
            assert set(dialogue.facts) <= facts
    # Who says what is the same with disfluencies, but for the user's words.
    plus = sets(output / "babi_plus")
    changed = Counter()
    for key, dialogues in found.items():
        for old, new in zip(dialogues, plus[key], strict=True):
            assert old.facts == new.facts
            for first, second in zip(old.exchanges, new.exchanges, strict=True):
                assert (first.bot, first.user == formats.SILENCE) == (second.bot, second.user == formats.SILENCE)
                changed[first.user == second.user] += first.user != formats.SILENCE
    assert 0.3 < changed[False] / changed.total() < 0.7
    for name in ("dialog-babi-candidates.txt", "dialog-babi-kb-all.txt"):
        assert (output / "babi_plus" / name).read_bytes() == (output / name).read_bytes()


def test_ambiguous_patterns(tmp_path):
    """Ambiguity that the patterns alone do not show is found by the rule-based bot; nothing is published."""
    confusing = HOTELS + '[patterns.user]\nrequest = ["i need a hotel", "i need a hotel whose room is single"]\n'
    flags = {"ontology": write(tmp_path / "hotels.toml", confusing), "tasks": 1, "sizes": 300, "formats": "babi"}
    message = refused("restaurants", **flags, output=tmp_path / "out", status=1)
    assert not lacking(message, "the rule-based bot does not find", "check whether two patterns are ambiguous")
    assert not list((tmp_path / "out").glob("*.txt"))


def test_the_published_structure(real_data):
    """Tasks 1 and 4 beside the published files: equal where it is determined, near where it is drawn."""
    world = World(default_ontology(), "0")
    published = read_values(parse_facts((real_data / "babi" / formats.FACTS).read_bytes()))
    own = read_values(knowledge_base(world))
    for task in (1, 4):
        theirs, ours, wordings = Counter(), Counter(), (set(), set())
        for split, short in SPLITS.items():
            path = real_data / "babi" / f"dialog-babi-task{task}{short}.txt"
            dialogues = list(parse_dialogues(path.read_bytes(), path))
            drawn = (simulating.simulate(world, task, split, number) for number in range(SIMULATED))
            simulated = [formats.BabiDialogue(tuple(lines_of(world, one))) for one in drawn]
            assert len({one.lines for one in simulated}) == SIMULATED
            theirs.update(shape(one, published) for one in dialogues)
            ours.update(shape(one, own) for one in simulated)
            wordings[0].update(wording for one in dialogues for wording in wordings_of(one, published))
            wordings[1].update(wording for one in simulated for wording in wordings_of(one, own))
        assert set(ours) == set(theirs)  # task 1: four to eight lines, two silences; task 4: three or four, seven facts
        assert len(ours) == {1: 16, 4: 4}[task]  # which fields are given; what is asked about, in which order
        for key, n in theirs.items():
            their_share, own_share = n / 4000, ours[key] / (4 * SIMULATED)
            p = (n + ours[key]) / (4000 + 4 * SIMULATED)
            assert abs(their_share - own_share) < 4 * (p * (1 - p) * (1 / 4000 + 1 / (4 * SIMULATED))) ** 0.5
        # Greetings, answers and questions have as many wordings; what a request says is put together of phrases.
        assert len(wordings[0]) == len(wordings[1]) == {1: 13, 4: 9}[task]
        for column, name in (("exchanges", "bot"), ("silences", "silences"), ("facts", "results")):
            mean = sum(n * getattr(key, column) for key, n in theirs.items()) / 4000
            assert mean == pytest.approx(PUBLISHED[task][name], abs=0.005)


class Shape(NamedTuple):
    """Exchanges, silences and facts; and which fields the request has, sorted, or what is asked about, in order."""

    exchanges: int
    silences: int
    facts: int
    what: tuple[str, ...]


def read_values(facts):
    """Each value of a field to the field."""
    return {one.value: one.relation for one in facts if one.relation in FIELDS}


def shape(dialogue, fields):
    exchanges = dialogue.exchanges
    what = tuple(sorted(fields[word] for word in exchanges[1].user.split() if word in fields))
    if dialogue.facts:
        what = tuple([one.bot.rpartition("_")[2] for one in exchanges[2:]])
    return Shape(len(exchanges), sum(one.user == formats.SILENCE for one in exchanges), len(dialogue.facts), what)


def wordings_of(dialogue, fields):
    """What the user says, but for the request, with the field in place of a value."""
    users = [one.user for i, one in enumerate(dialogue.exchanges) if i != 1 and one.user != formats.SILENCE]
    return [" ".join(fields.get(word, word) for word in user.split()) for user in users]


def test_more_dialogues_another_seed_another_domain(output, tmp_path):
    """What is there stays as the sets grow; a seed changes it; hotels are simulated as restaurants are."""
    hotels = write(tmp_path / "hotels.toml", HOTELS)
    flags = {"ontology": hotels, "tasks": 5, "sizes": 30, "formats": "babi", "seed": "x"}
    out = run("restaurants", **flags, output=tmp_path / "out").folder
    others = ["dialog-babi-candidates.txt", "dialog-babi-kb-all.txt"]
    names = [*(dialogues_name(5, split) for split in SPLITS), *others]
    assert sorted(path.name for path in out.glob("*.txt")) == sorted(names)
    assert not (out / "sgd").exists()
    (first, *_) = parse_dialogues((out / dialogues_name(5, "oov")).read_bytes())
    assert all(fact.value.split("_")[0] in ("inn", "harbour", "hills", "island", "single", "double", "suite", *"12345")
               for fact in first.facts)  # fmt: skip
    world = World(default_ontology(), "0")
    ids = [simulating.simulate(world, 1, "train", number).dialogue_id for number in range(3)]
    assert [one["dialogue_id"] for one in json_of(output / "sgd" / "task1" / "train" / "dialogues_001.json")[:3]] == ids
    other = World(default_ontology(), "1")
    assert simulating.simulate(world, 5, "dev", 0) != simulating.simulate(other, 5, "dev", 0)


CHEAP = f"""\
1 <SILENCE>\t{WELCOME}
2 breath im looking for a cheap restaurant that serves tuscan food\tapi_call tuscan R_location cheap
3 api_call no result
4 <SILENCE>\tSorry there is no tuscan restaurant in the cheap price range
5 chinese food\tWhat part of town do you have in mind?
6 any part of town noise\tapi_call chinese R_location cheap
7 golden_wok R_cuisine chinese
8 golden_wok R_location north
9 golden_wok R_price cheap
10 golden_wok R_rating 9
11 the_lucky_star R_cuisine chinese
12 the_lucky_star R_location south
13 the_lucky_star R_phone the_lucky_star_phone
14 the_lucky_star R_price cheap
15 the_lucky_star R_rating 10
16 <SILENCE>\tthe_lucky_star is a nice restaurant in the south of town serving chinese food
17 anything else\tgolden_wok serves chinese food in the cheap price range
18 whats the phone number of the_lucky_star\tThe phone number of the_lucky_star is the_lucky_star_phone
19 <SILENCE>\tCan I help you with anything else?
20 thank you good bye\tyou are welcome

"""
ASIAN = f"""\
1 <SILENCE>\t{WELCOME}
2 how about asian_oriental type of food\tapi_call asian_oriental R_location R_price
3 saigon_city R_cuisine asian_oriental
4 saigon_city R_location north
5 saigon_city R_rating 10
6 <SILENCE>\tsaigon_city is a nice place in the north of town serving tasty asian_oriental food
7 thank you\tyou are welcome

"""


def convert(root, out, *flags, status=0):
    return run("babi_task6", *flags, logs=root, output=out, status=status)


def babi(out, name):
    return (out / f"dialog-babi-task6-dstc2-{name}.txt").read_text()


@pytest.fixture(scope="module")
def calls(tmp_path_factory):
    """Four calls."""
    folder = tmp_path_factory.mktemp("logs")
    splits = {"train": ["Mar13_S0A0/voip-2", "Mar13_S0A0/voip-1"], "dev": ["Mar13_S1A0/voip-3"]}
    splits["test"] = ["Mar13_S2A0/voip-4"]
    for name in ("Mar13_S0A0/voip-1", "Mar13_S2A0/voip-4"):
        cheap_chinese(folder, name)
    for name in ("Mar13_S0A0/voip-2", "Mar13_S1A0/voip-3"):
        asian_oriental(folder, name)
    write_lists(folder, **splits)
    return folder


@pytest.fixture(scope="module")
def converted(calls, tmp_path_factory):
    out = tmp_path_factory.mktemp("task6") / "out"
    convert(calls, out)
    return out


def test_the_files_of_task_6(converted):
    assert (babi(converted, "trn"), babi(converted, "dev"), babi(converted, "tst")) == (ASIAN + CHEAP, ASIAN, CHEAP)
    bot = [line.partition("\t")[2] for line in (ASIAN + CHEAP).splitlines() if "\t" in line]
    assert babi(converted, "candidates") == "".join(f"1 {text}\n" for text in sorted(set(bot)))
    facts = [line.partition(" ")[2] for line in (ASIAN + CHEAP).splitlines() if " R_" in line and "\t" not in line]
    known = {f"1 {fact}" for fact in facts if "R_rating" not in fact}
    assert sorted(babi(converted, "kb").splitlines()) == sorted(known)
    assert (converted / "dead_letters.jsonl").read_bytes() == b""
    assert "<script" not in (converted / "report.html").read_text()


def test_the_sgd_layout(converted):
    services = services_by_name(read_root(converted / "sgd"))
    assert list(services) == ["Restaurants_dstc2"]
    for path in sorted((converted / "sgd").rglob("dialogues_*.json")):
        for dialogue in read_dialogues(path):
            assert not list(problems_of(dialogue, services))
            assert [turn.speaker for turn in dialogue.turns[:2]] == ["USER", "SYSTEM"]
    one = next(iter(dialogues_of(converted / "sgd" / "test").values()))
    assert one["dialogue_id"] == "Mar13_S2A0/voip-4"
    frames = [turn["frames"][0] for turn in one["turns"]]
    assert frames[0]["state"]["slot_values"] == {"food": ["tuscan"], "pricerange": ["cheap"]}
    asked = {"food": "tuscan", "pricerange": "cheap"}
    assert frames[1]["service_call"] == {"method": "FindRestaurants", "parameters": asked}
    assert frames[1]["service_results"] == []
    # "any part of town": this=dontcare is about what the system asked for.
    assert frames[4]["actions"][0] == act("INFORM", "area", "dontcare")
    rated = [(found["name"], found["rating"]) for found in frames[5]["service_results"]]
    assert rated == [("golden wok", "9"), ("the lucky star", "10")]
    assert frames[8]["state"]["requested_slots"] == ["phone"]
    assert [frame["state"]["active_intent"] for frame in frames[::2]][-2:] == ["FindRestaurants", "NONE"]
    spans = [(turn["utterance"], span) for turn in one["turns"] for span in turn["frames"][0]["slots"]]
    said = {(span["slot"], text[span["start"] : span["exclusive_end"]]) for text, span in spans}
    assert said >= {("food", "tuscan"), ("pricerange", "cheap"), ("name", "the lucky star"), ("phone", "01223 244277")}


REASONS = {
    "no_label": "missing", "broken": "not_json", "latin": "not_json", "short": "mismatch", "other": "mismatch",
    "odd": "not_dstc2", "slot": "unknown_slot",
}  # fmt: skip


def test_broken_calls(tmp_path):
    """Each is a dead letter with its reason, and the others are written; without --max_bad nothing is."""
    folder, good = tmp_path / "logs", "Mar13_S0A0/voip-good"
    asian_oriental(folder, good)
    asian_oriental(tmp_path / "elsewhere", "outside")
    of = {name: asian_oriental(folder, f"a/{name}") for name in REASONS}
    (of["no_label"] / "label.json").unlink()
    write(of["broken"] / "log.json", '{"turns": [')
    write(of["latin"] / "log.json", b'{"session-id": "\xe9"}')
    edit(of["short"] / "label.json", lambda label: label.update(turns=label["turns"][:-1]))
    edit(of["other"] / "label.json", lambda label: label.update({"session-id": "x"}))
    edit(of["odd"] / "log.json", lambda log: log["turns"][1]["output"].__delitem__("transcript"))
    edit(of["slot"] / "label.json", lambda label: label["turns"][0]["goal-labels"].update({"<b>": "x"}))
    reasons = {f"a/{name}": reason for name, reason in REASONS.items()}
    reasons |= {"a/nowhere": "missing", "../../elsewhere/data/outside": "bad_path", "/etc": "bad_path"}
    write_lists(folder, train=["a/no_label", good, *list(reasons)[1:]], test=[])
    told = convert(folder, tmp_path / "out", status=1).errors
    assert "10 of 11 calls of train could not be converted, more than --max_bad 1%" in told
    assert not (tmp_path / "out" / "run.json").exists()
    made = convert(folder, tmp_path / "out", "--max_bad", "100%")
    letters = made.dead_letters
    assert {letter["file"]: letter["reason"].partition(":")[0] for letter in letters} == reasons
    assert [letter["where"] for letter in letters if letter["file"] == "a/odd"] == ["log.json: turns[1].output"]
    assert (babi(tmp_path / "out", "trn"), babi(tmp_path / "out", "tst")) == (ASIAN, "")
    counts = made.manifest["counts"]
    assert (counts["calls//train"], counts["dialogues//train"], counts["left_out//train"]) == (11, 1, 10)


def test_what_cannot_work(calls, tmp_path):
    """Told before anything runs, with status 2."""

    def message(folder, *flags):
        return convert(folder, tmp_path / "out", *flags, status=2).errors

    (tmp_path / "empty").mkdir()
    assert "contains no lists of calls: expected scripts/config/dstc2_train.flist" in message(tmp_path / "empty")
    write_lists(tmp_path / "twice", train=["a/b"], test=["a/b"])
    assert "'a/b' is listed twice" in message(tmp_path / "twice")
    write_lists(tmp_path / "none", train=[])
    assert "the lists name no calls" in message(tmp_path / "none")
    (tmp_path / "none/scripts/config/ontology_dstc2.json").unlink()
    write(tmp_path / "none/scripts/config/dstc2_train.flist", "a/b\n")
    assert "contains no ontology" in message(tmp_path / "none")
    kb = write(tmp_path / "kb.txt", "1 ask R_cuisine italian\n1 ask R_cuisine\n")
    assert "line 2: is not a fact" in message(calls, "--kb", kb)
