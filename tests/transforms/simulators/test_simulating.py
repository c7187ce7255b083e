"""Dialogues of the five tasks, read as they are written, against paper and published figures; the rule-based bot."""

import itertools
import re
import tomllib
from collections import Counter

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from kit import cases, raised

from parapet.schemas.dialogue import Dialogue, problems_of
from parapet.schemas.errors import InputError
from parapet.schemas.service import parse_service
from parapet.transforms.simulators import formats
from parapet.transforms.simulators import restaurants_simulation as simulating
from parapet.transforms.simulators.formats import SILENCE, Exchange, Fact, dialogue_text, parse_dialogues
from parapet.transforms.simulators.restaurants_bot import Bot, Rules, answered, solve
from parapet.transforms.simulators.restaurants_corpus import schema, sgd_dialogue
from parapet.transforms.simulators.restaurants_simulation import KINDS, RATES, TASKS, disfluent, simulate

WORLD = simulating.World(simulating.default_ontology(), "0")
RULES = Rules(WORLD.ontology)
SERVICES = {one["service_name"]: parse_service(one) for one in schema(WORLD.ontology)}
FIELDS = ("cuisine", "location", "number", "price")
VALUES = {name: {request[i] for request in WORLD.of_request} for i, name in enumerate(FIELDS)}

# What is done as a letter, the user's small, F for facts; a task is a regular expression over them.
LETTERS = {"greet": "g", "request": "r", "update": "u", "no_more": "n", "reject": "x", "accept": "y", "thank": "t"}
LETTERS["decline"] = "d"
BOT_LETTERS = {
    **{"greet": "G", "acknowledge": "A", "search": "S", "updated": "U", "another": "N", "reserve": "R"},
    **{"anything_else": "E", "farewell": "B"},
    **{f"ask.{name}": "K" for name in FIELDS},
}
SHAPES = {
    1: "gGrA(Ka){0,4}SC",
    2: "gGrASC(uU){1,4}nSCtB",
    3: "FgGrA(Ka){0,4}SO(xNO)*yR",
    4: "FgGrR(qI){1,2}",
    5: "gGrA(Ka){1,3}SC(uU){1,3}nSCFO(xNO)*yR(qI){1,2}tEdB",
}

some = st.tuples(st.sampled_from(TASKS), st.sampled_from(simulating.SPLITS), st.integers(0, 10**6))


def read(simulated, world=WORLD):
    (dialogue,) = parse_dialogues(dialogue_text(simulating.lines_of(world, simulated)).encode())
    return dialogue


def user_letter(text):
    heads = {letter for act, letter in LETTERS.items() if text.startswith(WORLD.user_ways[act])}
    questions = [way for act, ways in WORLD.user_ways.items() if act.startswith("question.") for way in ways]
    (found,) = heads or {"q" if text in questions else "a"}
    return found


def bot_letter(text):
    begin = (("api_call ", "C"), ("how about this place: ", "O"), ("the number is", "I"), ("you find", "I"))
    for begins, letter in begin:
        if text.startswith(begins):
            return letter
    (found,) = {letter for act, letter in BOT_LETTERS.items() if WORLD.bot_texts[act] == text}
    return found


def steps(dialogue):
    """(letter, text) of all that is said without the silences; facts one behind the other are one step."""
    found = []
    for line in dialogue.lines:
        if isinstance(line, Fact):
            found += [("F", "")] if not found or found[-1][0] != "F" else []
            continue
        if line.user != SILENCE:
            found.append((user_letter(line.user), line.user))
        found.append((bot_letter(line.bot), line.bot))
    return found


def values_in(text):
    """By its words alone, which of all values of the ontology a text says."""
    return {name: word for word in text.split() for name, values in VALUES.items() if word in values}


@given(some)
def test_a_dialogue_is_as_the_paper_has_it(which):
    task, split, number = which
    simulated = simulate(WORLD, task, split, number)
    dialogue = read(simulated)
    said = steps(dialogue)
    shape = "".join(letter for letter, _ in said)
    assert re.fullmatch(SHAPES[task], shape), shape
    facts = {}
    for fact in dialogue.facts:
        facts.setdefault(fact.entity, {})[fact.relation] = fact.value
    if task != 4:
        check_calls(simulated, said)
    if task in (3, 5):
        check_options(said, facts, simulated)
    if task in (4, 5):
        check_answers(said, facts)
    for request in simulated.requests:
        assert WORLD.of_request[request] == split
    for entity, of in facts.items():
        assert entity in {one.name for one in WORLD.parts[split].entities}
        assert tuple(of) == ("R_phone", "R_cuisine", "R_address", "R_location", "R_number", "R_price", "R_rating")


def check_calls(simulated, said):
    """Questions for what is missing, in order; each call has what was wished by then; updates change a field each."""
    wish = {}
    changed = []
    calls = []
    for letter, text in said:
        if letter == "K":
            asked = next(name for name in FIELDS if name not in wish)
            assert text == WORLD.bot_texts[f"ask.{asked}"]
        elif letter in "rau":
            values = values_in(text)
            assert letter == "r" or len(values) == 1
            if letter == "u":
                (name,) = values
                assert values[name] != wish[name]
                changed.append(name)
            wish |= values
        elif letter == "C":
            assert text == " ".join(("api_call", *(wish[name] for name in FIELDS)))
            calls.append(tuple(text.split()[1:]))
    assert (len(set(changed)), simulated.requests[-1]) == (len(changed), tuple(wish[name] for name in FIELDS))
    assert tuple(calls) in (simulated.requests, ())


def check_options(said, facts, simulated):
    """All that the request finds is listed; the best rated are offered first; the last is always accepted."""
    assert sorted(facts) == sorted(one.name for one in WORLD.found[simulated.requests[-1]])
    assert len(facts) >= 3
    offered = [text.split()[-1] for letter, text in said if letter == "O"]
    assert offered == sorted(facts, key=lambda name: -int(facts[name]["R_rating"]))[: len(offered)]


def check_answers(said, facts):
    """Phone and address of what was reserved, each asked for once."""
    reserved = [text for letter, text in said if letter in "rO" and "resto_" in text][-1].split()[-1]
    asked = []
    for (letter, question), (_, answer) in itertools.pairwise(said):
        if letter == "q":
            extra = "phone" if question in WORLD.user_ways["question.phone"] else "address"
            asked.append(extra)
            assert answer == WORLD.bot_texts[f"give.{extra}"].replace(f"{{{extra}}}", facts[reserved][f"R_{extra}"])
    assert len(set(asked)) == len(asked)


@given(some)
def test_in_the_sgd_layout(which):
    """Turns alternate and hold nothing strange; what is said and called is what the published lines have."""
    task, split, number = which
    plain = simulate(WORLD, task, split, number)
    for simulated in (plain, disfluent(WORLD, plain, split)):
        dialogue = msgspec.convert(sgd_dialogue(WORLD, simulated), Dialogue)
        assert not list(problems_of(dialogue, SERVICES))
        assert [turn.speaker for turn in dialogue.turns] == ["USER", "SYSTEM"] * (len(dialogue.turns) // 2)
        lines = read(simulated).exchanges
        users = [turn.utterance for turn in dialogue.turns if turn.speaker == "USER"]
        assert users == [line.user for line in lines if line.user != SILENCE]
        spoken = " ".join(turn.utterance for turn in dialogue.turns if turn.speaker == "SYSTEM")
        assert spoken == " ".join(line.bot for line in lines if not line.bot.startswith("api_call"))
        frames = [(turn.utterance, turn.frames[0]) for turn in dialogue.turns]
        for utterance, frame in frames:
            check_spans(utterance, frame)
        check_service_calls([frame for _, frame in frames], simulated, task)
        state = next(frame.state for _, frame in reversed(frames) if isinstance(frame.state, msgspec.Struct))
        if task != 4:
            wish = {name: [value] for name, value in zip(FIELDS, simulated.requests[-1], strict=True)}
            assert {name: value for name, value in state.slot_values.items() if name != "name"} == wish


def check_spans(utterance, frame):
    """Each value that an act has stands where its span says; numbers and prices are categorical, and have none."""
    spans = {span.slot: utterance[span.start : span.exclusive_end] for span in frame.slots}
    acts = {act.slot: act.values[0] for act in frame.actions if act.values and act.slot != "intent"}
    assert spans == {slot: value for slot, value in acts.items() if slot not in ("number", "price")}
    assert all(value in utterance.split() for value in acts.values())


def check_service_calls(frames, simulated, task):
    calls = [(one.service_call, one.service_results) for one in frames if one.service_call]
    found = [(one.method, len(results)) for one, results in calls]
    listed = max(len(one.results) for one in simulated.pairs)
    search, listing, reserve = ("FindRestaurant", 0), ("FindRestaurant", listed), ("ReserveRestaurant", 1)
    expected = {1: [search], 2: [search] * 2, 3: [listing, reserve], 4: [reserve], 5: [search, listing, reserve]}
    assert found == expected[task]
    wishes = [tuple(one.parameters[name] for name in FIELDS) for one, _ in calls if one.method == "FindRestaurant"]
    assert tuple(wishes) == (() if task == 4 else simulated.requests)
    if task > 2:
        last, (booked,) = calls[-1]
        assert (booked["name"], booked["phone"]) == (last.parameters["name"], f"{booked['name']}_phone")


@given(some)
def test_the_bot_of_rules_solves_all(which):
    dialogue = read(simulate(WORLD, *which))
    assert solve(RULES, dialogue) == [True] * len(dialogue.exchanges)


def test_the_bot_of_rules_solves_dialogues_in_the_words_of_the_published_files():
    world = simulating.World(simulating.read_ontology(simulating.babi_ontology(), "babi.toml"), "0")
    rules = Rules(world.ontology)
    for which in itertools.product(TASKS, simulating.SPLITS, range(30)):
        assert all(solve(rules, read(simulate(world, *which), world))), which


@given(some)
def test_disfluencies_keep_what_is_meant(which):
    task, split, number = which
    plain = simulate(WORLD, task, split, number)
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(simulating, "RATES", dict.fromkeys(KINDS, 1.0))
        found = disfluent(WORLD, plain, split)
        assert found == disfluent(WORLD, plain, split)
    for old, new in zip(plain.pairs, found.pairs, strict=True):
        assert (new.bot, new.results, new.user is None) == (old.bot, old.results, old.user is None)
        if old.user and new.user:
            assert (new.user.act, new.user.values) == (old.user.act, old.user.values)
            words = iter(new.user.line.utterance.split())
            assert all(word in words for word in old.user.line.utterance.split())  # in order, others between
            assert new.user.line.utterance == " ".join(new.user.line.utterance.split())
            assert new.user.line.utterance != old.user.line.utterance


def test_disfluencies_come_at_their_rates():
    counts = Counter()
    for task in TASKS:
        for number in range(150):
            for pair in disfluent(WORLD, simulate(WORLD, task, "train", number), "train").pairs:
                if pair.user:
                    text = f" {pair.user.line.utterance} "
                    kinds = [kind for kind in KINDS if any(f" {words} " in text for words in simulating._words()[kind])]
                    counts.update(["turns", *kinds])
    for kind, rate in RATES.items():
        assert abs(counts[kind] / counts["turns"] - rate) < 0.03, kind


def test_splits_share_no_request_and_the_unseen_values_are_in_no_other():
    seen = {split: set() for split in simulating.SPLITS}
    for split, task, number in itertools.product(simulating.SPLITS, TASKS, range(20)):
        dialogue = simulate(WORLD, task, split, number)
        seen[split].update(("request", request) for request in dialogue.requests)
        for pair in dialogue.pairs:
            for utterance in filter(None, (pair.user, pair.bot)):
                seen[split].update(utterance.values.items())
            for entity in pair.results:
                seen[split].update(WORLD.facts(entity).items())
    for first, second in itertools.combinations(simulating.SPLITS, 2):
        assert not [kind for kind, _ in seen[first] & seen[second] if kind == "request"]
    shared = {kind for split in ("train", "dev", "test") for kind, _ in seen[split] & seen["oov"]}
    assert shared == {"number", "price", "rating"}


@cases("task size", (1, 3000), (4, 3000), (2, 1000), (3, 1000), (5, 500))
def test_no_dialogue_repeats_another(task, size):
    """As many as the test of another seed has; of task 4 there are 1,800 beginnings, so that some begin alike."""
    world = simulating.World(WORLD.ontology, "1")
    texts = (dialogue_text(simulating.lines_of(world, simulate(world, task, "test", number))) for number in range(size))
    assert len(set(texts)) == size


def choices_in(task, dialogue):
    """The outcomes of a dialogue's random choices."""
    acts = Counter(pair.user.act for pair in dialogue.pairs if pair.user)
    if task != 4:
        (request,) = (pair.user for pair in dialogue.pairs if pair.user and pair.user.act == "request")
        yield "given", len(request.line.spans)
    if task in (2, 5):
        yield "updates", acts["update"]
    if task in (3, 5):
        options = max(len(pair.results) for pair in dialogue.pairs)
        yield from [("accepted", False)] * acts["reject"]
        if acts["reject"] + 1 < options:  # the last one is always accepted
            yield "accepted", True
        if task == 3:
            yield "offered", options
    if task in (4, 5):
        yield "asked", tuple(extra for extra in WORLD.ontology.extras if acts[f"question.{extra}"])


def probabilities(task):
    """The probabilities of the outcomes of a task's random choices in training, from the settings of the world."""
    ontology, extras = WORLD.ontology, WORLD.ontology.extras
    shares = {}
    ranges = {"given": ontology.given_in(task)} if task != 4 else {}
    ranges |= {"updates": ontology.updates_in(task)} if task in (2, 5) else {}
    for choice, (least, most) in ranges.items():
        shares |= {(choice, n): 1 / (most - least + 1) for n in range(least, most + 1)}
    if task == 3:
        options = WORLD.parts["train"].options
        total = sum(share for _, share in options)
        shares |= {("offered", len(WORLD.found[requests[0]])): share / total for requests, share in options}
    if task in (3, 5):
        shares |= {("accepted", True): simulating.ACCEPTED, ("accepted", False): 1 - simulating.ACCEPTED}
    if task in (4, 5):
        single = (1 - simulating.ALL_EXTRAS) / len(extras)
        shares |= {("asked", (extra,)): single for extra in extras} | {("asked", extras): simulating.ALL_EXTRAS}
    return shares


@cases("task", *TASKS)
def test_what_is_drawn_is_drawn_as_often_as_it_should(task):
    """Beyond 4 standard errors one share in 16,000 would lie."""
    counts = Counter()
    for number in range(1500):
        counts.update(choices_in(task, simulate(WORLD, task, "train", number)))
    expected = probabilities(task)
    assert counts.keys() == expected.keys()
    for (choice, outcome), share in expected.items():
        total = sum(n for (name, _), n in counts.items() if name == choice)
        assert abs(counts[choice, outcome] - total * share) <= 4 * (total * share * (1 - share)) ** 0.5, choice


def test_the_bot_of_rules_is_told_the_right_answers():
    """A wrong answer of its own does not go on; what it does not understand it guesses, and says so."""
    lines = list(read(simulate(WORLD, 1, "train", 3)).lines)
    strange = Exchange("what do you mean", lines[1].bot)
    bot = Bot(RULES)
    pairs = list(answered(bot, formats.BabiDialogue((lines[0], strange, *lines[2:]))))
    assert bot.not_understood == 1
    assert [answer for _, answer in pairs[:2]] == [lines[0].bot, lines[1].bot]  # a request, it guesses; of no field
    for strange in ("i need a table under the sea", "i need a tableau"):
        assert not RULES.understand(strange, "greet").understood
    # Its own words are of another domain's patterns as well: it knows no values.
    assert RULES.understand("i need a table somewhere in atlantis", "") == ("request", {"location": "atlantis"}, True)


# Ontologies.


HOTELS = """
domain = "hotel"
entity = "inn"
ratings = 5
extras = ["phone", "check_in"]

[[fields]]
name = "area"
seen = ["north", "south", "köln", "west"]
unseen = ["harbour", "hills", "island"]

[[fields]]
name = "room_type"
values = ["single", "double", "suite"]

[[fields]]
name = "nights"
values = ["1", "2", "3"]
one_each = true

[patterns.user]
thank = ["cheers"]

[patterns.user.phrase]
area = ["in the {area} part"]

[patterns.bot]
reserve = "the room is yours"
"""


def hotels(change=None):
    given = tomllib.loads(HOTELS)
    if change:
        change(given)
    return simulating.parse_ontology(given, "hotels.toml")


def test_the_paper_s_sizes():
    world = simulating.World(simulating.default_ontology(), "0")
    assert [len(half) for half in world.halves] == [600, 600]
    facts = list(simulating.knowledge_base(world))
    assert len(set(facts)) == len(facts) == 8400
    texts = simulating.candidates(world)
    kinds = [text.startswith(("api_call", "how about", "the number is", "you find it at")) for text in texts]
    assert (len(set(texts)), kinds.count(False)) == (4212, 12)
    assert sum(text.startswith("api_call") for text in texts) == 600
    patterns = simulating.default_ontology().patterns
    assert (sum(map(len, patterns.user_ways().values())), len(patterns.bot_texts(()))) == (43, 20)
    assert max(map(len, simulating.default_ontology().patterns.user_ways().values())) == 4
    for name, position in (("cuisine", 0), ("location", 1)):
        halves = [{entity.request[position] for entity in half} for half in world.halves]
        assert [len(half) for half in halves] == [5, 5]
        assert not halves[0] & halves[1], name
    assert {entity.request[2] for half in world.halves for entity in half} == {"two", "four", "six", "eight"}
    relations = [fact.relation for fact in simulating.dialogue_facts(world, world.halves[0][0])]
    assert relations == ["R_phone", "R_cuisine", "R_address", "R_location", "R_number", "R_price", "R_rating"]
    assert {fact.relation: fact.value for fact in facts[:7]} == {
        **{"R_cuisine": "greek", "R_location": "athens", "R_price": "cheap", "R_rating": "1"},
        **{f"R_{extra}": f"resto_athens_cheap_greek_1stars_{extra}" for extra in ("phone", "address")},
        "R_number": world.halves[0][0].request[2],
    }
    assert [fact.relation for fact in facts[4:7]] == ["R_phone", "R_address", "R_number"]


def test_numbers_of_fields_and_options():
    restaurants = simulating.default_ontology()
    assert restaurants.shares == [(3, 0.73), (4, 0.2), (5, 0.07)]
    assert [restaurants.given_in(task) for task in (1, 2, 3, 5)] == [(0, 4), (4, 4), (0, 4), (1, 3)]
    assert [hotels().updates_in(task) for task in (2, 5)] == [(1, 3), (1, 2)]
    world = simulating.World(hotels(put("options", {"7": 1})), "0")
    too_few = r"x\.toml: options: no request of train finds 7 of the knowledge base: give other"
    raised(InputError, simulating.check_world, world, [3], ["train"], "x.toml", match=too_few)
    simulating.check_world(world, [1, 2, 4, 5], ["train"], "x.toml")


def test_too_few_values():
    fields = [{"name": "area", "seen": ["a", "b"], "unseen": ["c", "d"]}]
    small = {"domain": "inn", "entity": "inn", "ratings": 2, "extras": ["phone"], "fields": fields}
    world = simulating.World(simulating.parse_ontology(small, "small.toml"), "0")
    too_few = r"small\.toml: too few values: dev has too few requests"
    raised(InputError, simulating.check_world, world, [1], simulating.SPLITS, "small.toml", match=too_few)
    too_few = "no request of train finds 3 or more"
    raised(InputError, simulating.check_world, world, [3], ["train"], "small.toml", match=too_few)
    simulating.check_world(world, [1, 2, 4], ["train"], "small.toml")
    too_few = "no two requests of train differ in 1 of the fields; give fields more values"
    raised(InputError, simulate, world, 2, "train", 0, match=too_few)


def put(*path):
    *way, key, value = path

    def change(given):
        for step in way:
            given = given.setdefault(step, {}) if isinstance(given, dict) else given[step]
        if value is None:
            del given[key]
        else:
            given[key] = value

    return change


@cases(
        "change message",
        (put("fields", 0, "seen", ["north"]), "fields[0].seen: area: has 1 values, but needs at least two"),
        (put("fields", 1, "values", ["1", "two"]), "fields[2].values[0]: '1' appears twice: see fields[1].values[0]"),
        (put("fields", 0, "seen", ["north", "far east"]), "fields[0].seen[1]: 'far east' contains a space, a tab or"),
        (put("fields", 0, "seen", ["north", "far_east"]), "fields[0].seen[1]: 'far_east' contains _"),
        (put("fields", 0, "values", ["a", "b"]), "fields[0]: area: must have either values, or seen and unseen"),
        (put("fields", 1, "name", "rating"), "fields[1].name: 'rating' is reserved"),
        (put("fields", 1, "one_eech", True), "fields[1]: Object contains unknown field `one_eech`"),
        (put("extras", ["area"]), "extras[0]: 'area' appears twice"),
        (put("domain", "guest house"), "domain: Expected `str` matching regex"),
        (put("name", ["area"]), "name: must contain each field without one_each once: area, room_type"),
        (put("patterns", "user", "phrase", "are", []), "patterns.user.phrase.are: unknown key: must be one of area,"),
        (put("patterns", "user", "thank", ["to {name}"]), "patterns.user.thank: 'to {name}' must have no {gap}"),
        (put("patterns", "user", "thank", ["a\tb"]), "patterns.user.thank: 'a\\tb' must be a single line"),
        (put("patterns", "bot", "option", "this one"), "patterns.bot.option: 'this one' must have {name}, once"),
)  # fmt: skip
def test_bad_ontologies(change, message):
    error = raised(InputError, hotels, change)
    assert message in str(error)
    assert str(error).startswith("hotels.toml")


@cases("data", b"domain = ", b"\xff", b"[" * 5000)
def test_no_toml(data):
    said = r"hotels\.toml: (not TOML|not UTF-8|TOML nested)"
    raised(InputError, simulating.read_ontology, data, "hotels.toml", match=said)


def test_all_must_not_be_shared():
    raised(InputError, hotels, lambda given: given["fields"].pop(0), match="no field has unseen values")
