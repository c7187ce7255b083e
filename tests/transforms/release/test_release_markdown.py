"""Text of strangers in Markdown, read back by a CommonMark parser."""

from hypothesis import example, given
from hypothesis import strategies as st
from markdown_it import MarkdownIt
from release_pages import HOSTILE

from parapet.transforms.report import markdown as md

TEXTS = st.one_of(
    st.sampled_from(HOSTILE), st.text(alphabet="ab1. |<>`*_[]()#-+=~!&;\\\n\t$:/", max_size=20), st.text()
)


def parse(text):
    return MarkdownIt("commonmark").enable(["table", "strikethrough"]).parse(text)


def flat(tokens):
    return [one for token in tokens for one in (token, *flat(token.children or []))]


def shown(tokens):
    return "".join(token.content for token in tokens if token.type in ("text", "code_inline"))


@given(TEXTS)
@example("1)")
def test_text_shows_as_it_is(value):
    tokens = flat(parse(md.text(value)))
    assert {token.type for token in tokens} <= {"paragraph_open", "paragraph_close", "inline", "text", "text_special"}
    assert shown(tokens) == md.one_line(value)


@given(st.lists(st.tuples(TEXTS, TEXTS), min_size=1, max_size=4))
def test_a_table_keeps_its_cells(rows):
    tokens = parse(md.table(("text", "code"), [(one, md.code(two)) for one, two in rows]))
    assert [tokens[0].type, tokens[-1].type] == ["table_open", "table_close"]
    cells = [shown(token.children or []) for token in tokens if token.type == "inline"][2:]
    assert cells == [md.one_line(cell) for row in rows for cell in row]
    assert not {"html_inline", "html_block", "link_open", "image"} & {token.type for token in flat(tokens)}


@given(st.lists(TEXTS, min_size=1, max_size=4))
def test_a_list_keeps_its_items(items):
    tokens = parse(md.bullets(items))
    kinds = [token.type for token in tokens]
    assert kinds.count("list_item_open") == len(items)
    assert not {"heading_open", "html_block", "fence", "code_block", "hr"} & set(kinds)
    assert [shown(token.children or []) for token in tokens if token.type == "inline"] == [
        md.one_line(item) for item in items if md.one_line(item)
    ]
