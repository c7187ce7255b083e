"""``parapet restaurants`` as a person runs it: the published files, the corpora, the numbers, any sharding."""

from collections import Counter
from typing import NamedTuple

import pytest
from kit import THOROUGH, cases, json_of, lacking, refused, run, write

from parapet.transforms.simulators import restaurants_simulation as simulating
from parapet.transforms.simulators.formats import (
    FACTS,
    SILENCE,
    SPLITS,
    TASKS,
    BabiDialogue,
    dialogues_name,
    parse_candidates,
    parse_dialogues,
    parse_facts,
)
from parapet.transforms.simulators.restaurants_corpus import PUBLISHED
from parapet.transforms.simulators.restaurants_simulation import World, default_ontology, knowledge_base, lines_of

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
    names = {(task, split): dialogues_name(task, split) for task in TASKS for split in SPLITS}
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
                assert (first.bot, first.user == SILENCE) == (second.bot, second.user == SILENCE)
                changed[first.user == second.user] += first.user != SILENCE
    assert 0.3 < changed[False] / changed.total() < 0.7
    for name in ("dialog-babi-candidates.txt", "dialog-babi-kb-all.txt"):
        assert (output / "babi_plus" / name).read_bytes() == (output / name).read_bytes()


@cases(
    "flags message",
    (["--tasks", "6"], "--tasks: 6: must be a number from 1 to 5"),
    (["--sizes", "train=x"], "--sizes: 'x' is not a size"),
    (["--sizes", "training=5"], "--sizes: 'training' is not a split: must be one of train, dev, test, oov"),
    (["--sizes", "0"], "--sizes: at least one size must be above 0"),
)
def test_bad_flags(flags, message, tmp_path):
    assert message in refused("restaurants", *flags, output=tmp_path / "out")
    assert not (tmp_path / "out").exists()


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
    published = read_values(parse_facts((real_data / "babi" / FACTS).read_bytes()))
    own = read_values(knowledge_base(world))
    for task in (1, 4):
        theirs = Counter()
        ours = Counter()
        wordings = set(), set()
        for split, short in SPLITS.items():
            path = real_data / "babi" / f"dialog-babi-task{task}{short}.txt"
            dialogues = list(parse_dialogues(path.read_bytes(), path))
            simulated = [
                BabiDialogue(tuple(lines_of(world, simulating.simulate(world, task, split, number))))
                for number in range(SIMULATED)
            ]
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
    return Shape(len(exchanges), sum(one.user == SILENCE for one in exchanges), len(dialogue.facts), what)


def wordings_of(dialogue, fields):
    """What the user says, but for the request, with the field in place of a value."""
    users = [one.user for i, one in enumerate(dialogue.exchanges) if i != 1 and one.user != SILENCE]
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
