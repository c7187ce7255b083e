"""A network that fails: the results are those of one that does not, and nothing is done twice."""

from collections import Counter
from decimal import Decimal

import pytest
from fake_mturk import Faults
from kit import cases
from mturk_bench import DESCRIPTIONS, NAMES, OTHER

FAULTS = Faults(throttle=0.10, error=0.02, drop_before=0.02, drop_after=0.02)
HEAD = "service_name,element_id,task,field,have,need,in_review,reason\n"


def again(bench, action, *flags):
    """Runs an action until it ends well, as its messages say to."""
    for _ in range(5):
        status = bench.publish(*flags) if action == "publish" else bench.do(action, *flags)
        assert "PARAPET_DEBUG" not in bench.err
        if status == 0:
            return
    pytest.fail(bench.err)


def loop(bench):
    """A batch from end to end; gives what must not depend on the network."""
    again(bench, "publish", "--max_per_worker", 2)
    made = bench.work(NAMES, [1, 2, 3]) + bench.work(OTHER, [1, 2])
    again(bench, "collect")
    made += bench.work(DESCRIPTIONS, [4, 5])
    shortfall = bench.file("shortfall.csv", HEAD + "Ferries_1,x,names,slot_0,3,5,0,a\n")
    again(bench, "topup", "--hits", bench.hits, "--shortfall", shortfall)
    made += bench.work(bench.hit_ids(NAMES)[-1], [6, 7])
    again(bench, "collect")
    rows = "".join(f"{each},0.25,Thank you\n" for each in made[:4])
    bonuses = bench.file("bonuses.csv", "assignment_id,amount,reason\n" + rows)
    again(bench, "pay", "--audit", bench.audit(reasons={made[0]: ["blank", "blank"]}), "--reject", "--bonuses", bonuses)
    again(bench, "collect")
    again(bench, "stop")
    found = bench.snapshot()
    types = {facts["id"]: name for name, facts in bench.open().journal.with_prefix("type").items()}
    return {
        "states": bench.states(),
        "collected": Counter((line["RequesterAnnotation"], line["AssignmentStatus"]) for line in bench.lines()),
        "sizes": Counter((hit["RequesterAnnotation"], hit["MaxAssignments"]) for hit in found["hits"].values()),
        "bonuses": Counter((each["WorkerId"], each["BonusAmount"]) for each in found["bonuses"]),
        "granted": Counter((each["WorkerId"], types[each["QualificationTypeId"]]) for each in found["qualifications"]),
        "money": {name: amount.normalize() for name, amount in found["balance"].items()},
        "types": len(found["qualification_types"]),
        "ledger": Counter((row["kind"], row["task_id"], row["amount"], row["by"]) for row in bench.ledger()),
        "status": {key: bench.status()["total"][key] for key in ("wanted", "approved", "rejected", "paid", "out")},
        "unclear": bench.status()["unclear"],
        "ids": len({line["AssignmentId"] for line in bench.lines()}) == len(made),
    }


@pytest.fixture(scope="module")
def expected(undisturbed):
    """What comes of the loop where nothing fails."""
    found = loop(undisturbed)
    assert found["ids"]
    assert found["unclear"] == {}
    assert found["money"]["paid"] > 0
    assert sum(found["bonuses"].values()) == 4
    assert {kind for kind, *_ in found["ledger"]} == {"reward", "bonus", "rejected"}
    return found


@cases("seed", 1, 2)
def test_faults_change_nothing(bench, expected, seed):
    bench.server.seed, bench.server.faults = seed, FAULTS
    assert loop(bench) == expected
    outcomes = Counter()
    for each in bench.server.calls.values():
        outcomes += each
    assert outcomes["ThrottlingException"] > 2
    paid = sum((Decimal(row["amount"]) + Decimal(row["fee"]) for row in bench.ledger()), Decimal(0))
    assert (paid, len(bench.hit_ids())) == (bench.snapshot()["balance"]["paid"], 4)


def test_heavy_throttling_is_absorbed(bench):
    bench.server.faults = Faults(throttle=0.4)
    bench.collected((NAMES, [1, 2, 3]))
    bench.ok("pay", "--all")
    assert sum(outcomes["ThrottlingException"] for outcomes in bench.server.calls.values()) > 5
    assert (len(bench.hit_ids()), set(bench.statuses().values())) == (3, {"Approved"})
