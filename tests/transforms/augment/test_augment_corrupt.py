"""Words replaced and reordered: what must hold for any words, rates and seeds."""

from kit import cases

from parapet.transforms.reports.text import Convention
from parapet.transforms.splits.augment.plan import name_of


@cases(
    "words original convention expected",
    (["code", "zip"], "zip_code", Convention.SNAKE, "code_zip"),
    (["gym", "find"], "FindGym", Convention.CAMEL, "GymFind"),
    (["area", "price"], "hotel-price_area", Convention.DOMAIN_SLOT, "hotel-area_price"),
    (["hotel", "area"], "hotel-price_area", Convention.DOMAIN_SLOT, "hotel-hotel_area"),
    (["HTTP"], "HTTP_", Convention.SNAKE, "HTTP"),
    (["http"], "HTTP_", Convention.SNAKE, "HTTP_"),
)
def test_names(words, original, convention, expected):
    assert name_of(words, original, convention) == expected
