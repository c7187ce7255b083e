"""Files of the bAbI dialog tasks: what is written is read again, errors have their line."""

from hypothesis import given
from hypothesis import strategies as st
from kit import cases, raised

from parapet.schemas.errors import InputError
from parapet.transforms.simulators import formats
from parapet.transforms.simulators.formats import SILENCE, Fact, parse_candidates, parse_dialogues, parse_facts

word = st.text(st.characters(codec="utf-8", exclude_categories=["C", "Z"]), min_size=1, max_size=8)
text = st.lists(word, min_size=1, max_size=5).map(" ".join)
lines = st.lists(
    st.one_of(st.builds(Fact, word, word, word), st.builds(formats.Exchange, st.one_of(text, st.just(SILENCE)), text)),
    min_size=1,
    max_size=6,
)


@given(st.lists(lines, min_size=1, max_size=4))
def test_what_is_written_is_read(dialogues):
    data = "".join(formats.dialogue_text(one) for one in dialogues).encode()
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
        assert list(parse_facts(formats.facts_text(facts).encode())) == facts
    bots = [exchange.bot for one in found for exchange in one.exchanges]
    if bots:
        assert parse_candidates(formats.candidates_text(bots).encode()) == bots


@cases("data told", (b"", "x.txt: the file is empty"),
        (b"1 hi\thello\n2 a tab",
         "x.txt: line 2: has no tab, and is not a fact of three words either"),
        (b"1 hi\thello\n2 hi\t",
         "x.txt: line 2: must be the user's utterance, a tab, and the bot's utterance"),
        (b"1 hi\thello\n2", "x.txt: line 2: does not begin with a number and a space"),
        (b"1 hi\thello\n3 ok\tyes\n\n", "x.txt: line 2: is numbered 3, but 2 was expected: lines may be missing"),
        (b"hi\thello\n\n", "x.txt: line 1: does not begin with a number and a space"),
        (b"1 hi there you all\n\n", "x.txt: line 1: has no tab, and is not a fact of three words"),
        (b"1 hi\ta\tb\n\n", "x.txt: line 1: must be the user's utterance"),
        (b"1 hi\thello\n2 \xff\tb\n\n", "x.txt: line 2: not UTF-8"))  # fmt: skip
def test_bad_files(data, told):
    assert str(raised(InputError, list, parse_dialogues(data, "x.txt"))).startswith(told)


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
    assert list(parse_facts(b"1 the_cow R_cuisine thai\n1 the_cow R_price cheap\n", "kb.txt")) == facts


def test_the_published_files(real_data):
    """All of them are read, and written again letter for letter."""
    folder = real_data / "babi"
    for path in sorted(folder.glob("dialog-babi-task*.txt")):
        data = path.read_bytes()
        dialogues = list(parse_dialogues(data, path))
        assert len(dialogues) == 1000
        assert "".join(formats.dialogue_text(one.lines) for one in dialogues).encode() == data
    data = (folder / formats.FACTS).read_bytes()
    facts = list(parse_facts(data))
    assert (len(facts), formats.facts_text(facts).encode()) == (8400, data)
    data = (folder / formats.CANDIDATES).read_bytes()
    assert formats.candidates_text(parse_candidates(data)).encode() == data
