"""Who gets which form: blind to each other, never twice, and no more than wanted."""

from collections import Counter

from collect_site import form
from hypothesis import given
from hypothesis import strategies as st

from parapet.transforms.crowd.serving.store import Event, choose

STATES = ("submitted", "submitted", "submitted", "returned", "expired", "open")


@st.composite
def batches(draw):
    """Services with both tasks, some in parts, some with one task only, and tasks that hide nothing."""
    forms = []
    for s in range(draw(st.integers(1, 4))):
        for task in draw(st.sampled_from((("names",), ("descriptions",), ("names", "descriptions")))):
            wanted = draw(st.integers(1, 3))
            for part in range(draw(st.integers(1, 2))):
                forms.append(form(f"{s}{task}{part}", task, f"S_{s}", wanted))
    forms += [form(f"r{i}", "rewrites", "", draw(st.integers(1, 3)), {f"t{i}"}) for i in range(draw(st.integers(0, 2)))]
    return forms


def event(person, given_form, state):
    return Event(person, given_form, state)


class Batch:
    """A collection as the store keeps it: one open form a person."""

    def __init__(self, forms, limit=None):
        self.forms, self.limit, self.history = forms, limit, []

    def step(self, person, state):
        """A person ends the open form, or gets one; False where there is none."""
        for i, each in enumerate(self.history):
            if each.person == person and each.state == "open":
                self.history[i] = Event(person, each.form, state)
                return True
        chosen = choose(person, self.forms, self.history, self.limit)
        if chosen is not None:
            self.history.append(event(person, chosen, state))
        return chosen is not None

    def check(self):
        seen = {(each.person, each.form.hides, each.form.task) for each in self.history if each.form.hides}
        assert max(Counter((who, service) for who, service, _ in seen).values(), default=1) == 1  # blind
        held = [each for each in self.history if each.state in ("open", "submitted")]
        assert all(Counter(each.form.key for each in held)[of.key] <= of.assignments for of in self.forms)
        twice = Counter((each.person, each.form.task, element) for each in held for element in each.form.elements)
        assert max(twice.values(), default=1) == 1

    def is_complete(self):
        done = Counter(each.form.key for each in self.history if each.state == "submitted")
        return all(done[of.key] == of.assignments for of in self.forms)


@given(batches(), st.lists(st.tuples(st.integers(0, 7), st.sampled_from(STATES)), max_size=150))
def test_names_and_descriptions_stay_blind_whatever_people_do(forms, steps):
    batch = Batch(forms)
    for person, state in steps:
        batch.step(person, state)
        batch.check()


@given(st.integers(1, 4), st.integers(1, 4), st.data())
def test_twice_as_many_people_as_assignments_complete_a_batch(services, wanted, data):
    """In any order, giving forms back as they like, as long as they come again."""
    forms = [form(f"{s}{task}", task, f"S_{s}", wanted) for s in range(services) for task in ("names", "descriptions")]
    people = 2 * wanted
    batch = Batch(forms)
    order = data.draw(st.lists(st.tuples(st.integers(0, people - 1), st.sampled_from(STATES[:4])), max_size=100))
    for person, state in order:
        batch.step(person, state)
    while any(batch.step(person, "submitted") for person in range(people)):
        batch.check()
    assert batch.is_complete()
    assert not Batch(forms).is_complete()


@given(batches(), st.integers(1, 3))
def test_nobody_does_more_than_the_limit(forms, limit):
    batch = Batch(forms, limit)
    while any(batch.step(person, "submitted") for person in range(20)):
        batch.check()
    assert max(Counter(each.person for each in batch.history).values()) <= limit
