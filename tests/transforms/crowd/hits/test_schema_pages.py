"""Questions about a schema: what a page must not tell, what it says of the app, plans and terms."""

import re
from collections.abc import Iterable
from decimal import Decimal
from html.parser import HTMLParser

import msgspec
from hits_corpora import big_service, corpus, hostile_service
from hypothesis import given
from hypothesis import strategies as st
from kit import cases, raised, write
from page_form import html_of

from parapet.schemas.errors import InputError
from parapet.schemas.service import FIELD, TASKS, Intent, Service, Slot, Task, elements_of
from parapet.transforms.core.files import join
from parapet.transforms.crowd.hits import schema_pages
from parapet.transforms.crowd.hits.dialogue_pages import page_name
from parapet.transforms.crowd.hits.make_hits import plan_units
from parapet.transforms.crowd.hits.page import Part, Settings, fit, page_html, requester_html
from parapet.transforms.crowd.hits.page import shown as shown_text
from parapet.transforms.crowd.hits.schema_pages import ambiguous_elements, choose_cue, render_service, revealed_by
from parapet.transforms.crowd.hits.terms import RATINGS, REWRITES, WORDING, estimated_seconds, seconds_allowed
from parapet.transforms.report.text import name_words

_PART = re.compile(r"[^\W_]+")


def hidden_texts(service: Service, task: Task, meanings: Iterable[str] = ()) -> list[str]:
    """What a page of ``task`` must not tell: the names, or the descriptions but those in ``meanings``."""
    texts = (element.text(task) for element in elements_of(service, task))
    return [text for text in texts if shown_text(text) not in {*meanings}]


def leaks(page: str, shown: Iterable[str], hidden: Iterable[str]) -> list[str]:
    """The hidden texts whose words stand somewhere in the page, side by side, outside the texts that it has to show.

    Looks at text, comments, scripts, styles and the values of attributes: markup itself (``<title>``, ``type=``) is
    the same whatever is hidden. Form fields (``intent_0``) are a contract and tell a kind and a position only.

    Args:
      page: HTML, or an HTMLQuestion.
      shown: the texts that the page shows for its questions.
      hidden: what it must not tell.
    """
    reader = _Reader(frozenset(shown))
    reader.feed(page)
    reader.close()
    # A line break never stands in a word: it keeps words of two places from reading as one phrase.
    places = "\n".join(f" {' '.join(_words(place))} " for place in reader.places)
    phrases = {text: {" ".join(_words(text)), " ".join(name_words(text))} - {""} for text in hidden}
    return [text for text in phrases if any(f" {phrase} " in places for phrase in phrases[text])]


def _words(text: str) -> list[str]:
    # Every part both as it is and split at capitals, so that neither spelling hides a word.
    return [word for part in _PART.findall(text) for word in (name_words(part) or (part.casefold(),))]


class _Reader(HTMLParser):
    """Collects what a page says, place by place, less the texts it has to show."""

    def __init__(self, shown: frozenset[str]) -> None:
        super().__init__(convert_charrefs=True)
        self.shown, self.places = shown, list[str]()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        for parts in ((value or "").split() for _, value in attrs):
            self._add(" ".join(part for part in parts if not FIELD.fullmatch(re.sub(r"-[hevm]$", "", part))))

    def _add(self, text: str) -> None:
        if text.strip() and text.strip() not in self.shown:
            self.places.append(text)

    handle_data = handle_comment = handle_decl = unknown_decl = handle_pi = _add


SERVICES = [hostile_service(), big_service(), *corpus()]


@cases("task", *TASKS)
@cases("service", *SERVICES, ids=lambda service: service.service_name)
def test_no_hidden_text_in_the_bytes_of_any_page(service, task):
    questions = list(schema_pages.questions_of(service, task, ambiguous_elements(service)))
    # The service's description is shown as those of its elements are; that it adds nothing to them is tested below.
    shown = [text for question in questions for text in (question.prompt, question.values, question.meaning)]
    shown.append(choose_cue(service, task, "auto"))
    hidden = hidden_texts(service, task, [question.meaning for question in questions])
    for page in render_service(service, Settings()).pages:
        if page.record.task == task:
            # The question is the page and a frame of a few fixed words; it is parsed as HTML, CDATA and all.
            for data in (page.html, page.question.replace(b"<![CDATA[", b"").replace(b"]]>", b"")):
                assert leaks(data.decode(), shown, hidden) == []


@cases("service", *SERVICES, ids=lambda service: service.service_name)
def test_another_hidden_text_gives_the_same_bytes(service, monkeypatch):
    """The strongest form: the page cannot depend on what it hides."""
    monkeypatch.setattr(schema_pages, "ambiguous_elements", lambda service: frozenset())
    for task in TASKS:
        original, changed = (
            {page.record.page: page.html for page in render_service(each, Settings()).pages if page.record.task == task}
            for each in (service, _with_others(service, "name" if task == "names" else "description"))
        )
        assert original
        assert original == changed


def test_our_own_words_are_none_of_the_corpus():
    """Instructions and examples are ours: they must not happen to say a name or a description."""
    for task in TASKS:
        for service in corpus():
            for frame in (page_html(task, ""), requester_html(task)):
                assert leaks(frame, [], hidden_texts(service, task)) == []


@cases("page", "<!-- from_location -->", "<script>var x = 'fromLocation'</script>", '<p title="From&#32;location">')
def test_the_checker_finds_a_planted_leak(page):
    assert leaks(page, [], ["from_location"]) == ["from_location"]


def _with_others(service, what):
    """The service with other names, or other descriptions, in the same places."""
    raw = msgspec.to_builtins(service)
    for i, element in enumerate([raw] * (what == "description") + raw["intents"] + raw["slots"]):
        element[what] = f"zzq_{i}"
    return msgspec.convert(raw, Service)


#


SLOTS = ["type", "where_to", "alarm_time", "new_alarm_time", "restaurant_name", "number_of_rooms", "pct", "city"]
VAGUE = Service("Services_3", "Finds doctors", [Slot(name, name) for name in SLOTS], [Intent("FindDoctor", "Finds")])


def test_generic_short_and_contained_names_are_found():
    names = ("service", "slot/type", "slot/where_to", "slot/alarm_time", "slot/pct")
    assert ambiguous_elements(VAGUE) == {f"Services_3/{name}" for name in names}


@cases("cues", "auto", "none")
@cases("service", *SERVICES, ids=lambda service: service.service_name)
def test_another_name_of_the_service_gives_the_same_names_pages(service, cues):
    other = msgspec.structs.replace(service, service_name="Zzq_7")
    made, again = (render_service(each, Settings(cues=cues)).pages for each in (service, other))
    of_names = [[page.html for page in pages if page.record.task == "names"] for pages in (made, again)]
    assert of_names[0] == of_names[1]


PAYMENT = Service(
    "Payment_1",
    "The fast, simple way to pay in apps, on the web, and in millions of stores",
    [Slot("payment_method", "The source of money"), Slot("amount", "How much to send"), Slot("to", "Who gets it")],
    [Intent("RequestPayment", "Request payment from someone")],
)


def pages(service, **settings):
    """Task to the page."""
    made = render_service(service, Settings(**settings)).pages
    return {page.record.task: html_of(page.question) for page in made}


def test_without_a_file_the_description_is_the_cue():
    assert f'<b dir="auto">{PAYMENT.description}</b>' in pages(PAYMENT)["names"]
    assert "What the app is" not in pages(PAYMENT, cues="none")["names"]
    assert "What the app is" not in pages(PAYMENT, cues={"Payment_1": ""})["names"]
    assert choose_cue(PAYMENT, "names", {"Other_1": "x"}) == PAYMENT.description


@cases("text", "", "  ", "Does get_alarms well", "Alarm_1 of old", "Does GetAlarms", "x" * 300)
def test_no_cue_where_the_description_is_blank_or_reads_as_names(text):
    assert choose_cue(Service("A_1", text, [], []), "names", "auto") == ""


def test_a_long_description_is_cut_between_words():
    cue = choose_cue(Service("A_1", "many words " * 5_000, [], []), "names", "auto")
    assert re.fullmatch(r"(many words )+(many )?…", cue)
    assert len(cue) <= 202


@cases(
    "content message",
    (b"service_name,cue\nPayment_1,payments like Venmo", "the cue of Payment_1 contains 'payment'"),
    (b"service_name,cue\nPayment_2,x", "row 2: there is no service 'Payment_2' in the schemas"),
    (b"service_name,cue\nPayment_1,x\nPayment_1,y", "row 3: there is a second cue for Payment_1"),
    (b"service_name,cue\nPayment_1,like PayPal, or such", "row 2: the row has 3 cells, but the header has 2"),
    (b'service_name,cue\nPayment_1,"like PayPal\nx,y', "row 2: a quote is not closed"),
    (b"service_name,cue\nPayment_1," + b"word " * 60, "the cue has 299 letters, over the limit of 200"),
    (b"service_name,like", "row 1: the header lacks cue"),
    (b"service_name,cue\nPayment_1,\xff", "not UTF-8 at byte"),
)
def test_cues_that_cannot_be_used(tmp_path, content, message):
    path = write(tmp_path / "cues.csv", content)
    raised(InputError, schema_pages.read_cues, path, {"Payment_1": PAYMENT}, match=message)


def test_names_of_generic_words_tell_nothing():
    assert revealed_by("pay to whom you like, on any date", ["to", "date", "type"]) == ""
    assert revealed_by("book rooms of hotels", ["hotel_room"]) == ""
    assert revealed_by("book hotel rooms", ["hotel_room"]) == "hotel_room"
    assert (revealed_by("a ferry service", ["Ferries"]), revealed_by("glass", ["glas"])) == ("Ferries", "")


def test_many_values_are_cut():
    service = Service("A", "a", [Slot("n", "n", True, [str(i) for i in range(2_000)])], [])
    question, *_ = schema_pages.questions_of(service, "descriptions", frozenset())
    assert question.values.endswith("58, 59 and 1,940 more")


#


IDS = st.one_of(
    st.text(),
    st.text(st.sampled_from("./\\%~aA2f:\0\n")),
    st.text(st.sampled_from("\U0001f600\u00e9x"), min_size=100, max_size=250),
)


@given(IDS, IDS)
def test_no_name_leaves_its_folder_and_no_two_ids_share_one(one, other):
    for name in (page_name(one), page_name(other)):
        assert name.isascii()
        assert join("out", f"pages/{name}.0.rewrites.html") == f"out/pages/{name}.0.rewrites.html"
    assert (page_name(one) == page_name(other)) == (one == other)


#


@given(st.lists(st.integers(1, 400)), st.integers(100, 300))
def test_all_items_are_on_a_page_in_order_but_those_too_large(sizes, room):
    parts = [Part("x" * size, str(i), []) for i, size in enumerate(sizes)]
    pages, large = fit(parts, room)
    assert [part for page in pages for part in page] == [part for part in parts if len(part.html) <= room]
    assert large == [part for part in parts if len(part.html) > room]
    assert all(0 < sum(len(part.html) for part in page) <= room for page in pages)


def test_plan_adds_up_by_hand():
    # Two names of one HIT: 100 s, so 0.4166 dollars at 15 an hour.
    plan = plan_units([big_service(1)], Settings())
    names = plan.tasks["names"]
    assert (names.hits, names.fields, names.assignments) == (1, 2, 9)
    assert (names.reward, names.fees, names.cost) == (Decimal("3.78"), Decimal("0.76"), Decimal("4.54"))
    assert (names.estimated_minutes, names.hourly_pay) == (Decimal("15.0"), Decimal("15.12"))
    # Three descriptions: 150 s, 0.625 dollars.
    assert plan.tasks["descriptions"].reward == Decimal("5.67")
    assert plan.total.cost == names.cost + plan.tasks["descriptions"].cost


#


@cases("task", *TASKS)
def test_requester_template_has_its_variable_and_no_other(task):
    template = requester_html(task)
    assert (re.findall(r"\$\{(\w+)\}", template), template.count("${")) == (["body"], 1)
    assert "`" not in template
    assert not re.search(r"<(form|body|html)\b", template)


def test_workers_have_an_hour_or_four_times_the_estimate():
    assert seconds_allowed(estimated_seconds("names", 5)) == 3_600
    assert seconds_allowed(estimated_seconds("descriptions", 60)) == 8_100  # 1,860 s, so 7,440 s, in whole quarters


def test_wordings_fit():
    assert set(WORDING) == {*TASKS, REWRITES, RATINGS}
    for wording in WORDING.values():
        for name, most in (("title", 128), ("description", 2_000), ("keywords", 1_000)):
            assert 0 < len(getattr(wording, name)) <= most
