"""What the tests of publishing share."""

import hashlib
import json

from mturk_bench import NAMES

from parapet.local_mturk.faults import Drop

CREATE = "CreateHITWithHITType"


def requirements(bench, task=NAMES):
    """Type id to (comparator, values) of a HIT at the server."""
    hit = bench.snapshot()["hits"][bench.hit_id(task)]
    return {
        each["QualificationTypeId"]: (each["Comparator"], each.get("IntegerValues") or each.get("LocaleValues"))
        for each in hit["QualificationRequirements"]
    }


def page_changed(hits, task, text="Other words"):
    """Gives a task another page, as another version of it would have."""
    lines = []
    for line in (hits / "manifest.jsonl").read_text().splitlines():
        record = json.loads(line)
        if record["task_id"] == task:
            path = hits / record["question"]
            data = path.read_text().replace("</form>", f"<p>{text}</p></form>", 1).encode()
            assert data != path.read_bytes()
            path.write_bytes(data)
            record["sha256"] = hashlib.sha256(data).hexdigest()
        lines.append(json.dumps(record))
    (hits / "manifest.jsonl").write_text("\n".join(lines) + "\n")


def lose_answers(bench, *operations):
    """The calls are done, and no answer ever arrives: as a process that is killed between the two sees it."""

    def hook(call):
        if call.operation in operations:
            raise Drop

    bench.server.on_response(hook)
