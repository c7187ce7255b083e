"""Ontologies: the paper's sizes, other domains, and errors with their places."""

import copy
import tomllib

import pytest
from kit import cases, raised

from parapet.schemas.errors import InputError
from parapet.transforms.simulators import restaurants_simulation
from parapet.transforms.simulators.restaurants_simulation import default_ontology, parse_ontology

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
    return parse_ontology(given, "hotels.toml")


def test_the_paper_s_sizes():
    world = restaurants_simulation.World(default_ontology(), "0")
    assert [len(half) for half in world.halves] == [600, 600]
    facts = list(restaurants_simulation.knowledge_base(world))
    assert len(set(facts)) == len(facts) == 8400
    texts = restaurants_simulation.candidates(world)
    kinds = [text.startswith(("api_call", "how about", "the number is", "you find it at")) for text in texts]
    assert (len(set(texts)), kinds.count(False)) == (4212, 12)
    assert sum(text.startswith("api_call") for text in texts) == 600
    patterns = default_ontology().patterns
    assert (sum(map(len, patterns.user_ways().values())), len(patterns.bot_texts(()))) == (43, 20)
    assert max(map(len, default_ontology().patterns.user_ways().values())) == 4
    for name, position in (("cuisine", 0), ("location", 1)):
        halves = [{entity.request[position] for entity in half} for half in world.halves]
        assert [len(half) for half in halves] == [5, 5]
        assert not halves[0] & halves[1], name
    assert {entity.request[2] for half in world.halves for entity in half} == {"two", "four", "six", "eight"}
    assert [fact.relation for fact in restaurants_simulation.dialogue_facts(world, world.halves[0][0])] == [
        *("R_phone", "R_cuisine", "R_address", "R_location", "R_number", "R_price", "R_rating")
    ]
    assert {fact.relation: fact.value for fact in facts[:7]} == {
        **{"R_cuisine": "greek", "R_location": "athens", "R_price": "cheap", "R_rating": "1"},
        **{f"R_{extra}": f"resto_athens_cheap_greek_1stars_{extra}" for extra in ("phone", "address")},
        "R_number": world.halves[0][0].request[2],
    }
    assert [fact.relation for fact in facts[4:7]] == ["R_phone", "R_address", "R_number"]


def test_numbers_of_fields_and_options():
    restaurants = default_ontology()
    assert restaurants.shares == [(3, 0.73), (4, 0.2), (5, 0.07)]
    assert [restaurants.given_in(task) for task in (1, 2, 3, 5)] == [(0, 4), (4, 4), (0, 4), (1, 3)]
    assert [hotels().updates_in(task) for task in (2, 5)] == [(1, 3), (1, 2)]
    world = restaurants_simulation.World(hotels(put("options", {"7": 1})), "0")
    too_few = r"x\.toml: options: no request of train finds 7 of the knowledge base: give other"
    raised(InputError, restaurants_simulation.check_world, world, [3], ["train"], "x.toml", match=too_few)
    restaurants_simulation.check_world(world, [1, 2, 4, 5], ["train"], "x.toml")


def test_too_few_values():
    fields = [{"name": "area", "seen": ["a", "b"], "unseen": ["c", "d"]}]
    small = {"domain": "inn", "entity": "inn", "ratings": 2, "extras": ["phone"], "fields": fields}
    world = restaurants_simulation.World(parse_ontology(small, "small.toml"), "0")
    with pytest.raises(InputError, match=r"small\.toml: too few values: dev has too few requests"):
        restaurants_simulation.check_world(world, [1], restaurants_simulation.SPLITS, "small.toml")
    with pytest.raises(InputError, match="no request of train finds 3 or more"):
        restaurants_simulation.check_world(world, [3], ["train"], "small.toml")
    restaurants_simulation.check_world(world, [1, 2, 4], ["train"], "small.toml")
    with pytest.raises(InputError, match="no two requests of train differ in 1 of the fields; give fields more values"):
        restaurants_simulation.simulate(world, 2, "train", 0)


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
    raised(InputError, restaurants_simulation.read_ontology, data, "hotels.toml", match=said)


def test_all_must_not_be_shared():
    def share(given):
        given["fields"] = copy.deepcopy(given["fields"][1:])

    raised(InputError, hotels, share, match="no field has unseen values")
