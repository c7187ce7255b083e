"""A journal that is an old copy of itself: nothing is asked or paid for again."""

import pytest
from kit import cases
from mturk_bench import NAMES, OTHER, cut

DAY = 25 * 3_600
HEAD = "service_name,element_id,task,field,have,need,in_review,reason\n"


def there(bench):
    """What there is at MTurk, all of which costs."""
    found = bench.snapshot()
    return {
        "hits": {hit_id: hit["MaxAssignments"] for hit_id, hit in found["hits"].items()},
        "assignments": bench.statuses(),
        "bonuses": [(bonus["AssignmentId"], bonus["BonusAmount"]) for bonus in found["bonuses"]],
        "types": len(found["qualification_types"]),
        "balance": {name: str(amount) for name, amount in found["balance"].items()},
    }


def actions(bench):
    """Every command on the batch, and its flags."""
    topup = (
        "--hits",
        bench.hits,
        "--shortfall",
        bench.file("shortfall.csv", HEAD + "Ferries_1,x,descriptions,slot_0,3,5,0,a\n"),
    )
    return {"publish": (), "collect": (), "topup": topup, "pay": ("--all",), "stop": (), "status": ()}


@cases("step", 9, pytest.param(1, marks=pytest.mark.thorough))
def test_an_old_copy_of_the_journal_asks_and_pays_for_nothing_again(bench, hits, tmp_path, step):
    """As after a backup from last week: whatever the journal lacks at its end is found at MTurk."""
    flags = actions(bench)
    more = cut(hits, tmp_path / "more", [NAMES], assignments=2)
    made = bench.collected((NAMES, [1, 2]), (OTHER, [3]))
    bench.ok("topup", *flags["topup"])
    bench.ok("topup", "--hits", more)
    bonuses = bench.file("bonuses.csv", f"assignment_id,amount,reason\n{made[0]},0.25,Thanks\n")
    bench.ok("pay", "--all", "--bonuses", bonuses)
    bench.server.advance(DAY)
    before = there(bench)
    assert len(before["hits"]) == 5
    whole = (bench.batch / "journal.jsonl").read_bytes().splitlines(keepends=True)
    for kept in range(1, len(whole) + 1, step):
        (bench.batch / "journal.jsonl").write_bytes(b"".join(whole[:kept]))
        bench.ok("publish")
        bench.ok("topup", "--hits", more)
        bench.do("topup", *flags["topup"])
        bench.ok("collect")
        bench.ok("pay", "--all", "--bonuses", bonuses)
        assert there(bench) == before, kept
