import pytest
from hits_dialogues import dialogue, system, user

from parapet.transforms.crowd.hits.rewrite_pages import choose, scan, turn_task_id, user_turns
from parapet.transforms.running.seeding import stable_digest


def talks(n, ids="a"):
    turns = [user("Hello there"), system("Yes?"), user("Find a room"), system("Done."), user("")]
    return [dialogue(*turns, id=f"{ids}{i}") for i in range(n)]


def drawn(files, turns, seed=0):
    choice = choose([scan(i, f"f/{i}", file, turns, seed) for i, file in enumerate(files)], turns)
    return {
        turn_task_id(each.dialogue_id, turn)
        for i, file in enumerate(files)
        for k, each in enumerate(file)
        for turn in user_turns(each)
        if (i, k) not in choice.elsewhere and turn < 4 and choice.draws(seed, turn_task_id(each.dialogue_id, turn))
    }


def test_a_larger_draw_has_the_smaller_in_it_and_a_seed_changes_it():
    assert drawn([talks(20)], 5) < drawn([talks(20)], 9)
    assert drawn([talks(20)], 5) != drawn([talks(20)], 5, seed=1)


def test_turns_that_cannot_be_asked_are_not_drawn():
    assert not choose([scan(0, "f/0", [dialogue(user(""))], 3, 0)], 3).draws(0, "1_00000:0:rewrites")


@pytest.mark.parametrize("turns", [0, 1, 3, 50])
def test_as_many_are_drawn_as_of_a_plain_list(turns):
    """The first keys of all, but for those of dialogues whose id an earlier one has."""
    files = [talks(5), [], talks(8), talks(4, "b")]
    asked = {turn_task_id(f"{name}{i}", turn) for name, n in (("a", 8), ("b", 4)) for i in range(n) for turn in (0, 2)}
    assert drawn(files, turns) == set(sorted(asked, key=lambda task_id: stable_digest("0", task_id))[:turns])
