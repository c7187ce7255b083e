import html

import jinja2
from hypothesis import given, settings
from hypothesis import strategies as st

from parapet.transforms.crowd.hits.markup import carriable, html_of, question_xml, shown, without_variables

ANY = st.text(alphabet=st.characters())  # surrogates and controls included
NASTY = st.lists(
    st.sampled_from(["]]>", "]]", ">", "&", "<", "\r", "\n", "\x00", "\x1f", "\U0001f600", "\ud800", "\uffff", "a"])
)


@settings(deadline=None)  # other tests may hold the machine
@given(st.one_of(ANY, NASTY.map("".join)))
def test_any_page_comes_back_from_the_xml_as_it_went_in(text):
    page = carriable(text)
    assert html_of(question_xml(page)) == page


@settings(deadline=None)  # other tests may hold the machine
@given(st.one_of(ANY, NASTY.map("".join)))
def test_any_text_is_read_as_it_was_shown(text):
    kept = shown(text)
    page = carriable(str(jinja2.Environment(autoescape=True).from_string("{{ text }}").render(text=kept)))
    assert html.unescape(without_variables(html_of(question_xml(page)))) == kept


@settings(deadline=None)  # other tests may hold the machine
@given(ANY)
def test_shown_and_carriable_are_idempotent(text):
    assert (shown(shown(text)), carriable(carriable(text))) == (shown(text), carriable(text))


@settings(deadline=None)  # other tests may hold the machine
@given(ANY)
def test_nothing_that_mturk_refuses_is_left(text):
    page = carriable(text)
    assert all(ord(c) < 0x10000 for c in page)
    assert not any(ord(c) < 32 and c not in "\t\n" for c in page)
