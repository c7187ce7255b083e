from decimal import Decimal

from hits_corpora import big_service

from parapet.transforms.crowd.hits.make_hits import plan_of
from parapet.transforms.crowd.hits.page import Settings
from parapet.transforms.crowd.hits.schema_pages import render_service


def test_plan_adds_up_by_hand():
    # Two names of one HIT: 100 s, so 0.4166 dollars at 15 an hour.
    hits = render_service(0, big_service(1), Settings())
    plan = plan_of([hits], Settings())
    names = plan.rows["names"]
    assert (names.hits, names.fields, names.assignments) == (1, 2, 9)
    assert (names.reward, names.fees, names.cost) == (Decimal("3.78"), Decimal("0.76"), Decimal("4.54"))
    assert names.estimated_minutes == Decimal("15.0")
    assert names.hourly_pay == Decimal("15.12")
    # Three descriptions: 150 s, 0.625 dollars.
    assert plan.rows["descriptions"].reward == Decimal("5.67")
    assert plan.rows["total"].cost == names.cost + plan.rows["descriptions"].cost
