"""A batch on the bench: the real commands and boto3's real client against a fake MTurk in this process."""

import json
import os
from collections import Counter
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from fake_mturk import Call, Drop, FakeMTurk, Refusal
from kit import files_of, json_of, rows_of, run, write

from parapet.transforms.crowd.answer_files import worker_hash
from parapet.transforms.crowd.mturk import batch as batches
from parapet.transforms.crowd.mturk import batch as mturk_client
from parapet.transforms.crowd.mturk.batch import Batch

KEY = b"a worker key for tests only"

NAMES, DESCRIPTIONS, OTHER = "Ferries_1:names", "Ferries_1:descriptions", "Gyms_1:names"


def worker(n: int) -> str:
    """The id of a worker, in MTurk's form."""
    return f"A{n:05d}WORKERID"


def cut(hits: Path, out: Path, tasks: Iterable[str] = (NAMES, DESCRIPTIONS, OTHER), **changes: Any) -> Path:
    """A folder of ``parapet hits`` with these tasks only, and other terms where asked."""
    write(out / "plan.json", (hits / "plan.json").read_bytes())
    manifest = json_of(hits / "run.json")
    manifest["options"]["only"] = [[task, "intent_0"] for task in tasks]  # as a top-up's folder has it
    kept = [record for record in rows_of(hits / "manifest.jsonl") if record["task_id"] in tasks]
    for record in kept:
        write(out / record["question"], (hits / record["question"]).read_bytes())
    write(out / "manifest.jsonl", [{**record, **changes} for record in kept])
    manifest["files"] = {path: {"bytes": len(data)} for path, data in files_of(out).items()}
    write(out / "run.json", manifest)
    return out


class Bench:
    """One batch folder, one server. ``out`` and ``err`` hold what the last command has printed."""

    def __init__(self, server: FakeMTurk, hits: Path, batch: Path) -> None:
        self.server, self.hits, self.batch = server, hits, batch
        self.out = self.err = ""

    def run(self, *argv: object) -> int:
        """``parapet mturk ...``; gives its exit status."""
        result = run("mturk", *argv, status=None)
        self.out, self.err = result.output, result.errors
        return result.status

    def do(self, action: str, *flags: object) -> int:
        """An action on this batch."""
        return self.run(action, "--batch", self.batch, *flags)

    def publish(self, *flags: object, hits: Path | None = None) -> int:
        return self.do("publish", "--hits", hits or self.hits, "--endpoint_url", self.server.url, *flags)

    def ok(self, action: str, *flags: object) -> str:
        """What an action prints that must end well."""
        status = self.publish(*flags) if action == "publish" else self.do(action, *flags)
        assert status == 0, self.out + self.err
        return self.out

    def err_of(self, status: int, ended: int) -> str:
        """What the last command says, which must have ended so."""
        assert ended == status, self.out + self.err
        return self.err

    def lose(self, operation: str, once: bool = False, before: bool = False) -> list[Call]:
        """Its answers never arrive, as a killed process sees it: of any call or of one; not even done if ``before``."""
        lost: list[Call] = []

        def hook(call: Call) -> None:
            if call.operation == operation and not (once and (lost or call.outcome != "ok")):
                lost.append(call)
                raise Drop

        (self.server.on_request if before else self.server.on_response)(hook)
        return lost

    def pay(self, audit: Path, *flags: object) -> int:
        return self.do("pay", "--audit", audit, *flags)

    @property
    def client(self) -> Any:
        return mturk_client.connect(self.server.url)

    def open(self) -> Batch:
        return Batch(self.batch, writable=False)

    def lines(self) -> list[dict[str, Any]]:
        return batches.load(self.batch)

    def journal(self) -> list[dict[str, Any]]:
        return rows_of(self.batch / "journal.jsonl")

    def ledger(self) -> list[dict[str, str]]:
        return rows_of(self.batch / "ledger.csv")

    def status(self) -> dict[str, Any]:
        self.ok("status", "--json")
        return json.loads(self.out)

    def snapshot(self) -> dict[str, Any]:
        return self.server.snapshot()

    def hit_ids(self, task: str = "") -> list[str]:
        """HITs at the server, in the order in which they were made."""
        return [hit_id for hit_id, hit in self.snapshot()["hits"].items() if task in ("", hit["RequesterAnnotation"])]

    def hit_id(self, task: str) -> str:
        (found,) = self.hit_ids(task)
        return found

    def accept(self, task_or_hit: str, worker_id: str, seconds: int = 300) -> str:
        """An assignment id. Raises Refusal."""
        return self.server.accept(self.hit_id(task_or_hit) if ":" in task_or_hit else task_or_hit, worker_id, seconds)

    def refused(self, task_or_hit: str, worker_id: str) -> str:
        """Why a worker cannot accept; "" where they can (and give it back)."""
        try:
            self.server.give_back(self.accept(task_or_hit, worker_id))
        except Refusal as refusal:
            return refusal.reason
        return ""

    def work(self, task_or_hit: str, workers: Iterable[int], text: str = "some words of mine") -> list[str]:
        """Assignments that these workers have submitted."""
        made = []
        for n in workers:
            assignment_id = self.accept(task_or_hit, worker(n))
            answers = [("assignmentId", assignment_id), ("intent_0", f"{text} {n}"), ("slot_0", f"Zimt & <Zucker> {n}")]
            self.server.submit(assignment_id, answers)
            made.append(assignment_id)
        return made

    def collected(self, *work: tuple[str, Iterable[int]]) -> list[str]:
        """Publishes the batch and collects what workers submit for tasks; returns the assignments' ids."""
        self.ok("publish")
        made = [assignment_id for task, workers in work for assignment_id in self.work(task, workers)]
        self.ok("collect")
        return made

    def states(self) -> Counter[tuple[str, str]]:
        """(task, status) of every assignment at the server."""
        found = self.snapshot()
        annotation = {hit_id: hit["RequesterAnnotation"] for hit_id, hit in found["hits"].items()}
        return Counter((annotation[a["HITId"]], a["AssignmentStatus"]) for a in found["assignments"].values())

    def statuses(self) -> dict[str, str]:
        """Assignment id to status at the server."""
        return {i: a["AssignmentStatus"] for i, a in self.snapshot()["assignments"].items()}

    def audit(
        self,
        name: str = "audit",
        reasons: Mapping[str, Iterable[str]] | None = None,
        dead: Iterable[str] = (),
        leave_out: Iterable[str] = (),
    ) -> Path:
        """A folder as ``compose`` writes it: all that was collected, two answers each; ``reasons`` of the rejected."""
        rows = []
        for line in self.lines():
            assignment_id = line["AssignmentId"]
            if assignment_id in {*leave_out, *dead}:
                continue
            given = (reasons or {}).get(assignment_id, ["", ""])
            stamps = {"accept_time": line["AcceptTime"], "submit_time": line["SubmitTime"]}
            who = {"worker_hash": worker_hash(KEY, line["WorkerId"]), **stamps}
            for field, reason in zip(("intent_0", "slot_0"), given, strict=True):
                fate = {"disposition": "rejected" if reason else "used", "reason": reason}
                rows.append({"response_id": f"{assignment_id}:{field}", **fate, **who})
        return write_audit(self.batch.parent / name, rows, dead)

    def file(self, name: str, text: str) -> Path:
        return write(self.batch.parent / name, text)


def write_audit(folder: Path, rows: list[dict[str, Any]], dead: Iterable[str] = ()) -> Path:
    """The parts of a folder of ``compose`` that paying looks at; test_mturk_pay holds them against a real one."""
    write(folder / "run.json", {"pipeline": "compose"})
    texts = ("response_id", "disposition", "reason", "worker_hash")
    columns: dict[str, Any] = {name: pa.array([row[name] for row in rows], pa.string()) for name in texts}
    for name in ("accept_time", "submit_time"):
        stamps = pa.array([row[name][:19] for row in rows], pa.string())
        columns[name] = stamps.cast(pa.timestamp("ms")).cast(pa.timestamp("ms", "UTC"))
    pq.write_table(pa.table(columns), folder / "responses.parquet")
    letters = [{"stage": "ingest", "key": key, "reason": "broken_xml", "payload": "", "source": ""} for key in dead]
    write(folder / "dead_letters.jsonl", letters)
    return folder


def files_with(folder: Path, texts: Iterable[str]) -> dict[str, str]:
    """Name of every file below a folder in which one of the texts stands, and which."""
    files = files_of(folder).items()
    return {Path(path).name: text for path, data in files for text in texts if text.encode() in data}


def mode(path: Path) -> int:
    return os.stat(path).st_mode & 0o777
