"""A person at work: the index, a real page of ``parapet hits`` in preview and accepted, in Chromium."""

import os
import shutil
from urllib.parse import parse_qs, urlsplit

import pytest

from parapet.transforms.crowd.ingest import parse_answer_xml

playwright_api = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")

CHROMIUM = os.environ.get("PARAPET_CHROMIUM") or shutil.which("chromium")
FLAGS = ["--headless", "--no-sandbox", "--disable-gpu", "--disable-background-networking", "--no-first-run"]

pytestmark = pytest.mark.skipif(not CHROMIUM, reason="no chromium: install Debian's chromium package")

ADJECTIVES = "calm wide blue early quick plain round light warm tidy sharp green".split()  # noqa: SIM905


@pytest.fixture
def page():
    with playwright_api.sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=FLAGS)
        yield browser.new_page(viewport={"width": 375, "height": 800})
        browser.close()


def fits(page):
    return page.evaluate("document.documentElement.scrollWidth <= document.documentElement.clientWidth")


def test_from_the_list_to_the_thanks(pages, mturk, client, make_hit, page):
    folder, manifest = pages
    records = [each for each in manifest if each["task"] == "descriptions"]
    record = min(records, key=lambda each: len(each["fields"]))
    hit_id = make_hit(
        Question=(folder / record["question"]).read_text(),
        Title=record["title"],
        Description=record["description"],
        RequesterAnnotation=record["requester_annotation"],
    )
    page.goto(mturk.url)
    assert fits(page)
    page.get_by_role("link", name="Preview").click()
    assert page.get_by_text("This is a preview").is_visible()
    assert page.locator(f"#{record['fields'][0]}").is_disabled()

    page.goto(mturk.url)
    page.get_by_label("Your worker id").fill("APRACTICE1")
    page.get_by_role("button", name="Work as this worker").click()
    page.get_by_role("button", name="Accept and work").click()
    assert not page.get_by_text("This is a preview").is_visible()
    query = parse_qs(urlsplit(page.url).query)
    assert (query["hitId"], query["workerId"]) == ([hit_id], ["APRACTICE1"])

    texts = {
        field: f'a {ADJECTIVES[i % 12]} "thing" <{i}> {ADJECTIVES[i // 12]} \U0001f600'
        for i, field in enumerate(record["fields"])
    }
    for field, text in texts.items():
        page.fill(f"#{field}", text)
    page.get_by_role("button", name="Submit").click()
    page.get_by_role("heading", name="Thank you").wait_for()
    assert fits(page)
    (assignment,) = client.list_assignments_for_hit(HITId=hit_id)["Assignments"]
    assert (assignment["WorkerId"], parse_answer_xml(assignment["Answer"])) == ("APRACTICE1", texts)
