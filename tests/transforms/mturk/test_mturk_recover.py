"""A journal that is lost, or an old copy of itself: nothing is asked or paid for again."""

import pytest
from kit import cases
from mturk_bench import NAMES, OTHER, cut

DAY = 25 * 3_600
HEAD = "service_name,element_id,task,field,have,need,in_review,reason\n"
LEFT = {"missing": None, "empty": b"", "half a line": b'{"at":"2026-11-23T1', "zeros": bytes(4096), "blank": b"\n"}


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


def damage(bench, left):
    path = bench.batch / "journal.jsonl"
    if left is None:
        path.unlink()
    else:
        path.write_bytes(left)


def actions(bench):
    """Every command on the batch, and its flags."""
    topup = ("--shortfall", bench.file("shortfall.csv", HEAD + "Ferries_1,x,descriptions,slot_0,3,5,0,a\n"))
    return {"publish": (), "collect": (), "topup": topup, "pay": ("--all",), "stop": (), "status": ()}


@cases("left", *LEFT)
def test_a_lost_journal_is_recovered_and_nothing_is_asked_or_paid_for_twice(bench, left):
    flags = actions(bench)
    bench.ok("publish", "--max_per_worker", 5)
    made = bench.work(NAMES, [1, 2]) + bench.work(OTHER, [3])
    bench.ok("collect")
    bench.ok("topup", *flags["topup"])
    bonuses = bench.file("bonuses.csv", f"assignment_id,amount,reason\n{made[0]},0.25,Thanks\n")
    bench.ok("pay", "--all", "--bonuses", bonuses)
    before, status = there(bench), bench.status()["total"]
    damage(bench, LEFT[left])
    bench.server.advance(DAY)  # the tokens live a day
    before["balance"] = there(bench)["balance"]
    bench.ok("publish", "--recover")
    assert "3 HITs that an interrupted run had created were found again" in bench.err
    assert there(bench) == before
    bench.ok("collect")
    bench.ok("pay", "--all", "--bonuses", bonuses)
    assert there(bench) == before
    again = bench.status()["total"]
    assert {name: again[name] for name in ("hits", "wanted", "submitted", "approved", "paid")} == {
        name: status[name] for name in ("hits", "wanted", "submitted", "approved", "paid")
    }
    assert bench.open().settings.max_per_worker == 5
    if LEFT[left]:
        assert (bench.batch / "journal.jsonl.lost").read_bytes() == LEFT[left]
    bench.ok("publish", "--recover")  # once more changes nothing
    assert there(bench) == before


def test_without_what_it_was_begun_with_nothing_is_recovered(bench):
    bench.ok("publish")
    before = there(bench)
    damage(bench, b"")
    for content in (None, b"", b"[]", b"{}", b'{"id": 1, "endpoint": 2, "settings": {}}'):
        (bench.batch / "batch.json").unlink() if content is None else (bench.batch / "batch.json").write_bytes(content)
        assert "recover" in bench.err_of(1, bench.publish("--recover"))
        assert "PARAPET_DEBUG" not in bench.err
    assert there(bench) == before


def test_a_batch_that_is_whole_has_nothing_to_recover(bench):
    bench.ok("publish", "--recover")  # not even begun
    before = there(bench), bench.journal()
    bench.ok("publish", "--recover")
    assert (there(bench), bench.journal()[: len(before[1])]) == before
    assert not (bench.batch / "journal.jsonl.lost").exists()


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
    assert len(before["hits"]) == 4
    whole = (bench.batch / "journal.jsonl").read_bytes().splitlines(keepends=True)
    for kept in range(1, len(whole) + 1, step):
        damage(bench, b"".join(whole[:kept]))
        bench.ok("publish")
        bench.ok("topup", "--hits", more)
        bench.do("topup", *flags["topup"])
        bench.ok("collect")
        bench.ok("pay", "--all", "--bonuses", bonuses)
        assert there(bench) == before, kept
