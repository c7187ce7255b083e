from parapet.schemas.service import Intent, Service, Slot
from parapet.transforms.crowd.hits.schema_pages import Question, questions_of

SERVICE = Service(
    "Hotels_1",
    "Rooms for travellers",
    [Slot("has_wifi", "Whether there is wifi", True, ["True", "False"]), Slot("where", "  ")],
    [Intent("FindHotel", "Look for\na hotel")],
)


def test_names_show_descriptions_and_nothing_else():
    asked, blank = questions_of(SERVICE, "names", frozenset({"Hotels_1/slot/has_wifi"}))
    assert [each.question for each in asked] == [
        Question("intent_0", "intent", "Look for a hotel"),
        Question("slot_0", "slot", "Whether there is wifi"),
    ]
    assert blank == ["Hotels_1/slot/where"]


def test_many_values_are_cut():
    service = Service("A", "a", [Slot("n", "n", True, [str(i) for i in range(2_000)])], [])
    asked, _ = questions_of(service, "descriptions", frozenset())
    assert asked[0].question.values.endswith("58, 59 and 1,940 more")
