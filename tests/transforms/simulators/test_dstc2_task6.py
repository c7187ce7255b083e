"""Calls of DSTC2 as rounds and lines: searches, ratings, the knowledge base, the split, odd texts."""

import pytest
from dstc2_calls import asian_oriental, cheap_chinese, write_lists
from hypothesis import given
from hypothesis import strategies as st

from parapet.schemas.errors import InputError
from parapet.transforms.simulators.babi_format import dialogue_text, parse_dialogues
from parapet.transforms.simulators.task6.calls import (
    Act,
    Call,
    CallTurn,
    from_token,
    gathered,
    one_line,
    rated,
    read_call,
    read_knowledge,
    read_logs,
    search,
    statements_of,
    token,
)
from parapet.transforms.simulators.task6.conversion import Words, lines_of, query_of, rounds

OFFER = (Act("offer", (("name", "ask"),)),)
NOTHING: list[dict[str, str]] = []


def turn(user: str = "hi", acts: tuple[Act, ...] = (), **goals: str) -> CallTurn:
    return CallTurn("prompt", acts, user, (), tuple(sorted(goals.items())), "byconstraints", ())


def searched(*turns: CallTurn) -> list[int]:
    found = rounds(Call("a", turns), NOTHING, "0")
    return [t for t, one in enumerate(found) if one.query is not None]


def test_a_search_is_made_where_the_answer_needs_one_and_the_state_is_new():
    cheap = {"pricerange": "cheap"}
    asked = (Act("request", (("slot", "food"),)),)
    assert searched(turn(), turn(acts=OFFER)) == [0]  # of an empty state too
    assert searched(turn(**cheap), turn(acts=asked)) == []
    assert searched(turn(**cheap), turn(acts=OFFER, **cheap), turn(acts=OFFER)) == [0]
    assert searched(turn(**cheap), turn(acts=OFFER, food="thai"), turn(acts=OFFER)) == [0, 1]
    # A name is no part of a search, and who does not care does not restrict.
    assert searched(turn(**cheap), turn(acts=OFFER, name="ask", **cheap), turn(acts=OFFER)) == [0]
    assert searched(turn(**cheap), turn(acts=OFFER, area="dontcare", **cheap), turn(acts=OFFER)) == [0]
    # After the last words there is no answer.
    assert searched(turn(acts=OFFER, **cheap)) == []


def test_query():
    goals = (("area", "dontcare"), ("food", "Thai"), ("name", "ask"), ("pricerange", ""))
    assert query_of(goals) == (("food", "thai"),)


def test_ratings_make_the_next_offer_the_best():
    found = [{"name": f"r{i}"} for i in range(20)]
    offers = ["r7", "r3", "r7", "elsewhere"]
    results = rated(found, offers, "0", "call")
    ratings = {restaurant["name"]: int(restaurant["rating"]) for restaurant in results}
    assert sorted(ratings, key=lambda name: -ratings[name])[:2] == ["r7", "r3"]
    assert (ratings["r7"], ratings["r3"]) == (10, 9)
    assert {ratings[name] for name in ratings if name not in offers} <= set(range(5))
    assert list(ratings) == [restaurant["name"] for restaurant in found]
    assert results != rated(found, offers, "1", "call")
    many = [int(restaurant["rating"]) for restaurant in rated(found, list(ratings), "0")]
    assert many == sorted(set(many), reverse=True)


def test_a_restaurant_is_what_was_said_of_it_most_often():
    said = {("ask", "area", "north"): 2, ("ask", "area", "centre"): 3, ("ask", "", ""): 9, ("nandos", "", ""): 1}
    assert gathered(said.items()) == [{"name": "ask", "area": "centre"}, {"name": "nandos"}]
    tied = [(("ask", "area", "north"), 2), (("ask", "area", "centre"), 2)]
    assert gathered(tied) == gathered(tied[::-1])
    assert search(gathered(tied), (("area", "centre"),)) == [{"name": "ask", "area": "centre"}]
    assert search(gathered(tied), (("area", "centre"), ("food", "thai"))) == []


def test_facts_are_said_of_one_restaurant(tmp_path):
    cheap_chinese(tmp_path, "a/b")
    facts = set(statements_of(read_call(str(tmp_path / "data"), "a/b")))
    assert ("the lucky star", "phone", "01223 244277") in facts
    assert ("golden wok", "area", "north") in facts
    both = turn(acts=(*OFFER, Act("offer", (("name", "b"),)), Act("inform", (("area", "north"),))))
    assert list(statements_of(Call("a", (both,)))) == []


def test_a_knowledge_base_of_ones_own(tmp_path):
    lines = tmp_path / "kb.txt"
    lines.write_text("1 pizza_hut R_cuisine italian\n1 pizza_hut R_phone pizza_hut_phone\n1 ask R_location\tnorth\n")
    rows = tmp_path / "kb.json"
    rows.write_text(
        '[{"name": "Pizza Hut", "food": "italian", "phone": "pizza hut phone"}, {"name":"ask","area":"north"}]'
    )
    expected = [{"name": "pizza hut", "food": "italian", "phone": "pizza hut phone"}, {"name": "ask", "area": "north"}]
    assert read_knowledge(str(lines)) == read_knowledge(str(rows)) == expected
    rows.write_text('[{"food": "italian"}]')
    with pytest.raises(InputError, match="has no name"):
        read_knowledge(str(rows))
    rows.write_text("[]")
    with pytest.raises(InputError, match="no restaurants here"):
        read_knowledge(str(rows))
    lines.write_text("\n")
    with pytest.raises(InputError, match=r"kb\.txt: the file is empty"):
        read_knowledge(str(lines))
    assert from_token(token("Asian  Oriental")) == "asian oriental"


def test_what_was_recognised(tmp_path):
    asian_oriental(tmp_path, "a/b")
    call = read_call(str(tmp_path / "data"), "a/b", recognised=True)
    assert [one.user for one in call.turns] == ["HOW ABOUT ASIAN ORIENTAL TYPE OF FOOD", "THANK YOU"]


def test_the_split_rule(tmp_path):
    write_lists(tmp_path, train=["t/1"], dev=["d/1", "d/2", "d/3"], test=["e/1"])
    as_it_is = {"train": ("t/1",), "dev": ("d/1", "d/2", "d/3"), "test": ("e/1",)}
    assert read_logs(str(tmp_path), None).splits == read_logs(str(tmp_path), 500).splits == as_it_is
    ruled = read_logs(str(tmp_path), 1)
    assert ruled.splits == {"train": ("t/1", "d/2", "d/3"), "dev": ("d/1",), "test": ("e/1",)}
    assert ruled.moved == 2
    assert [batch.names for batch in ruled.batches] == [("t/1", "d/2", "d/3"), ("d/1",), ("e/1",)]


def test_values_of_several_words():
    words = Words([{"name": "the cow", "food": "sea food"}, {"name": "the cow pizza"}], ["a b"])
    assert words.joined("The Cow pizza or the cow, sea food, seafood, a ba, a b.") == (
        "the_cow_pizza or the_cow, sea_food, seafood, a ba, a_b."
    )


texts = st.text(st.characters(exclude_categories=()), max_size=20)


@given(st.lists(st.tuples(texts, texts), min_size=1, max_size=4))
def test_any_text_makes_lines_that_can_be_read(said):
    turns = tuple(CallTurn(one_line(s), OFFER, one_line(u), (), (), "none", ()) for s, u in said)
    call = Call("a", turns)
    lines = lines_of(call, rounds(call, NOTHING, "0"), Words(NOTHING, []))
    (read,) = parse_dialogues(dialogue_text(lines).encode())
    assert list(read.lines) == lines


def test_the_published_knowledge_base_of_the_other_tasks(real_data):
    base = read_knowledge(str(real_data / "babi" / "dialog-babi-kb-all.txt"))
    assert len(base) == 1200
    assert all({"food", "area", "phone", "addr", "pricerange"} <= restaurant.keys() for restaurant in base)
