"""Calls of DSTC2 as rounds and lines: searches, ratings, the knowledge base, the split, odd texts."""

from dstc2_calls import asian_oriental, write_lists
from hypothesis import given
from hypothesis import strategies as st
from kit import cases, raised

from parapet.schemas.errors import InputError
from parapet.transforms.simulators import formats, task6
from parapet.transforms.simulators.formats import SILENCE, Fact, dialogue_text, parse_candidates, parse_dialogues

OFFER = (task6.Act("offer", (("name", "ask"),)),)
NOTHING = []


def test_a_knowledge_base_of_ones_own(tmp_path):
    lines = tmp_path / "kb.txt"
    lines.write_text("1 pizza_hut R_cuisine italian\n1 pizza_hut R_phone pizza_hut_phone\n1 ask R_location\tnorth\n")
    pizza_hut = {"name": "pizza hut", "food": "italian", "phone": "pizza hut phone"}
    assert task6.read_knowledge(str(lines)) == [pizza_hut, {"name": "ask", "area": "north"}]
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
    said = [(task6.one_line(system), task6.one_line(user)) for system, user in said]
    call = task6.Call("a", tuple(task6.CallTurn(s, OFFER, u, (), (), "none", ()) for s, u in said))
    lines = task6.lines_of(call, task6.rounds(call, NOTHING, "0"), task6.Words(NOTHING, []))
    (read,) = parse_dialogues(dialogue_text(lines).encode())
    assert list(read.lines) == lines


def test_the_published_knowledge_base_of_the_other_tasks(real_data):
    base = task6.read_knowledge(str(real_data / "babi" / "dialog-babi-kb-all.txt"))
    assert len(base) == 1200
    assert all({"food", "area", "phone", "addr", "pricerange"} <= restaurant.keys() for restaurant in base)


# Files of the bAbI dialog tasks: what is written is read again, errors have their line.


WORD = st.text(st.characters(codec="utf-8", exclude_categories=["C", "Z"]), min_size=1, max_size=8)
SAID = st.lists(WORD, min_size=1, max_size=5).map(" ".join)
LINES = st.lists(
    st.one_of(st.builds(Fact, WORD, WORD, WORD), st.builds(formats.Exchange, st.one_of(SAID, st.just(SILENCE)), SAID)),
    min_size=1,
    max_size=6,
)


@given(st.lists(LINES, min_size=1, max_size=4))
def test_what_is_written_is_read(dialogues):
    data = "".join(dialogue_text(one) for one in dialogues).encode()
    found = list(parse_dialogues(data))
    assert [list(one.lines) for one in found] == dialogues
    starts = [1]
    for one in dialogues:
        starts.append(starts[-1] + len(one) + 1)
    assert [one.line for one in found] == starts[:-1]
    # Windows' line ends, a byte order mark, and numbers that begin again without a blank line.
    other = b"\xef\xbb\xbf" + data.replace(b"\n\n", b"\n").replace(b"\n", b"\r\n") + b"\r\n"
    assert [list(one.lines) for one in parse_dialogues(other)] == dialogues
    facts = [fact for one in found for fact in one.facts]
    if facts:
        assert list(formats.parse_facts(formats.facts_text(facts).encode())) == facts
    bots = [exchange.bot for one in found for exchange in one.exchanges]
    if bots:
        assert parse_candidates(formats.candidates_text(bots).encode()) == bots


@cases(
    "data told",
    (b"", "the file is empty"),
    (b"1 hi\thello\n2 a tab", "line 2: has no tab, and is not a fact of three words either"),
    (b"1 hi\thello\n2 hi\t", "line 2: must be the user's utterance, a tab, and the bot's utterance"),
    (b"1 hi\thello\n2", "line 2: does not begin with a number and a space"),
    (b"1 hi\thello\n3 ok\tyes\n\n", "line 2: is numbered 3, but 2 was expected: lines may be missing"),
    (b"hi\thello\n\n", "line 1: does not begin with a number and a space"),
    (b"1 hi there you all\n\n", "line 1: has no tab, and is not a fact of three words"),
    (b"1 hi\ta\tb\n\n", "line 1: must be the user's utterance"),
    (b"1 hi\thello\n2 \xff\tb\n\n", "line 2: not UTF-8"),
)
def test_bad_files(data, told):
    assert str(raised(InputError, list, parse_dialogues(data, "x.txt"))).startswith(f"x.txt: {told}")


def test_the_published_files_of_task_6():
    """Invented lines with the traits of those files."""
    train = (
        b"1 <SILENCE>\tWelcome , what would you like ?\n2 \tSorry , I did not hear you .\n3 sushi\tapi_call sushi\n"
        b"4 api_call no result\n5\tThere is none .\n\n1 hi\tWelcome , what would you like ?\n\n"
    )
    first, second = parse_dialogues(train, "trn.txt")
    assert [one.user for one in first.exchanges] == [SILENCE, SILENCE, "sushi", SILENCE]
    assert first.exchanges[1].bot == "Sorry , I did not hear you ."
    assert (first.facts, second.line, second.exchanges[0].user) == ([Fact("api_call", "no", "result")], 7, "hi")
    assert parse_candidates(b"1 Welcome\n1 Good bye .", "c.txt") == ["Welcome", "Good bye ."]
    facts = [Fact("the_cow", "R_cuisine", "thai"), Fact("the_cow", "R_price", "cheap")]
    assert list(formats.parse_facts(b"1 the_cow R_cuisine thai\n1 the_cow R_price cheap\n", "kb.txt")) == facts


def test_the_published_files(real_data):
    """All of them are read, and written again letter for letter."""
    folder = real_data / "babi"
    for path in sorted(folder.glob("dialog-babi-task*.txt")):
        data = path.read_bytes()
        dialogues = list(parse_dialogues(data, path))
        assert len(dialogues) == 1000
        assert "".join(dialogue_text(one.lines) for one in dialogues).encode() == data
    data = (folder / formats.FACTS).read_bytes()
    facts = list(formats.parse_facts(data))
    assert (len(facts), formats.facts_text(facts).encode()) == (8400, data)
    data = (folder / formats.CANDIDATES).read_bytes()
    assert formats.candidates_text(parse_candidates(data)).encode() == data
