"""The workers' side: offers, pages, taking, sending in, giving back; and that any text arrives as it was written."""

import html
import re
from urllib.parse import parse_qs, urlsplit

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from parapet.local_mturk.marketplace import WORKER_ID, answer_xml
from parapet.transforms.crowd.hits.markup import question_xml
from parapet.transforms.crowd.ingest import parse_answer_xml

NOT_XML = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\ud800-\udfff\ufffe\uffff]")


def test_preview_and_accept_lead_to_the_page(make_hit, browser, mturk):
    hit_id = make_hit()
    status, headers, _ = browser.ask("GET", f"/preview?hit_id={hit_id}")
    assert status == 303
    assert parse_qs(urlsplit(headers["Location"]).query)["assignmentId"] == ["ASSIGNMENT_ID_NOT_AVAILABLE"]
    assert browser.ask("GET", headers["Location"])[0] == 200
    status, headers, _ = browser.ask("POST", "/accept", {"hit_id": hit_id, "worker_id": "A1"})
    query = parse_qs(urlsplit(headers["Location"]).query)
    assert status == 303
    assert re.fullmatch("[A-Z0-9]{30}", query["assignmentId"][0])
    assert (query["hitId"], query["workerId"], query["turkSubmitTo"]) == ([hit_id], ["A1"], [mturk.url])
    status, headers, page = browser.ask("GET", headers["Location"])
    assert headers["Content-Type"] == "text/html; charset=utf-8"
    assert 'action="/mturk/externalSubmit"' in page
    assert "https://www.mturk.com" not in page
    # Again, it is the same assignment.
    assert browser.accept(hit_id) == query["assignmentId"][0]
    status, _, page = browser.ask("POST", "/mturk/externalSubmit", {"assignmentId": query["assignmentId"][0], "a": "b"})
    assert (status, "Thank you" in page) == (200, True)


def test_one_assignment_a_worker_and_so_many_a_hit(make_hit, browser):
    hit_id = make_hit(MaxAssignments=2)
    browser.work(hit_id, "A1")
    assert browser.json("GET", "/hits.json?worker_id=A1")[1][0]["reasons"] == ["already_done"]
    assert browser.json("POST", f"/accept?hit_id={hit_id}&worker_id=A1")[1]["reason"] == "already_done"
    held = browser.accept(hit_id, "A2")
    assert browser.json("GET", "/hits.json")[1] == []
    assert browser.json("POST", f"/accept?hit_id={hit_id}&worker_id=A3")[1]["reason"] == "no_assignment_left"
    assert browser.json("POST", "/return", {"assignmentId": held})[0] == 200
    assert browser.submit(held)[1]["reason"] == "returned"
    browser.work(hit_id, "A2")


@pytest.mark.parametrize("worker_id", ["", "a1", "B1", "A", "A 1", "A" * 65, "<script>"])
def test_what_is_no_worker(shared, hit, worker_id):
    _, client, browser = shared
    hit_id = client.create_hit(**hit)["HIT"]["HITId"]
    assert not WORKER_ID.fullmatch(worker_id)
    status, _, page = browser.ask("POST", "/accept", {"hit_id": hit_id, "worker_id": worker_id})
    assert (status, "worker id is an A" in page) == (400, True)


def test_submissions_that_are_refused(make_hit, browser, mturk):
    hit_id = make_hit()
    assert browser.submit("3NONE")[1]["reason"] == "no_such_assignment"
    assert browser.json("POST", "/mturk/externalSubmit", {"slot_0": "x"})[1]["reason"] == "no_such_assignment"
    late = browser.accept(hit_id)
    status, _, page = browser.ask("POST", "/mturk/externalSubmit", {"assignmentId": late})
    assert (status, "no field besides assignmentId" in page) == (400, True)
    mturk.advance(601)
    assert browser.submit(late)[1]["reason"] == "too_late"
    done = browser.work(hit_id)
    status, _, page = browser.ask("POST", "/mturk/externalSubmit", {"assignmentId": done, "slot_0": "again"})
    assert (status, "already" in page) == (400, True)
    for path in ("/preview?hit_id=3NONE", "/page?hitId=3NONE"):
        assert "There is no HIT of this id" in browser.ask("GET", path)[2]
    assert browser.ask("GET", "/nothing")[0] == 404
    browser.connection.request("POST", "/mturk/externalSubmit", b"--x", {"Content-Type": "multipart/form-data"})
    answer = browser.connection.getresponse()
    assert (answer.status, b"Forms are sent as" in answer.read()) == (400, True)


def test_workers_may_have_begun_earlier(make_hit, browser, client):
    hit_id = make_hit()
    for worker_id, seconds, worked in (("A1", 240, 240), ("A2", 10_000, 599)):
        status, answer = browser.json("POST", f"/accept?hit_id={hit_id}&worker_id={worker_id}&seconds={seconds}")
        assert status == 200
        browser.submit(answer["assignment_id"])
        found = client.get_assignment(AssignmentId=answer["assignment_id"])["Assignment"]
        assert worked <= (found["SubmitTime"] - found["AcceptTime"]).total_seconds() <= worked + 30
    assert browser.json("POST", f"/accept?hit_id={hit_id}&worker_id=A3&seconds=-1")[0] == 400


def test_the_index_shows_groups(make_hit, browser):
    for _ in range(2):
        make_hit(Title="Name <things> & parts")
    other = make_hit(Title="Another")
    status, _, page = browser.ask("GET", "/")
    assert status == 200
    assert "Name &lt;things&gt; &amp; parts" in page
    assert "2 HITs, 6 assignments left" in page
    assert "Accept and work" not in page
    browser.work(other, "A1")
    held = browser.accept(other, "A2")
    page = browser.ask("GET", "/?worker_id=A1")[2]
    assert page.count("Accept and work") == 1
    assert "Not available to you: already done" in page
    group = html.unescape(re.search(r'name="group_id" value="([^"]+)"', page).group(1))
    assert browser.ask("POST", "/accept", {"group_id": group, "worker_id": "A1"})[0] == 303
    page = browser.ask("GET", "/?worker_id=A2")[2]
    assert f'name="assignmentId" value="{held}"' in page
    assert browser.json("POST", "/accept", {"group_id": "3NONE", "worker_id": "A1"})[1]["reason"] == "no_hit_left"
    assert browser.ask("GET", "/?worker_id=%3Cx%3E")[0] == 400


TEXTS = st.one_of(
    st.text(st.characters(exclude_categories=["Cs"]), max_size=60),
    st.text(st.sampled_from("<>&\"'\r\n\t ]\u00a0\u2028\U0001f600+%=;"), max_size=30),
    st.sampled_from(["]]>", "<![CDATA[x]]>", "&amp;", "<!DOCTYPE a>", "a\r\nb", "\r", " ", "%00", "&#13;"]),
)


@settings(max_examples=60, deadline=None)
@given(st.dictionaries(TEXTS.filter(bool), TEXTS, min_size=1, max_size=5))
def test_any_answer_can_be_read_again(answers):
    seen = {NOT_XML.sub("\ufffd", name).strip(): NOT_XML.sub("\ufffd", text) for name, text in answers.items()}
    assume(len(seen) == len(answers))
    assert parse_answer_xml(answer_xml(answers)) == seen


def test_pages_are_served_letter_for_letter(client, hit, browser):
    page = (
        '<html><body><form method=post action="https://workersandbox.mturk.com/mturk/externalSubmit"><p>\u00e9 ]]> '
        '&#128512; &lt;</p><input name="a"></form></body></html>'
    )
    made = client.create_hit(**hit | {"Question": question_xml(page).decode()})["HIT"]["HITId"]
    assert browser.ask("GET", f"/page?hitId={made}")[2] == page.replace("https://workersandbox.mturk.com", "")
