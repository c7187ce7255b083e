"""Pages of dialogues: their files, what they show, which turns are drawn; and pages of judged utterances."""

import html
import re

import jinja2
import msgspec
from hits_corpora import dialogue, hostile_dialogue, system, user
from hypothesis import given
from hypothesis import strategies as st
from kit import cases, holding, lacking, raised, run, write
from page_form import html_of

from parapet.schemas.dialogue import Action, Dialogue, Frame, SlotSpan, State, Turn
from parapet.transforms.core.seeding import stable_digest
from parapet.transforms.crowd.hits import dialogue_pages
from parapet.transforms.crowd.hits import page as hit_page
from parapet.transforms.crowd.hits.dialogue_pages import group_items, marks, render_judged, speakable, turn_task_id
from parapet.transforms.crowd.hits.page import PlainAct, RatedItem, Settings, carriable, question_xml, shown
from parapet.transforms.crowd.hits.terms import REWRITES


def render(*dialogues):
    return dialogue_pages.render_dialogues("test/dialogues_001.json", dialogues, None, Settings(tasks=(REWRITES,)))


def reasons(*dialogues):
    return [each.reason.split(":")[0] for each in render(*dialogues).not_asked]


def parts(page):
    """The sentence of a page, its bold pieces, the values to keep, and the turns before."""

    def part(within, pattern):
        (text,) = re.findall(within, page, re.S) or [""]
        return [html.unescape(re.sub("<[^>]*>", "", found)) for found in re.findall(pattern, text, re.S)]

    said = 'id="hit-said" dir="auto">(.*?)</p>'
    quoted = part('id="hit-keep">(.*?)</p>', '<q dir="auto">(.*?)</q>')
    heard = part('id="hit-past"(.*?)</ol>', '<span dir="auto">(.*?)</span>')
    return *part(said, "^(.*)$"), part(said, "<b>(.*?)</b>"), quoted, heard


SAMPLE = (
    user("I need a hotel."),
    system("Where & when?"),
    user("In Palo Alto, cheap.", ("city", "Palo Alto"), actions=[Action("INFORM", "price", ["cheap"])]),
)


def test_fields_are_the_contract_and_the_page_asks_nothing_of_the_network():
    text = render(dialogue(*SAMPLE)).pages[-1].html.decode()
    assert re.findall(r'<(?:input|textarea) [^>]*name="([^"]+)"', text) == ["assignmentId", *dialogue_pages.FIELDS]
    assert re.findall(r'https?://[^"\s]+', text) == ["https://www.mturk.com/mturk/externalSubmit"]
    assert not re.search(r"\b(src|srcset|href)=|@import|url\(", text)


TEXT = st.text(
    st.one_of(st.characters(codec="utf-8"), st.sampled_from("ab2 <>&\"'`${}]\r\n\x00\u2028\u202e\U0001f600"))
)


@given(TEXT, TEXT, TEXT, TEXT)
def test_any_text_is_read_as_it_was_said_and_bold_where_the_span_is(heard, before, value, after):
    spans = [SlotSpan("x", len(before), len(before) + len(value))] if speakable(value) else []
    turn = Turn("USER", before + value + after, [Frame("A_1", spans)])
    hits = render(Dialogue("1", ["A_1"], [system(heard), turn]))
    if hits.not_asked:
        assert not re.search(r"[^\W_]", before + after + ("" if spans else value))
        return
    (page,) = hits.pages
    text = html_of(page.question)
    assert text.encode() == page.html
    kept = [speakable(value)] * len(spans)
    assert parts(text) == (speakable(turn.utterance), kept, kept, [speakable(heard) or "(says nothing)"])
    assert text.count("<script") == 1


@given(st.text(st.one_of(st.characters(), st.sampled_from("./%\\:~\0")), max_size=300))
def test_any_id_is_asked_safely_or_refused(dialogue_id):
    hits = render(Dialogue(dialogue_id, [], [user("Hello")]))
    for page in hits.pages:
        assert re.fullmatch(r"pages/[\w%~-][\w.%~-]*\.0\.rewrites\.html", page.record.page, re.ASCII)
        assert page.record.task_id == f"{dialogue_id}:0:rewrites"
        assert len(page.record.requester_annotation) <= 255
    assert {each.reason.split(":")[0] for each in hits.not_asked} <= {"bad_id", "long_id"}
    assert len(hits.pages) + len(hits.not_asked) == 1


def test_what_cannot_be_asked_has_its_reason():
    assert reasons(dialogue(user(" \x00\n"), user("?!"))) == ["no_text", "no_text"]
    assert reasons(dialogue(user("Palo Alto.", ("city", "Palo Alto")))) == ["only_values"]
    assert reasons(dialogue(user("Hi"), id=""), dialogue(user("Hi"), id="\U0001f600")) == ["bad_id", "bad_id"]
    assert reasons(dialogue(user("Hi"), id="x" * 151), dialogue(user("Hi"), id="<" * 51)) == ["long_id", "long_id"]
    assert reasons(dialogue(user("Hi"), id="x" * 150), dialogue(user("Hi"), id="<" * 50)) == []
    assert reasons(dialogue(Turn("USER", "Hi", [Frame("A", [SlotSpan("x", 0, 9)])]))) == ["bad_span"]
    assert reasons(dialogue(user("Hi"), system("word " * 20_000), user("Oh"), user("Ah"))) == ["too_large", "too_large"]


def test_the_index_has_a_line_a_page_and_the_reasons(tmp_path):
    dialogues = [hostile_dialogue(), dialogue(*SAMPLE, user(""))]
    path = write(tmp_path / "dialogues_001.json", msgspec.to_builtins(dialogues))
    out = run("hits", task="rewrites", dialogues=path, output=tmp_path / "out")
    index = out.text("index.html")
    assert 'href="pages/1_00000.2.rewrites.html"' in index
    assert not lacking(index, 'href="pages/%252E.%252F%253Cb%253E1.0.rewrites.html"', html.escape("../<b>1"), "no_text")
    assert {path.name for path in (out.folder / "requester").iterdir()} == {"rewrites.html", "rewrites.csv"}
    assert list(out.json("plan.json")["tasks"]) == ["rewrites"]


def talks(n, ids="a"):
    turns = [user("Hello there"), system("Yes?"), user("Find a room"), system("Done."), user("")]
    return [dialogue(*turns, id=f"{ids}{i}") for i in range(n)]


@cases("turns", 1, 3, 50)
def test_as_many_are_drawn_as_of_a_plain_list(turns, tmp_path):
    sizes = {"a": 8, "b": 4}
    paths = [write(tmp_path / f"{name}.json", msgspec.to_builtins(talks(n, name))) for name, n in sizes.items()]
    drawn = run("hits", task="rewrites", dialogues=paths, turns=turns, output=tmp_path / "out").rows("manifest.jsonl")
    asked = [turn_task_id(f"{name}{i}", turn) for name, n in sizes.items() for i in range(n) for turn in (0, 2)]
    expected = sorted(asked, key=lambda task_id: stable_digest("0", task_id))[:turns]
    assert {row["task_id"] for row in drawn} == set(expected)


def kept(turn, before=None):
    return [(mark.kept.slot, mark.kept.value) for mark in marks(turn, before)]


def bold(turn):
    return [text for text, is_bold in dialogue_pages.bold_pieces(speakable(turn.utterance), marks(turn)) if is_bold]


def test_without_actions_what_the_turn_changes_in_the_state_is_kept():
    """MultiWOZ 2.2: no actions, and the state repeats what was said before."""

    def said(text, **values):
        return Turn("USER", text, [Frame("A", [], state=State("b", [], values))])

    first = said("In the north", area=["north"])
    second = said("A cheap one, north is fine", area=["north"], price=["cheap", "low"])
    assert (kept(first), kept(second, first)) == ([("area", "north")], [("price", "cheap")])


def test_copied_slots_have_no_place():
    turn = Turn("USER", "the same place", [Frame("taxi", [SlotSpan("to", copy_from="hotel-name", value="place")])])
    assert marks(turn) == []


@cases("span", (-1, 2), (0, 99), (3, 3), (4, 2), (2, 4))
def test_a_span_that_points_nowhere_is_told(span):
    turn = Turn("USER", "ab  cd", [Frame("A", [SlotSpan("x", *span)])])
    raised(ValueError, marks, turn, match=f"slot 'x': {span[0]}-{span[1]}")


def test_overlapping_values_are_one_bold_piece_and_both_kept():
    turn = user("Palo Alto, California", ("city", "Palo Alto"), ("place", "Alto, California"))
    assert kept(turn) == [("city", "Palo Alto"), ("place", "Alto, California")]
    assert bold(turn) == ["Palo Alto, California"]


PIECES = st.text(st.sampled_from("ab2. \t\r\n\x00\x1f\u2028\ufeff\U0001f600<&\u0301"), max_size=12)


@given(PIECES, PIECES.filter(speakable), PIECES)
def test_bold_is_the_value_and_nothing_else(before, value, after):
    start = len(before)
    turn = Turn("USER", before + value + after, [Frame("A", [SlotSpan("x", start, start + len(value))])])
    assert kept(turn) == [("x", speakable(value))]
    pieces = dialogue_pages.bold_pieces(speakable(turn.utterance), marks(turn))
    assert "".join(text for text, _ in pieces) == speakable(turn.utterance)
    assert [text for text, is_bold in pieces if is_bold] == [speakable(value)]
    # What stands on either side is what is left of it.
    at = [is_bold for _, is_bold in pieces].index(True)
    assert "".join(text for text, _ in pieces[:at]).split() == speakable(before).split()
    assert "".join(text for text, _ in pieces[at + 1 :]).split() == speakable(after).split()


def test_values_without_a_span_are_kept_where_they_are_said_as_words_of_their_own():
    said = [Action("INFORM", "guests", ["2"]), Action("INFORM", "wifi", ["True"]), Action("INFORM", "kind", ["cheap"])]
    turn = user("True 12 and 2nd, cheaply: 2 at 2:30", actions=said[:1] + said[2:])
    assert [(mark.kept.value, mark.start) for mark in marks(turn)] == [("2", 26)]
    assert kept(user("Does it have wifi?", actions=said)) == []
    assert kept(user("A cheap one for 2", actions=said)) == [("kind", "cheap"), ("guests", "2")]


ANY = st.text(alphabet=st.characters())  # surrogates and controls included
NASTY = st.lists(
    st.sampled_from(["]]>", "]]", ">", "&", "<", "\r", "\n", "\x00", "\x1f", "\U0001f600", "\ud800", "\uffff", "a"])
)


@given(st.one_of(ANY, NASTY.map("".join)))
def test_any_page_comes_back_from_the_xml_as_it_went_in(text):
    page = carriable(text)
    assert html_of(question_xml(page)) == page


@given(st.one_of(ANY, NASTY.map("".join)))
def test_any_text_is_read_as_it_was_shown(text):
    kept = shown(text)
    page = carriable(str(jinja2.Environment(autoescape=True).from_string("{{ text }}").render(text=kept)))
    assert html.unescape(hit_page.without_variables(html_of(question_xml(page)))) == kept


@given(ANY)
def test_shown_and_carriable_are_idempotent(text):
    assert (shown(shown(text)), carriable(carriable(text))) == (shown(text), carriable(text))


@given(ANY)
def test_nothing_that_mturk_refuses_is_left(text):
    page = carriable(text)
    assert all(ord(c) < 0x10000 for c in page)
    assert not any(ord(c) < 32 and c not in "\t\n" for c in page)


def test_a_file_given_twice_is_read_once(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    given = ["test", "test/dialogues_001.json", write(tmp_path / "test/dialogues_001.json", "[]")]
    assert [file.relative for file in dialogue_pages.dialogue_paths(given)] == ["test/dialogues_001.json"]


TEXTS = st.text(max_size=30)
ACTS = st.lists(st.builds(PlainAct, TEXTS, TEXTS, TEXTS), min_size=1, max_size=3).map(tuple)
STRATA, SERVICES = st.sampled_from(["faithful", "unfaithful", "invalid"]), st.sampled_from(["One_1", "Two_1"])
IDS, TURNS = st.sampled_from("abc"), st.integers(0, 9)
ITEMS = st.builds(RatedItem, IDS, TURNS, STRATA, st.booleans(), SERVICES, ACTS, TEXTS, TEXTS)


def place(item):
    return item.dialogue_id, item.turn


@given(
    st.lists(ITEMS, unique_by=place, min_size=1, max_size=12),
    st.integers(1, 5),
    st.integers(0, 2),
    st.integers(0, 3),
    st.randoms(),
)
def test_every_utterance_is_on_one_page_and_checks_are_wrong(items, per_page, checks, seed, random):
    groups = group_items(items, per_page, checks, seed)
    on_pages = [[item for item in group if item.stratum != "check"] for group in groups]
    assert sorted((item for group in on_pages for item in group), key=place) == sorted(items, key=place)
    assert max(map(len, on_pages)) <= per_page
    assert max(map(len, on_pages)) - min(map(len, on_pages)) <= 1
    utterances = {item.utterance for item in items}
    for group, own in zip(groups, on_pages, strict=True):
        found = [item for item in group if item.stratum == "check"]
        assert len(found) <= checks
        for check in found:
            assert (check.faithful, check.utterance in utterances) == (False, True)
            assert place(check) not in map(place, own)
            values = [act.value.casefold() for act in check.acts if len(act.value) > 2 and act.value != "yes"]
            assert values
            assert not holding(check.utterance.casefold(), *values)
    # Neither the order in which they come nor the verdicts change a page.
    other = [msgspec.structs.replace(item, stratum="invalid", faithful=not item.faithful) for item in items]
    random.shuffle(other)
    before, after = (
        [page.html for i, group in enumerate(grouped) for page in render_judged(group, i, Settings()).pages]
        for grouped in (groups, group_items(other, per_page, checks, seed))
    )
    assert before == after


def test_a_large_page_is_split_and_what_fits_on_none_is_not_asked():
    def item(turn, letters):
        return RatedItem("1", turn, "faithful", True, "Bars_1", (PlainAct("Say goodbye"),), "", "x" * letters)

    items = [item(0, 30_000), item(1, 30_000), item(2, 100_000), item(3, 30_000)]
    hits = render_judged(items, 0, Settings())
    assert ([page.record.part for page in hits.pages], {page.record.parts for page in hits.pages}) == ([1, 2, 3], {3})
    assert len({page.record.task_id for page in hits.pages}) == 1
    assert [page.record.fields for page in hits.pages] == [[f"faithful_{i}", f"natural_{i}"] for i in (0, 1, 3)]
    assert [page.record.items for page in hits.pages] == [[items[0]], [items[1]], [items[3]]]
    assert all(len(page.question) <= hit_page.MAX_BYTES for page in hits.pages)
    assert [each.element_id for each in hits.not_asked] == ["1:2"]
    assert hits.not_asked[0].reason.startswith("too_large")
