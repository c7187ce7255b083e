"""Calls of DSTC2 as rounds and lines: searches, ratings, the knowledge base, the split, odd texts."""

from dstc2_calls import asian_oriental, write_lists
from hypothesis import given
from hypothesis import strategies as st
from kit import raised

from parapet.schemas.errors import InputError
from parapet.transforms.simulators import task6
from parapet.transforms.simulators.formats import dialogue_text, parse_dialogues

OFFER = (task6.Act("offer", (("name", "ask"),)),)
NOTHING = []


def test_a_knowledge_base_of_ones_own(tmp_path):
    lines = tmp_path / "kb.txt"
    lines.write_text("1 pizza_hut R_cuisine italian\n1 pizza_hut R_phone pizza_hut_phone\n1 ask R_location\tnorth\n")
    assert task6.read_knowledge(str(lines)) == [
        {"name": "pizza hut", "food": "italian", "phone": "pizza hut phone"},
        {"name": "ask", "area": "north"},
    ]
    lines.write_text("\n")
    raised(InputError, task6.read_knowledge, str(lines), match=r"kb\.txt: the file is empty")
    assert task6.from_token(task6.token("Asian  Oriental")) == "asian oriental"


def test_what_was_recognised(tmp_path):
    asian_oriental(tmp_path, "a/b")
    call = task6.read_call(str(tmp_path / "data"), "a/b", recognised=True)
    assert [one.user for one in call.turns] == ["HOW ABOUT ASIAN ORIENTAL TYPE OF FOOD", "THANK YOU"]


def test_the_split_rule(tmp_path):
    write_lists(tmp_path, train=["t/1"], dev=["d/1", "d/2", "d/3"], test=["e/1"])
    as_it_is = {"train": ("t/1",), "dev": ("d/1", "d/2", "d/3"), "test": ("e/1",)}
    assert task6.read_logs(str(tmp_path), None).splits == task6.read_logs(str(tmp_path), 500).splits == as_it_is
    ruled = task6.read_logs(str(tmp_path), 1)
    assert (ruled.splits, ruled.moved) == ({"train": ("t/1", "d/2", "d/3"), "dev": ("d/1",), "test": ("e/1",)}, 2)
    assert [batch.names for batch in ruled.batches] == [("t/1", "d/2", "d/3"), ("d/1",), ("e/1",)]


texts = st.text(st.characters(exclude_categories=()), max_size=20)


@given(st.lists(st.tuples(texts, texts), min_size=1, max_size=4))
def test_any_text_makes_lines_that_can_be_read(said):
    call = task6.Call(
        "a", tuple(task6.CallTurn(task6.one_line(s), OFFER, task6.one_line(u), (), (), "none", ()) for s, u in said)
    )
    lines = task6.lines_of(call, task6.rounds(call, NOTHING, "0"), task6.Words(NOTHING, []))
    (read,) = parse_dialogues(dialogue_text(lines).encode())
    assert list(read.lines) == lines


def test_the_published_knowledge_base_of_the_other_tasks(real_data):
    base = task6.read_knowledge(str(real_data / "babi" / "dialog-babi-kb-all.txt"))
    assert len(base) == 1200
    assert all({"food", "area", "phone", "addr", "pricerange"} <= restaurant.keys() for restaurant in base)
