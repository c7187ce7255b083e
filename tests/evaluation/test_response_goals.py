"""Inform and Success: what an offer is, and what answers a request."""

from kit import cases

from parapet.evaluation.response.goals import Goal, Knowledge, Request, Response, Search, judge, satisfies

ROWS = [
    {"name": "Anchor", "city": "Rome", "price": "10", "phone": "123"},
    {"name": "Bell", "city": "Rome", "price": "20", "phone": "456"},
    {"name": "Castle", "city": "Bonn", "price": "10", "phone": "789"},
]
KNOWN = Knowledge({"Inns_1": ROWS}, [("Inns_1", "city", "Rome", "the eternal city"), ("Inns_1", "price", "10", "ten")])
ROMAN = Search("Inns_1", {"city": ("Rome",)}, ("name",))


def met(search, *said):
    turns = [Response(2 * i + 1, one) if isinstance(one, str) else one for i, one in enumerate(said)]
    return judge(Goal((search,)), turns, KNOWN).searches[0]


def test_an_offer_counts_in_its_turns_only():
    late = Search("Inns_1", {"city": ("Rome",)}, ("name",), first=3, last=3)
    assert not met(late, "Anchor!", "Well.", "Anchor!")
    assert met(late, "Well.", "Anchor!", "Well.")


def test_placeholders_speak_of_the_entities_of_the_state():
    def said(text, city, *services):
        return Response(1, text, {"Inns_1": {"city": (city,)}}, services or None)

    assert met(ROMAN, said("[name] is nice", "Rome"))
    assert met(ROMAN, said("[Inns-name] is nice", "the eternal city"))
    assert met(ROMAN, said("[value_name] is nice", "Rome", "Inns_1"))
    assert not met(ROMAN, said("[name] is nice", "Bonn"))
    assert not met(ROMAN, said("[name] is nice", "dontcare"))  # Castle might be meant
    assert not met(ROMAN, said("[name] is nice", "Rome", "Taxis_1"))
    assert not met(ROMAN, said("[taxi_name] is nice", "Rome"))
    assert not met(ROMAN, Response(1, "[name] is nice"))


def test_the_last_offer_counts():
    def said(turn, text, **slots):
        return Response(turn, text, {"Inns_1": {slot: (value,) for slot, value in slots.items()}})

    assert met(ROMAN, said(1, "[name]", city="Bonn"), said(3, "[name]", city="Rome"))
    assert not met(ROMAN, said(1, "[name]", city="Rome"), said(3, "[name]", city="Bonn"))
    # As in MultiWOZ's script: what was offered stays so where more is spoken of that includes it.
    assert met(ROMAN, said(1, "[name]", city="Rome"), said(3, "[name]"))


def test_what_needs_no_offer():
    assert met(Search("Inns_1", {}, (), given=True), "Hello")
    optional = Search("Inns_1", {"city": ("Rome",)}, ("name",), optional=True)
    assert met(optional, "Hello")
    assert not met(optional, Response(1, "[name]", {"Inns_1": {"city": ("Bonn",)}}))


@cases(
    "text answered",
    ("Call 555-1.", True),
    ("Call 555-12.", False),
    ("Anchor has 123.", True),  # of what was offered
    ("Bell has 456.", True),
    ("Castle has 789.", False),
    ("[phone]", True),
    ("[inns_phone]", True),
    ("[inns_1_phone]", True),
    ("[taxi_phone]", False),
    ("phone", False),
)
def test_what_answers_a_request(text, answered):
    goal = Goal((ROMAN,), (Request("Inns_1", "phone", ("555-1",), 3),))
    found = judge(goal, [Response(1, "Anchor or Bell? 555-1"), Response(3, text)], KNOWN)
    assert (found.requests, found.inform, found.success) == ((answered,), 1.0, float(answered))


def test_constraints():
    train = {"day": "monday", "leaveAt": "9:15", "arriveBy": "10:07"}
    assert satisfies(train, {"day": ("MONDAY", "sunday"), "colour": ("red",), "leaveAt": ("dontcare",)})
    assert not satisfies(train, {"day": ("sunday",)})
    assert satisfies(train, {"leaveAt": ("09:15",), "arriveBy": ("10:30",)})
    assert not satisfies(train, {"leaveAt": ("09:30",)})
    assert not satisfies(train, {"arriveBy": ("10:00",)})


def test_an_offer_in_words():
    assert met(ROMAN, "How about ANCHOR?")
    assert not met(ROMAN, "How about Castle?")
    assert not met(ROMAN, "How about Anchorage?")
    assert not met(ROMAN)
    both = Search("Inns_1", {"city": ("rome",)}, ("name", "price"))
    assert met(both, "Anchor, at ten.")
    assert not met(both, "Anchor, at 20.", "At 10!")
