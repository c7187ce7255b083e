"""Questions about a schema: their pages, plans and terms."""

import re
from decimal import Decimal

from hits_corpora import big_service
from hypothesis import given
from hypothesis import strategies as st
from kit import cases

from parapet.schemas.service import TASKS, Intent, Service, Slot
from parapet.transforms.core.files import join
from parapet.transforms.crowd.hits.make_hits import plan_units
from parapet.transforms.crowd.hits.markup import page_name
from parapet.transforms.crowd.hits.page import Part, Settings, fit, requester_html
from parapet.transforms.crowd.hits.schema_pages import Question, questions_of
from parapet.transforms.crowd.hits.terms import RATINGS, REWRITES, WORDING, Terms, estimated_seconds, seconds_allowed

SERVICE = Service(
    "Hotels_1",
    "Rooms for travellers",
    [Slot("has_wifi", "Whether there is wifi", True, ["True", "False"]), Slot("where", "  ")],
    [Intent("FindHotel", "Look for\na hotel")],
)


def test_names_show_descriptions_and_nothing_else():
    questions = list(questions_of(SERVICE, "names", frozenset({"Hotels_1/slot/has_wifi"})))
    assert questions == [
        Question("Hotels_1/intent/FindHotel", "intent_0", "intent", "Look for a hotel"),
        Question("Hotels_1/slot/has_wifi", "slot_0", "slot", "Whether there is wifi"),
        Question("Hotels_1/slot/where", "slot_1", "slot", ""),
    ]


def test_many_values_are_cut():
    service = Service("A", "a", [Slot("n", "n", True, [str(i) for i in range(2_000)])], [])
    questions = list(questions_of(service, "descriptions", frozenset()))
    assert questions[0].values.endswith("58, 59 and 1,940 more")


#


IDS = st.one_of(
    st.text(),
    st.text(st.sampled_from("./\\%~aA2f:\0\n")),
    st.text(st.sampled_from("\U0001f600\u00e9x"), min_size=100, max_size=250),
)


@given(IDS, IDS)
def test_no_name_leaves_its_folder_and_no_two_ids_share_one(one, other):
    for name in (page_name(one), page_name(other)):
        assert name.isascii()
        assert join("out", f"pages/{name}.0.rewrites.html") == f"out/pages/{name}.0.rewrites.html"
    assert (page_name(one) == page_name(other)) == (one == other)


#


@given(st.lists(st.integers(1, 400)), st.integers(100, 300))
def test_all_items_are_on_a_page_in_order_but_those_too_large(sizes, room):
    parts = [Part("x" * size, str(i), []) for i, size in enumerate(sizes)]
    pages, large = fit(parts, room)
    assert [part for page in pages for part in page] == [part for part in parts if len(part.html) <= room]
    assert large == [part for part in parts if len(part.html) > room]
    assert all(0 < sum(len(part.html) for part in page) <= room for page in pages)


def test_plan_adds_up_by_hand():
    # Two names of one HIT: 100 s, so 0.4166 dollars at 15 an hour.
    plan = plan_units([big_service(1)], Settings())
    names = plan.tasks["names"]
    assert (names.hits, names.fields, names.assignments) == (1, 2, 9)
    assert (names.reward, names.fees, names.cost) == (Decimal("3.78"), Decimal("0.76"), Decimal("4.54"))
    assert (names.estimated_minutes, names.hourly_pay) == (Decimal("15.0"), Decimal("15.12"))
    # Three descriptions: 150 s, 0.625 dollars.
    assert plan.tasks["descriptions"].reward == Decimal("5.67")
    assert plan.total.cost == names.cost + plan.tasks["descriptions"].cost


#


@cases("task", *TASKS)
def test_requester_template_has_its_variable_and_no_other(task):
    template = requester_html(task)
    assert (re.findall(r"\$\{(\w+)\}", template), template.count("${")) == (["body"], 1)
    assert "`" not in template
    assert not re.search(r"<(form|body|html)\b", template)


def test_a_fixed_reward_is_written_with_cents():
    assert str(Terms(reward=Decimal("2.5")).reward_for(8_060)) == "2.50"


def test_the_upper_fee_begins_at_ten_assignments():
    assert Terms(assignments=9).fees_for(Decimal("1.00")) == Decimal("1.80")
    assert Terms(assignments=10).fees_for(Decimal("1.00")) == Decimal("4.00")


def test_workers_have_an_hour_or_four_times_the_estimate():
    assert seconds_allowed(estimated_seconds("names", 5)) == 3_600
    assert seconds_allowed(estimated_seconds("descriptions", 60)) == 8_100  # 1,860 s, so 7,440 s, in whole quarters


def test_wordings_fit():
    assert set(WORDING) == {*TASKS, REWRITES, RATINGS}
    for wording in WORDING.values():
        assert 0 < len(wording.title) <= 128
        assert 0 < len(wording.description) <= 2_000
        assert 0 < len(wording.keywords) <= 1_000
