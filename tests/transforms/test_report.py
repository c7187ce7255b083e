"""The page and the card of every command: all sections are there, and no text of strangers is markup."""

import re
from html.parser import HTMLParser

from hypothesis import example, given
from hypothesis import strategies as st
from kit import cases, lacking
from markdown_it import MarkdownIt

from parapet.transforms.report import report as reports
from parapet.transforms.report.report import Dot, Dots, Report, Scatter, Table, Text, Tile, card, page

HOSTILE = '<script>alert(1)</script>\'" onload="x" ](javascript:x) |*_`<b>` \ud800\x00\n# h'


class Page(HTMLParser):
    """The tags of a page, and its text."""

    def __init__(self, text):
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.text = ""
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        self.tags.append((tag, dict(attrs)))

    def handle_data(self, data):
        self.text += data


def report(text):
    """Every section, with a text in every place."""
    line = reports.Line(text, [reports.Part(text, text, text, text)])
    return Report(
        **dict.fromkeys(("command", "title", "headline", "lead"), text),
        tiles=[Tile(text, text)],
        sections=[
            Table(title=f"1 {text}", columns=[text, text], rows=[[text, text]], note=text, total_rows=1),
            Dots(title=f"2 {text}", dots=[Dot(text, 0.5, 0.4, 0.6, text), Dot(text, 0.5, group="b")], note=text),
            reports.Bars(title=f"3 {text}", dots=[Dot(text, 1.0, group=text), Dot(text, 2, group="b")], note=text),
            Scatter(title=text, x_label=text, y_label=text, dots=[Dot(text, 0.4), Dot(text, 0.5, x=0.5)], note=text),
            reports.Examples(title=f"4 {text}", examples=[reports.Example(text, [line])], note=text),
            Text(title=text, paragraphs=[text]),
        ],
        terms={text: text},
        notes=[text],
        links={"review.html": text, "statistics.json": text},
    )


def test_no_text_is_markup_in_the_page():
    hostile, plain = Page(page(report(HOSTILE))), Page(page(report("plain `<b>` text\nsmall")))
    allowed = {name for name, _ in plain.tags}
    assert {name for name, _ in hostile.tags} <= allowed
    assert "script" not in allowed
    for _, attributes in hostile.tags:
        assert not any(name.startswith("on") for name in attributes)
    linked = {attributes.get("href") for name, attributes in hostile.tags if name == "a"}
    assert linked == {"review.html", "statistics.json"}
    assert hostile.text.count("<script>alert(1)</script>") > 30
    page(report(HOSTILE)).encode()


def test_page_shows_what_the_report_has():
    shown = page(
        Report(
            command="evaluate",
            title="Dialogue state tracking",
            headline="How ours tracks states",
            lead="See `review.html` and `--decisions`.",
            tiles=[Tile("JGA", "61.2%")],
            sections=[
                Table(title="Sets", columns=["Set", "JGA"], rows=[["SR-10", "40.0%\n38.0% to 42.0%"]]),
                Dots(title="JGA by set", dots=[Dot("SR-10", 0.4, 0.38, 0.42, "Seen"), Dot("SR-10", 0.3, group="New")]),
            ],
            links={"review.html": "what to decide", "other.html": "the rest", "metrics.json": "all numbers"},
        )
    )
    assert 'See <a href="review.html">review.html</a> and <code>--decisions</code>.' in shown
    assert not lacking(shown, "<dt>JGA</dt><dd>61.2%</dd>", '<th scope="row">SR-10</th>')
    assert '<td class="n">40.0%<small>38.0% to 42.0%</small></td>' in shown
    assert "JGA by set. Seen, SR-10: 40.0% (38.0% to 42.0%); New, SR-10: 30.0%" in shown
    nav, _, footer = shown.partition("<footer>")
    assert '<li><a href="other.html">other.html</a>: the rest</li>' in nav
    assert "what to decide" not in shown  # the lead links it
    assert '<li><a href="metrics.json">metrics.json</a>: all numbers</li>' in footer


def test_long_tables_are_cut_and_say_where_the_rest_is():
    table = Table(title="Slots", columns=["Slot"], rows=[*([f"slot {i}"] for i in range(1203)), ["All"]], total_rows=1)
    many = Report(command="x", title="X", headline="X", sections=[table])
    assert "slot 999<" in page(many)
    assert "slot 1000<" not in page(many)
    assert '<tr class="total"><th scope="row">All</th></tr>' in page(many)
    assert "203 more rows are in <code>statistics.json</code>." in page(many)
    assert "| slot 99 |\n| All |" in card(many)
    assert "| slot 100 |" not in card(many)
    assert "1,103 more rows are in `statistics.json`." in card(many)


def test_no_text_is_markup_in_the_card():
    tokens = MarkdownIt("gfm-like", {"html": True, "linkify": False}).parse(card(report(HOSTILE)))
    inside = [child for token in tokens for child in token.children or []]
    assert not [token for token in [*tokens, *inside] if token.type in ("html_block", "html_inline", "link_open")]
    assert sum(token.type == "table_open" for token in tokens) == 1
    titles = [tokens[i + 1].content for i, token in enumerate(tokens) if token.type == "heading_open"]
    assert titles[-2:] == ["Terms", "Files"]
    assert len(titles) == 5  # the report's, the table's, the text's
    card(report(HOSTILE)).encode()


# Charts.


def of_sections(*sections):
    return page(Report(command="x", title="x", headline="x", sections=sections))


LABEL = st.text(max_size=40)


@cases(
    "values ticks",
    ([0.01, 0.02], ["0%", "0.5%", "1%", "1.5%", "2%"]),
    ([-0.2, 0.1], ["-20%", "-10%", "0%", "10%"]),
    ([1.0], ["0%", "20%", "40%", "60%", "80%", "100%"]),
    ([None], ["0%", "20%"]),
)
def test_the_axis_has_round_numbers_and_zero(values, ticks):
    chart = Dots(title="", dots=[Dot(f"{value}", value) for value in values])
    assert [label for _, label in chart.axis.ticks()] == ticks


@given(st.lists(st.tuples(LABEL, st.none() | st.floats(0, 1e6) | st.just(float("nan"))), max_size=12), LABEL)
@example([("v1", 5e-324)], "least of all floats")
def test_any_label_and_value_can_be_drawn(rows, name):
    dots = [Dot(label, value, value, value, name) for label, value in rows]
    points = [Dot(label, value, group=label[:1], x=value or 0.0) for label, value in rows]
    drawn = [Dots(title=name, dots=dots), reports.Bars(title=name, dots=dots)]
    drawn.append(Scatter(title=name, x_label=name, y_label=name, dots=points))
    assert ": nan%" not in of_sections(*drawn)


def test_bars_are_as_long_as_their_values():
    shown = of_sections(reports.Bars(title="", dots=[Dot("a", 1), Dot("b", 2), Dot("c", 0), Dot("d", None)]))
    assert re.findall('class="bar s1" style="width: ([0-9.]+)%"', shown) == ["50.0", "100.0", "0.0"]
    texts = [("50.0", "1"), ("100.0", "2"), ("0.0", "0"), ("0.0", "–")]
    assert re.findall('<b style="left: ([0-9.]+)%">([^<]+)<', shown) == texts


def test_dots_lie_on_the_axis_within_their_intervals():
    dots = [Dot("SR-10", 0.4, 0.3, 0.6, "seen"), Dot("SR-10", 0.2, group="unseen"), Dot("SR-20", None, group="seen")]
    chart = Dots(title="", dots=dots, references={"unseen": 0.3})
    assert [chart.axis.place(value) for value in (0.3, 0.4, 0.6)] == [50, 66.67, 100]
    texts = ["seen, SR-10: 40.0% (30.0% to 60.0%)", "unseen, SR-10: 20.0%"]
    assert [chart.text(dot) for dot in chart.rows["SR-10"]] == texts
    shown = of_sections(chart)
    assert 'class="whisker s1" style="left: 50.0%; right: 0.0%"' in shown
    assert 'class="reference s2" style="left: 50.0%"' in shown
    assert "The lowest number is 20.0%, for unseen, SR-10; the highest is 40.0%, for seen, SR-10." in shown


def test_the_chart_of_sets_says_what_costs_most():
    rows = [("original", "ours", 0.631, 0.6, 0.66), ("v4", "ours", 0.5, 0.4, 0.6), ("v5", "ours", 0.31, 0.3, 0.32)]
    drawn = reports.sets_chart("JGA", rows)
    assert (drawn.note, drawn.references) == ("At worst, ours falls from 63.1% to 31.0% (v5).", {"ours": 0.631})
    both = [*rows, ("original", "theirs", 0.2, None, None), ("v4", "theirs", 0.1, None, None)]
    note = "At worst, ours falls from 63.1% to 31.0% (v5), theirs from 20.0% to 10.0% (v4)."
    assert reports.sets_chart("JGA", both).note == note
    assert reports.sets_chart("JGA", both, "accuracy").note == "At worst, accuracy falls from 63.1% to 31.0% (v5)."
    assert reports.sets_chart("JGA", rows[:1]).note == "No number is below its original."
    assert not reports.sets_chart("JGA", rows[1:]).note
