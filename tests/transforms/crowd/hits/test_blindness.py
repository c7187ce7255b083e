"""What a page must not tell, it does not: not in text, ids, classes, comments, scripts, styles, nor in the XML."""

import msgspec
from hits_blindness import hidden_texts, leaks
from hits_corpora import big_service, corpus, hostile_service
from kit import cases

from parapet.schemas.service import TASKS, Intent, Service, Slot
from parapet.transforms.crowd.hits import schema_pages
from parapet.transforms.crowd.hits.page import Settings, page_html, requester_html
from parapet.transforms.crowd.hits.schema_pages import (
    ambiguous_elements,
    choose_cue,
    questions_of,
    render_service,
)

SERVICES = [hostile_service(), big_service(), *corpus()]


@cases("task", *TASKS)
@cases("service", *SERVICES, ids=lambda service: service.service_name)
def test_no_hidden_text_in_the_bytes_of_any_page(service, task):
    questions = list(questions_of(service, task, ambiguous_elements(service)))
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
    settings = Settings()
    hidden_names = _with(service, name=True)
    hidden_descriptions = _with(service, name=False)
    original = {page.record.page: page.html for page in render_service(service, settings).pages}
    for other, task in ((hidden_names, "names"), (hidden_descriptions, "descriptions")):
        changed = {page.record.page: page.html for page in render_service(other, settings).pages}
        assert {path for path in original if f".{task}." in path} == {path for path in changed if f".{task}." in path}
        for path, html in original.items():
            if f".{task}." in path:
                assert changed[path] == html


def test_our_own_words_are_none_of_the_corpus():
    """Instructions and examples are ours: they must not happen to say a name or a description."""
    for task in TASKS:
        for service in corpus():
            for frame in (page_html(task, ""), requester_html(task)):
                assert leaks(frame, [], hidden_texts(service, task)) == []


@cases(
    "page",
    "<p>Give the from location</p>",
    '<input id="from_location">',
    "<!-- from_location -->",
    "<script>var x = 'fromLocation'</script>",
    '<p title="From&#32;location">',
)
def test_the_checker_finds_a_planted_leak(page):
    assert leaks(page, [], ["from_location"]) == ["from_location"]


def _with(service, name):
    """The service with other names, or other descriptions, in the same places."""
    raw = msgspec.to_builtins(service)
    if not name:
        raw["description"] = "zzq"
    for i, element in enumerate(raw["intents"] + raw["slots"]):
        element["name" if name else "description"] = f"zzq_{i}"
    return msgspec.convert(raw, Service)


#


SLOTS = ["type", "where_to", "alarm_time", "new_alarm_time", "restaurant_name", "number_of_rooms", "pct", "city"]
SERVICE = Service("Services_3", "Finds doctors", [Slot(name, name) for name in SLOTS], [Intent("FindDoctor", "Finds")])


def test_generic_short_and_contained_names_are_found():
    found = ambiguous_elements(SERVICE)
    assert found == {f"Services_3/slot/{name}" for name in ("type", "where_to", "alarm_time", "pct")} | {
        "Services_3/service"
    }


@cases("cues", "auto", "none")
@cases("service", *SERVICES, ids=lambda service: service.service_name)
def test_another_name_of_the_service_gives_the_same_names_pages(service, cues):
    other = msgspec.structs.replace(service, service_name="Zzq_7")
    pages = [
        [page.html for page in render_service(each, Settings(cues=cues)).pages if page.record.task == "names"]
        for each in (service, other)
    ]
    assert pages[0] == pages[1]
