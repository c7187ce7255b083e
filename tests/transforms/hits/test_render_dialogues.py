import html
import json
import re
from html.parser import HTMLParser

import pytest
from hits_dialogues import dialogue, hostile_dialogue, system, user
from hypothesis import given, settings
from hypothesis import strategies as st

from parapet.schemas.dialogue import Action, Dialogue, Frame, SlotSpan, Turn
from parapet.transforms.crowd.hits.make_hits import summary_files
from parapet.transforms.crowd.hits.markup import html_of, speakable
from parapet.transforms.crowd.hits.page import Settings, page_html
from parapet.transforms.crowd.hits.rewrite_pages import FIELDS, Choice, render_dialogues
from parapet.transforms.crowd.hits.terms import REWRITES

ALL = Choice({}, None)
SETTINGS = Settings(tasks=(REWRITES,))


def render(*dialogues, choice=ALL, settings=SETTINGS):
    return render_dialogues(0, "test/dialogues_001.json", dialogues, choice, settings)


def page_of(*turns, **more):
    hits = render(dialogue(*turns), **more)
    assert not hits.not_asked
    return hits.pages[-1]


def reasons(*dialogues):
    return [each.reason.split(":")[0] for each in render(*dialogues).not_asked]


class Reader(HTMLParser):
    """The sentence of a page with its bold pieces, the values, the turns before, and every tag's name."""

    def __init__(self, page):
        super().__init__(convert_charrefs=True)
        self.stack, self.tags = list[str](), list[str]()
        self.said, self.bold, self.values, self.heard = "", list[str](), list[str](), list[str]()
        self.place = ""
        self.feed(page)
        self.close()

    def handle_starttag(self, tag, attrs):
        self.tags.append(tag)
        self.place = dict(attrs).get("id") or self.place
        self.stack.append(tag)
        if self.place == "hit-said" and tag == "b":
            self.bold.append("")
        if self.place == "hit-keep" and tag == "q":
            self.values.append("")
        if self.place == "hit-past" and tag == "span":
            self.heard.append("")

    def handle_endtag(self, tag):
        while self.stack and self.stack.pop() != tag:
            pass

    def handle_data(self, data):
        inner = self.stack[-1] if self.stack else ""
        if self.place == "hit-said" and inner in ("p", "b"):
            self.said += data
            if inner == "b":
                self.bold[-1] += data
        elif self.place == "hit-keep" and inner == "q":
            self.values[-1] += data
        elif self.place == "hit-past" and inner == "span":
            self.heard[-1] += data


SAMPLE = (
    user("I need a hotel."),
    system("Where & when?"),
    user("In Palo Alto, cheap.", ("city", "Palo Alto"), actions=[Action("INFORM", "price", ["cheap"])]),
)


def test_the_body_of_a_page():
    assert page_of(*SAMPLE).body == (
        '<h2 id="hit-heard">The conversation so far</h2>'
        '<div class="past" id="hit-past" role="region" tabindex="0" aria-labelledby="hit-heard"><ol>'
        '<li class="u"><b>User</b> <span dir="auto">I need a hotel.</span></li>'
        '<li><b>Assistant</b> <span dir="auto">Where &amp; when?</span></li></ol></div>'
        '<h2 id="hit-what">What the user says now</h2>'
        '<p class="said" id="hit-said" dir="auto">In <b>Palo Alto</b>, <b>cheap</b>.</p>'
        '<p class="keep" id="hit-keep">Keep in every answer, letter for letter: '
        '<q dir="auto">Palo Alto</q>, <q dir="auto">cheap</q></p>'
    )


def test_the_first_turn_has_nothing_before_it_and_without_values_nothing_is_to_keep():
    body = page_of(SAMPLE[0]).body
    assert "How the user begins" in body
    assert "hit-past" not in body
    assert "hit-keep" not in body


def test_fields_are_the_contract_and_the_page_asks_nothing_of_the_network():
    text = page_of(*SAMPLE).html.decode()
    assert re.findall(r'<(?:input|textarea) [^>]*name="([^"]+)"', text) == ["assignmentId", *FIELDS]
    assert re.findall(r'https?://[^"\s]+', text) == ["https://www.mturk.com/mturk/externalSubmit"]
    assert not re.search(r"\b(src|srcset|href)=|@import|url\(", text)


TEXT = st.text(
    st.one_of(st.characters(codec="utf-8"), st.sampled_from("ab2 <>&\"'`${}]\r\n\x00\u2028\u202e\U0001f600"))
)


@settings(deadline=None)  # other tests may hold the machine
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
    read = Reader(text)
    assert read.said == speakable(turn.utterance)
    assert read.bold == read.values == [speakable(value)] * len(spans)
    assert (read.heard, read.tags.count("script")) == ([speakable(heard) or "(says nothing)"], 1)


@settings(deadline=None)  # other tests may hold the machine
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
    assert reasons(dialogue(user("Hi"), id="x" * 245)) == ["long_id"]
    assert reasons(dialogue(user("Hi"), id="x" * 244)) == []
    assert reasons(dialogue(Turn("USER", "Hi", [Frame("A", [SlotSpan("x", 0, 9)])]))) == ["bad_span"]
    assert reasons(dialogue(user("Hi"), system("word " * 20_000), user("Oh"), user("Ah"))) == ["too_large", "too_large"]
    hits = render(dialogue(user("Hi")), choice=Choice({(0, 0): "train/dialogues_001.json"}, None))
    assert hits.not_asked[0].reason.startswith(
        "duplicate_id: test/dialogues_001.json has the id of a dialogue of train/"
    )


def test_the_index_has_a_line_a_page_and_the_reasons():
    files = dict(summary_files([render(hostile_dialogue(), dialogue(*SAMPLE, user("")))], SETTINGS))
    index = files["index.html"].decode()
    assert 'href="pages/1_00000.2.rewrites.html"' in index
    assert 'href="pages/%252E.%252F%253Cb%253E1.0.rewrites.html"' in index
    assert html.escape("../<b>1") in index
    assert "no_text" in index
    assert {name for name in files if name.startswith("requester/")} == {"requester/rewrites.html"}
    assert list(json.loads(files["plan.json"])["tasks"]) == ["rewrites"]


@pytest.mark.parametrize("sandbox", [False, True])
def test_pages_of_a_task_are_the_same_around_their_body(sandbox):
    for page in render(dialogue(*SAMPLE), settings=Settings(tasks=(REWRITES,), sandbox=sandbox)).pages:
        assert page.html.decode() == page_html(REWRITES, page.body, sandbox)
        assert ("workersandbox" in page.html.decode()) == sandbox
