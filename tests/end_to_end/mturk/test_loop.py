"""The whole loop: hits, publish, workers, collect, compose, top up twice, compose, pay; answers are a batch's."""

import json
from collections import Counter
from decimal import Decimal

import pytest
from fake_mturk import FakeMTurk, play, scripts_from_jsonl
from kit import as_nobody, rows_of, run, write

from parapet.transforms.crowd.answer_files import parse_answer_xml
from parapet.transforms.crowd.mturk import batch as batches


def answers_of(path):
    """(worker, task) to answers of JSON lines of assignments."""
    found = {}
    for line in path.read_bytes().splitlines():
        item = json.loads(line)
        answers = parse_answer_xml(item["Answer"])
        if "taskAnswers" in answers:
            (answers,) = json.loads(answers["taskAnswers"])
        found[item["WorkerId"].partition(",")[0], item["RequesterAnnotation"]] = answers
    return found


def asked(answers):
    return {name: text.replace("\r\n", "\n") for name, text in answers.items() if name != "doNotRedirect"}


class Loop:
    """The commands on one batch."""

    def __init__(self, folder, schemas, answers, server):
        self.folder, self.schemas, self.answers, self.server = folder, schemas, answers, server
        self.batch, self.variants = folder / "batch", folder / "variants"
        self.shortfall = self.variants / "shortfall.csv"

    def mturk(self, action, **flags):
        run("mturk", action, batch=self.batch, **flags)

    def hits(self, **flags):
        return run("hits", "--quiet", schemas=self.schemas, **flags).folder

    def work(self):
        return play(self.server, scripts_from_jsonl(self.answers))

    def compose(self):
        self.mturk("collect")
        flags = {"schemas": self.schemas, "responses": self.batch / batches.ASSIGNMENTS, "output": self.variants}
        ended = run("compose", "--quiet", status=(0, 1), **flags)
        # Five answers an element, some of them spoilt, need not be enough for any service yet.
        services = ended.json("statistics.json")["services"].values()
        assert ended.status == (0 if any(service["composed"] for service in services) else 1)


@pytest.mark.parametrize("corpus", ["sample", pytest.param("sgd", marks=pytest.mark.thorough)])
def test_the_whole_loop(corpus, tmp_path, request, monkeypatch):
    as_nobody(monkeypatch, tmp_path)
    if corpus == "sample":
        sample = request.getfixturevalue("sample")
        schemas, answers = sample, sample / "crowd" / "assignments.jsonl"
    else:
        real = request.getfixturevalue("real_data")
        schemas, answers = real / "sgd", real / "mturk" / "assignments.jsonl"
    with FakeMTurk(tmp_path / "mturk.sqlite", balance=Decimal(50_000)) as server:
        loop = Loop(tmp_path, schemas, answers, server)
        _publish_and_top_up(loop)
        _check_what_came_in(loop)
        _pay_and_check(loop)


def _publish_and_top_up(loop):
    hits = loop.hits(output=loop.folder / "hits", assignments=5)
    loop.mturk("publish", hits=hits, endpoint_url=loop.server.url)
    tasks = loop.server.snapshot()["hits"]
    assert loop.work() == 5 * len(tasks)
    loop.compose()
    loop.mturk("topup", hits=hits, shortfall=loop.shortfall)
    wanted = [hit["MaxAssignments"] for hit in loop.server.snapshot()["hits"].values()][len(tasks) :]
    assert max(wanted) <= 9
    assert 0 < loop.work() <= sum(wanted)
    loop.compose()
    loop.mturk("topup", hits=loop.hits(shortfall=loop.shortfall, output=loop.folder / "more"))
    assert loop.work() > 0
    loop.compose()


def _check_what_came_in(loop):
    given, there = answers_of(loop.answers), answers_of(loop.batch / batches.ASSIGNMENTS)
    lines = batches.load(loop.batch)
    # Nobody did a task twice, though the top-up's HITs are others than the first.
    assert len({(line["WorkerId"], line["RequesterAnnotation"]) for line in lines}) == len(lines) == len(there)
    for who, answers in there.items():
        wanted = asked(given[who])
        assert {name: wanted.get(name, "") for name in answers} == asked(answers), who
    assert {line["AssignmentId"] for line in lines} == set(loop.server.snapshot()["assignments"])
    audit, dead = (rows_of(loop.variants / name) for name in ("responses.parquet", "dead_letters.jsonl"))
    assert len({row["response_id"].partition(":")[0] for row in audit}) + len(dead) >= len(lines)


def _pay_and_check(loop):
    first = batches.load(loop.batch)[0]["AssignmentId"]
    bonuses = write(loop.folder / "bonuses.csv", f"assignment_id,amount,reason\n{first},1.50,thank you\n")
    loop.mturk("pay", audit=loop.variants, reject=True, bonuses=bonuses)
    after = loop.server.snapshot()
    states = Counter(item["AssignmentStatus"] for item in after["assignments"].values())
    assert set(states) == {"Approved", "Rejected"}
    # The rejected are those who said the same everywhere, or copied; by far the most are paid.
    assert 0 < states["Rejected"] < 0.1 * states["Approved"]
    assert [(bonus["AssignmentId"], bonus["BonusAmount"]) for bonus in after["bonuses"]] == [(first, "1.50")]
    ledger = rows_of(loop.batch / "ledger.csv")
    kinds = {"reward": states["Approved"], "rejected": states["Rejected"], "bonus": 1}
    assert Counter(row["kind"] for row in ledger) == kinds
    spent = Decimal(after["balance"]["paid"])
    assert sum((Decimal(row["amount"]) + Decimal(row["fee"]) for row in ledger), Decimal(0)) == spent
    loop.mturk("pay", audit=loop.variants, reject=True, bonuses=bonuses)
    assert loop.server.snapshot()["balance"] == after["balance"]
