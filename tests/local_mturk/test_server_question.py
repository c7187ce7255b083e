"""What may be in an HTMLQuestion, and what becomes of it."""

import pytest
from kit import raised

from parapet.local_mturk.errors import MTurkError
from parapet.local_mturk.question import MAX_BYTES, as_served, check_question, html_of, read_form
from parapet.transforms.crowd.hits.markup import question_xml

LIVE = "https://www.mturk.com/mturk/externalSubmit"


def page(action=LIVE, method="post", inside=""):
    return f'<html><body><form action="{action}" method="{method}"><input name="a">{inside}</form></body></html>'


def question(html=None):
    return question_xml(page() if html is None else html).decode()


BAD = [
    (question().replace("</HTMLQuestion>", ""), "not well-formed"),
    ("", "not well-formed"),
    (question().replace("2011-11-11", "2005-10-01"), "Its root is"),
    ("<HTMLQuestion/>", "Its root is"),
    ('<!DOCTYPE x [<!ENTITY a "b">]>' + question(), "not well-formed"),
    (question(page(inside="\U0001f600")), "four UTF-8 bytes (U+1F600)"),
    (question(page(inside="a\x0bb")), "control character (U+000B)"),
    (question(" "), "no HTMLContent"),
    (question().replace("<FrameHeight>0</FrameHeight>", ""), "FrameHeight"),
    (question().replace("<FrameHeight>0", "<FrameHeight>x"), "FrameHeight"),
    (question("<p>hello"), "no form"),
    (question(page(method="get")), "does not post"),
    (question(page(action="https://example.com/mturk/externalSubmit")), "does not post"),
    (question(page(action="")), "does not post"),
]


@pytest.mark.parametrize(("xml", "reason"), BAD)
def test_a_question_that_cannot_be_a_hit(xml, reason):
    caught = raised(MTurkError, check_question, xml)
    assert caught.turk_code == "InvalidParameterValue"
    assert "is not valid for the parameter Question." in caught.message
    assert reason in caught.message
    assert len(caught.message) < 500


def test_bytes_are_counted_not_letters():
    fits = question(page(inside="\u20ac" * ((MAX_BYTES - len(question())) // 3)))
    assert MAX_BYTES - 3 < len(fits.encode()) <= MAX_BYTES
    check_question(fits)
    raised(MTurkError, check_question, fits.replace("<html>", "<html >  "), match="bytes; at most 65,535")


def test_a_form_is_read_as_browsers_do():
    form = read_form(
        '<input name=before><FORM ACTION="/x" METHOD=POST><fieldset disabled><input name=a value="1 &amp; 2">'
        "<textarea name=t>\nin it</textarea><input type=checkbox name=c><input type=submit name=s>"
        "<select name=o><option>1</select><input></fieldset></form><input name=after>"
    )
    assert form is not None
    assert (form.action, form.method, form.fields) == ("/x", "post", {"a": "1 & 2", "t": "\nin it", "o": ""})
    assert set(form.choices) == {"c"}
    assert read_form("<p>") is None


SANDBOX = "https://workersandbox.mturk.com/mturk/externalSubmit"


@pytest.mark.parametrize("action", [LIVE, SANDBOX])
def test_served_pages_post_here_and_are_else_the_same(action):
    html = page(action, inside=f"<p>See {action} ]]> &amp; \u00e9</p>")
    check_question(question(html))
    served = as_served(html_of(question(html)))
    assert served == html.replace(f'action="{action}"', 'action="/mturk/externalSubmit"')
