import csv
import html
import io
import re

import pytest
from hits_corpora import big_service, corpus, hostile_service

from parapet.schemas.service import TASKS, Service, Slot
from parapet.transforms.crowd.hits.make_hits import CSV_COLUMNS, csv_head, csv_rows, summary_files
from parapet.transforms.crowd.hits.page import Settings, page_html, requester_html
from parapet.transforms.crowd.hits.schema_pages import Question, body_html, item_html, questions_of, render_service


def test_an_element_that_fits_no_page_is_told_and_the_rest_goes_on():
    service = Service("A_1", "a", [Slot("long_text", "word " * 20_000), Slot("y", "fine"), Slot("z", "\x00")], [])
    hits = render_service(0, service, Settings())
    assert [(each.task_id, each.element_id, each.reason.split(":")[0]) for each in hits.not_asked] == [
        ("A_1:names", "A_1/slot/z", "nothing_to_show"),
        ("A_1:names", "A_1/slot/long_text", "too_large"),
    ]
    assert [page.record.fields for page in hits.pages] == [["slot_1"], ["slot_0", "slot_1", "slot_2", "service"]]


def test_hostile_text_stays_text():
    for page in render_service(0, hostile_service(), Settings()).pages:
        text = page.html.decode()
        assert text.count("<script") == 1
        assert text.count("</form>") == 1
        assert "49" not in re.sub(r"&#\d+;", "", page.body)
        assert "alert(1)&lt;/script&gt;" in text


def test_sandbox_changes_where_the_form_goes_and_nothing_else():
    service = big_service(3)
    live = render_service(0, service, Settings()).pages[0].html.decode()
    sandbox = render_service(0, service, Settings(sandbox=True)).pages[0].html.decode()
    assert 'action="https://www.mturk.com/mturk/externalSubmit"' in live
    assert sandbox == live.replace("//www.mturk.com/", "//workersandbox.mturk.com/")


@pytest.mark.parametrize("task", TASKS)
def test_requester_template_has_its_variable_and_no_other(task):
    template = requester_html(task)
    assert re.findall(r"\$\{(\w+)\}", template) == ["body"]
    assert template.count("${") == 1
    assert "`" not in template
    assert not re.search(r"<(form|body|html)\b", template)


@pytest.mark.parametrize("task", TASKS)
def test_requester_csv_fills_the_template_to_the_same_content(task):
    pages = [
        page for service in (hostile_service(), *corpus()) for page in render_service(0, service, Settings()).pages
    ]
    data = csv_head(task) + csv_rows(pages, task)
    rows = list(csv.DictReader(io.StringIO(data.decode(), newline="")))
    asked = [page for page in pages if page.record.task == task]
    assert len(rows) == len(asked)
    for row, page in zip(rows, asked, strict=True):
        assert tuple(row) == CSV_COLUMNS
        assert not any(line_end in cell for cell in row.values() for line_end in "\r\n")
        assert "${" not in row["body"]
        assert row["fields"].split(" ") == page.record.fields
        assert (row["task_id"], row["task"]) == (page.record.task_id, task)
        filled = requester_html(task).replace("${body}", row["body"])
        content = page.html.decode().partition("<main>\n")[2].rpartition("</main>")[0]
        assert filled.rstrip().endswith(content.rstrip())


def test_same_bytes_whatever_the_order_of_arrival():
    services = [render_service(i, service, Settings()) for i, service in enumerate(corpus())]
    assert summary_files(services, Settings()) == summary_files(services[::-1], Settings())


def test_a_question_without_values_shows_none():
    item = item_html("descriptions", Question("slot_0", "slot", "a_b"))
    assert "Possible values" not in item
    assert "It stands for" not in item
    assert "slot_0-v" not in item


def test_body_is_one_line_with_a_section_for_each_kind():
    asked, _ = questions_of(big_service(2), "descriptions", frozenset())
    questions = [each.question for each in asked]
    body = body_html("descriptions", questions, [item_html("descriptions", question) for question in questions])
    assert "\n" not in body
    assert re.findall(r"<legend>(.*?)</legend>", body) == ["Actions", "Details", "The app as a whole"]
    assert html.unescape(page_html("descriptions", body)).count("quantity_1") == 1
