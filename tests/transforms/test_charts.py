"""Charts: the marks are where their numbers are, and the sentence says what the chart shows."""

import re

from hypothesis import example, given
from hypothesis import strategies as st
from kit import cases

from parapet.transforms.report import report
from parapet.transforms.report.report import Bars, Dot, Dots, Report, Scatter, page

LABEL = st.text(max_size=40)
VALUE = st.none() | st.floats(0, 1e6) | st.just(float("nan"))


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


@given(st.lists(st.tuples(LABEL, VALUE), max_size=12), LABEL)
@example([("v1", 5e-324)], "least of all floats")
def test_any_label_and_value_can_be_drawn(rows, name):
    dots = [Dot(label, value, value, value, name) for label, value in rows]
    points = [Dot(label, value, group=label[:1], x=value or 0.0) for label, value in rows]
    drawn = [Dots(title=name, dots=dots), Bars(title=name, dots=dots)]
    drawn.append(Scatter(title=name, x_label=name, y_label=name, dots=points))
    shown = page(Report(command="x", title="x", headline="x", sections=drawn))
    assert ": nan%" not in shown


def test_bars_are_as_long_as_their_values():
    dots = [Dot("a", 1), Dot("b", 2), Dot("c", 0), Dot("d", None)]
    shown = page(Report(command="x", title="x", headline="x", sections=[Bars(title="", dots=dots)]))
    assert re.findall('class="bar s1" style="width: ([0-9.]+)%"', shown) == ["50.0", "100.0", "0.0"]
    assert re.findall('<b style="left: ([0-9.]+)%">([^<]+)<', shown) == [
        ("50.0", "1"),
        ("100.0", "2"),
        ("0.0", "0"),
        ("0.0", "–"),
    ]


def test_dots_lie_on_the_axis_within_their_intervals():
    dots = [Dot("SR-10", 0.4, 0.3, 0.6, "seen"), Dot("SR-10", 0.2, group="unseen"), Dot("SR-20", None, group="seen")]
    chart = Dots(title="", dots=dots, references={"unseen": 0.3})
    assert [chart.axis.place(value) for value in (0.3, 0.4, 0.6)] == [50, 66.67, 100]
    assert [chart.text(dot) for dot in chart.rows["SR-10"]] == [
        "seen, SR-10: 40.0% (30.0% to 60.0%)",
        "unseen, SR-10: 20.0%",
    ]
    shown = page(Report(command="x", title="x", headline="x", sections=[chart]))
    assert 'class="whisker s1" style="left: 50.0%; right: 0.0%"' in shown
    assert 'class="reference s2" style="left: 50.0%"' in shown
    assert "The lowest number is 20.0%, for unseen, SR-10; the highest is 40.0%, for seen, SR-10." in shown


def test_the_chart_of_sets_says_what_costs_most():
    rows = [("original", "ours", 0.631, 0.6, 0.66), ("v4", "ours", 0.5, 0.4, 0.6), ("v5", "ours", 0.31, 0.3, 0.32)]
    drawn = report.sets_chart("JGA", rows)
    assert drawn.note == "At worst, ours falls from 63.1% to 31.0% (v5)."
    assert drawn.references == {"ours": 0.631}
    both = [*rows, ("original", "theirs", 0.2, None, None), ("v4", "theirs", 0.1, None, None)]
    note = "At worst, ours falls from 63.1% to 31.0% (v5), theirs from 20.0% to 10.0% (v4)."
    assert report.sets_chart("JGA", both).note == note
    assert report.sets_chart("JGA", both, "accuracy").note == "At worst, accuracy falls from 63.1% to 31.0% (v5)."
    assert report.sets_chart("JGA", rows[:1]).note == "No number is below its original."
    assert not report.sets_chart("JGA", rows[1:]).note
