"""Pages of judged utterances: every one on exactly one page, checks that are wrong, parts where they are large."""

import msgspec
from hypothesis import given
from hypothesis import strategies as st

from parapet.transforms.crowd.hits.dialogue_pages import group_items, render_judged
from parapet.transforms.crowd.hits.markup import MAX_BYTES
from parapet.transforms.crowd.hits.page import PlainAct, RatedItem, Settings

TEXTS = st.text(max_size=30)
ACTS = st.lists(st.builds(PlainAct, TEXTS, TEXTS, TEXTS), min_size=1, max_size=3).map(tuple)
STRATA = st.sampled_from(["faithful", "unfaithful", "invalid"])
SERVICES = st.sampled_from(["One_1", "Two_1"])


@st.composite
def samples(draw):
    places = draw(st.lists(st.tuples(st.sampled_from("abc"), st.integers(0, 9)), unique=True, min_size=1, max_size=12))
    return [
        RatedItem(*place, draw(STRATA), draw(st.booleans()), draw(SERVICES), draw(ACTS), draw(TEXTS), draw(TEXTS))
        for place in places
    ]


@given(samples(), st.integers(1, 5), st.integers(0, 2), st.integers(0, 3), st.randoms())
def test_every_utterance_is_on_one_page_and_checks_are_wrong(items, per_page, checks, seed, random):
    groups = group_items(items, per_page, checks, seed)
    on_pages = [[item for item in group if item.stratum != "check"] for group in groups]
    place = lambda item: (item.dialogue_id, item.turn)  # noqa: E731
    assert sorted((item for group in on_pages for item in group), key=place) == sorted(items, key=place)
    assert max(map(len, on_pages)) <= per_page
    assert max(map(len, on_pages)) - min(map(len, on_pages)) <= 1
    utterances = {item.utterance for item in items}
    for group, own in zip(groups, on_pages, strict=True):
        found = [item for item in group if item.stratum == "check"]
        assert len(found) <= checks
        for check in found:
            assert not check.faithful
            assert check.utterance in utterances
            assert place(check) not in map(place, own)
            values = [act.value.casefold() for act in check.acts if len(act.value) > 2 and act.value != "yes"]
            assert values
            assert not any(value in check.utterance.casefold() for value in values)
    # Neither the order in which they come nor the verdicts change a page.
    other = [msgspec.structs.replace(item, stratum="invalid", faithful=not item.faithful) for item in items]
    random.shuffle(other)
    rendered = [render_judged(group, i, Settings()) for i, group in enumerate(groups)]
    again = [render_judged(group, i, Settings()) for i, group in enumerate(group_items(other, per_page, checks, seed))]
    before, after = ([[page.html for page in hits.pages] for hits in all_hits] for all_hits in (rendered, again))
    assert before == after


def test_a_large_page_is_split_and_what_fits_on_none_is_not_asked():
    def item(turn, letters):
        return RatedItem("1", turn, "faithful", True, "Bars_1", (PlainAct("Say goodbye"),), "", "x" * letters)

    items = [item(0, 30_000), item(1, 30_000), item(2, 100_000), item(3, 30_000)]
    hits = render_judged(items, 0, Settings())
    assert ([page.record.part for page in hits.pages], {page.record.parts for page in hits.pages}) == ([1, 2, 3], {3})
    assert len({page.record.task_id for page in hits.pages}) == 1
    assert [page.record.fields for page in hits.pages] == [[f"faithful_{i}", f"natural_{i}"] for i in (0, 1, 3)]
    assert [page.record.items for page in hits.pages] == [[items[0]], [items[1]], [items[3]]]
    assert all(len(page.question) <= MAX_BYTES for page in hits.pages)
    assert [each.element_id for each in hits.not_asked] == ["1:2"]
    assert hits.not_asked[0].reason.startswith("too_large")
