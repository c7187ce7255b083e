"""People collect a batch in browsers, and annotators with a server that is killed: what is acknowledged is exported."""

import kit
import pytest
from annotators import figures
from collect_site import SCHEMA, site
from kit import THOROUGH, rows_of

SAID = {
    "names": {"intent_0": "hand over box", "slot_0": "load in kilos", "slot_1": "receipt confirmed"},
    "descriptions": {
        "intent_0": "Have a box brought to someone",
        "slot_0": "Kilos on the scales",
        "slot_1": "If the person at the door confirms",
        "service": "Carries boxes from door to door",
    },
}


@pytest.fixture(scope="module")
def corpus(tmp_path_factory):
    return kit.corpus(tmp_path_factory.mktemp("corpus"), SCHEMA, test=[])


def hits(folder, corpus, assignments):
    kit.run("hits", schemas=corpus, output=folder / "hits", assignments=assignments)
    return folder / "hits"


def opened(browser, link, width):
    page = browser.new_context(viewport={"width": width, "height": 800}).new_page()
    page.set_default_timeout(20_000)
    page.troubles = []
    page.on("pageerror", lambda error: page.troubles.append(str(error)))
    page.on("console", lambda said: page.troubles.append(said.text) if "Content Security" in said.text else None)
    page.goto(link)
    return page


def write(page):
    """Types the answers of the task that the page shows; gives them."""
    page.wait_for_selector("#hit button")
    said = SAID["names" if page.query_selector("#hit input#slot_0") else "descriptions"]
    for field, text in said.items():
        page.locator(f"#{field}").press_sequentially(text)
    return said


def test_two_people_complete_a_batch(tmp_path, corpus, browser):
    with site(tmp_path, hits(tmp_path, corpus, 1), people=("Anna", "Ben")) as it:
        people = [opened(browser, it.invitation(n), width) for n, width in ((1, 390), (2, 1280))]
        for page in people:
            page.click("text=Begin")
        written = []
        for page in people:  # both have a task at the same time
            said = write(page)
            page.reload()
            assert {field: page.input_value(f"#{field}") for field in said} == said  # the draft
            assert not page.evaluate("document.documentElement.scrollWidth > innerWidth")
            page.click("#hit button")
            page.wait_for_url("**/done")
            assert "completion code" in page.inner_text("main")
            assert page.evaluate("localStorage.length") == 0
            written.append(said)
        requester = opened(browser, it.invitation(0), 1280)
        requester.wait_for_selector("text=2 of 2 assignments are done")
        assert [trouble for page in (*people, requester) for trouble in page.troubles] == []
    rows = rows_of(tmp_path / "a.jsonl")
    assert sorted(map(repr, (row["Answers"] for row in rows))) == sorted(map(repr, written))
    for row in rows:
        assert row["Keystrokes"] == {field: len(text) for field, text in row["Answers"].items()}
        assert set(row["Pastes"].values()) == {0}
        assert all(seconds > 0 for seconds in row["Seconds"].values())
    composed = kit.run("compose", schemas=corpus, responses=tmp_path / "a.jsonl", output=tmp_path / "out", status=None)
    answers = composed.rows("responses.parquet")
    assert {answer["source"] for answer in answers} == {"in_house"}
    assert {answer["reason"] for answer in answers} <= {"service_incomplete", "too_fast"}
    assert all(answer["keystrokes"] == len(answer["text"]) for answer in answers)


def test_a_full_disk_and_a_server_that_is_away_leave_the_text_in_the_browser(tmp_path, corpus, browser):
    with site(tmp_path, hits(tmp_path, corpus, 1)) as it:
        page = opened(browser, it.invitation(1), 390)
        page.click("text=Begin")
        said = write(page)
        page.route("**/submit", lambda route: route.fulfill(status=507, json={"message": "The disk is full."}))
        page.click("#hit button")
        page.wait_for_selector("text=The disk is full.")
        page.unroute("**/submit")
        failures = iter(range(2))
        page.route("**/submit", lambda route: route.continue_() if next(failures, None) is None else route.abort())
        page.reload()
        assert {field: page.input_value(f"#{field}") for field in said} == said
        page.click("#hit button")  # it tries again by itself
        page.wait_for_url("**/done")
        assert it.store.submissions() == 1


def test_annotators_and_a_server_that_is_killed(tmp_path, corpus):
    annotators, kills = (200, 30) if THOROUGH else (4, 2)
    assert figures(tmp_path, hits(tmp_path, corpus, annotators // 2), annotators, kills) == (annotators, {})


def test_mistakes_are_named(tmp_path, corpus):
    made, db = hits(tmp_path, corpus, 1), tmp_path / "a.sqlite"
    serve = ("collect", "serve", "--db", db)
    for flags, word in (
        ({}, "--hits"),
        ({"hits": tmp_path}, "not the output of 'parapet hits'"),
        ({"hits": made, "port": 99_999}, "--port"),
        ({"hits": made, "people": 0}, "--people"),
        ({"hits": made, "people": tmp_path / "none"}, "none"),
        ({"hits": made, "host": "0.0.0.0"}, "--public_url"),
        ({"hits": made, "public_url": "crowd.example"}, "--public_url"),
        ({"hits": made, "public_url": "https://a.example/b"}, "--public_url"),
        ({"hits": made, "platform": "prolific"}, "--completion_url"),
        ({"hits": made, "platform": "prolific", "completion_url": "https://x.example", "people": 3}, "--people"),
        ({"hits": made, "platform": "prolific", "completion_url": "https://x.example"}, "--study_id"),
        ({"hits": made, "tasks_per_person": 0}, "--tasks_per_person"),
        ({"export_only": True}, "there is no such file"),
    ):
        assert word in kit.refused(*serve, **flags), flags
    page = next((made / "pages").glob("*.html"))
    page.write_text(page.read_text().replace("mturk_form", "form"))
    assert "make the pages again" in kit.refused(*serve, hits=made)
