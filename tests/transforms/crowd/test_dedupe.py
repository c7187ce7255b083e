from decimal import Decimal

from hypothesis import given
from hypothesis import strategies as st
from kit import cases

from parapet.schemas.decisions import Decision
from parapet.schemas.rows import Assignment
from parapet.transforms.crowd import ingest
from parapet.transforms.crowd.ingest import merge_decisions
from parapet.transforms.crowd.task import without_dead


def assignment(answers=None, source="names.csv: row 2", **more):
    facts = {"assignment_id": "3A", "service_name": "Taxi_1", "task": "names", "worker_hash": "ab12", **more}
    return Assignment(answers={"slot_0": "where_to"} if answers is None else answers, source=source, **facts)


def merge_assignments(versions):
    dead = []
    return list(without_dead(ingest.merge_assignments(versions), dead)), dead


def merge(*versions):
    """The result, which must be the same in whatever order the versions came."""
    found = merge_assignments(versions)
    assert merge_assignments(reversed(versions)) == found
    assert merge_assignments([*versions[1:], *versions[:1]]) == found
    return found


# --- assignments -----------------------------------------------------------------------------------------------------


def test_what_one_export_states_is_kept():
    """Its reward, or that it was rejected; one without worker ids contradicts no other."""
    later = assignment(worker_hash="", source="b.csv: row 2", reward=Decimal("1.25"), rejected=True)
    (one,), dead = merge(assignment(), later)
    assert (one.worker_hash, one.reward, one.rejected, dead) == ("ab12", Decimal("1.25"), True, [])


@cases(
    "more difference",
    ({"answers": {"slot_0": "fare"}}, "slot_0"),
    ({"task": "descriptions"}, "task"),
    ({"worker_hash": "cd34"}, "worker"),
)
def test_contradicting_assignments_are_all_dead(more, difference):
    other = assignment(**{"source": "b.csv: row 7", **more})
    merged, dead = merge(assignment(), other)
    reason = f"conflicting_assignment: the same id has different answers ({difference}); see "
    answer = f"slot_0={other.answers['slot_0']}"
    assert (merged, {(one.stage, one.key, one.reason, one.payload, one.source) for one in dead}, len(dead)) == (
        [],
        {
            ("settle", "3A", reason + "b.csv: row 7", "slot_0=where_to", "names.csv: row 2"),
            ("settle", "3A", reason + "names.csv: row 2", answer, "b.csv: row 7"),
        },
        2,
    )


VERSIONS = st.builds(
    assignment,
    st.dictionaries(st.sampled_from(["slot_0", "slot_1"]), st.sampled_from(["", "x", "y"])),
    source=st.sampled_from(["a: row 1", "a: row 2", "b: row 1"]),
    assignment_id=st.sampled_from(["3A", "3B"]),
    worker_hash=st.sampled_from(["ab12", "ab12", "cd34"]),
    asked=st.booleans(),
    accept_time=st.sampled_from([None, 1, 2]),
    rejected=st.booleans(),
)


@given(st.lists(VERSIONS, max_size=6), st.randoms(use_true_random=False))
def test_nothing_is_lost_and_no_order_matters(versions, random):
    merged, dead = merge_assignments(versions)
    assert merge_assignments(random.sample(versions, len(versions))) == (merged, dead)
    for key in {version.assignment_id for version in versions}:
        same = [version for version in versions if version.assignment_id == key]
        found = [m for m in merged if m.assignment_id == key]
        said = {(field, text) for v in same for field, text in v.answers.items()}
        forms = [v for v in same if v.asked] or same  # whose blanks are fields that nobody filled in
        if not any(text for _, text in said) and not any(v.answers for v in forms):
            assert (found, [letter.reason.partition(":")[0] for letter in dead if letter.key == key]) in (
                ([], ["no_answer"]),
                ([], ["conflicting_assignment"] * len(same)),
            )
        elif len({v.worker_hash for v in same}) == 1 and len(said) == len(dict(said)):
            assert (len(found), {f: t for f, t in found[0].answers.items() if t}) == (1, {f: t for f, t in said if t})
        else:
            assert (found, len([letter for letter in dead if letter.key == key])) == ([], len(same))


# --- decisions -------------------------------------------------------------------------------------------------------


def decision(response="3A:slot_0", verdict="accept", source="d.csv:row 2", **more):
    return Decision(response, verdict, source=source, **more)


@cases(
    "first second",
    (decision(), decision(verdict="reject", source="e.csv:row 9")),
    (decision(verdict="fix", text="fare"), decision(verdict="fix", text="price", source="e.csv:row 9")),
)
def test_contradicting_decisions_are_all_dead(first, second):
    told = ("decisions", "3A:slot_0", "contradicting_decisions: see d.csv:row 2, e.csv:row 9")
    for order in ([first, second], [second, first]):
        merged, dead = merge_decisions(order)
        found = [(letter.stage, letter.key, letter.reason, letter.source) for letter in dead]
        assert (merged, found) == ([], [(*told, "d.csv:row 2"), (*told, "e.csv:row 9")])
        assert dead[0].payload == f"decision={first.decision}, text={first.text}, reason="


def test_the_names_of_the_sheets_do_not_show():
    one, two = decision(verdict="reject", reason="b"), decision(verdict="reject", reason="a", source="z.csv: row 2")
    for sheets in ([one, two], [two, one]):
        assert [decision.reason for decision in merge_decisions(sheets)[0]] == ["a"]
