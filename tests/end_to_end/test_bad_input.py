"""Broken files through the command line: each fault has its own message or dead letter, and the rest goes on."""

import gzip
import json
import lzma

import kit
from kit import cases, json_of, lacking, quoted, refused, rows_of, write

from parapet.schemas import layout


def compose(tmp_path, *responses, schemas=None):
    """Tries to: so few answers make no service."""
    given = {"schemas": schemas or layout.sample_root(), "responses": responses, "output": tmp_path / "out"}
    return kit.run("compose", "--quiet", **given, status=1)


def run(tmp_path, *responses, **more):
    """The assignments taken and the dead letters."""
    made = compose(tmp_path, *responses, **more)
    return {row["response_id"].rpartition(":")[0] for row in made.rows("responses.parquet")}, made.dead_letters


def ids(table, rows):
    column = table[0].index("AssignmentId")
    return {table[i][column] for i in rows}


def test_other_encodings_with_a_mark_are_read(tmp_path, table):
    text = [quoted([table[0], row]) for row in table[1:4]]
    data = text[0].encode("utf-8-sig"), text[1].encode("utf-16"), b"\xff\xfe" + text[2].encode("utf-16-le")
    taken, dead = run(tmp_path, *(write(tmp_path / f"{i}.csv", content) for i, content in enumerate(data)))
    assert (taken, dead) == (ids(table, range(1, 4)), [])


NO_BATCH = {
    "empty": (b"", "the file is empty"),
    "other": (b"a,b,c\n1,2,3\n", "the header lacks AssignmentId, WorkerId, Answer.*"),
    "utf-16": ("AssignmentId,WorkerId,Answer.slot_0\n".encode("utf-16-le"), "the file looks like UTF-16"),
    "twice": (b"AssignmentId,WorkerId,Answer.slot_0,Answer.slot_0\n", "twice in the header: Answer.slot_0"),
}


def test_each_fault_costs_itself_alone(tmp_path, table):
    """Rows and answers that cannot be used, two versions of an assignment, and files that are no batch."""
    header, *rows = (list(row) for row in table[:10])
    slot = header.index("Answer.slot_0")
    conflict = [*rows[8][:slot], "something else", *rows[8][slot + 1 :]]
    rows[2][slot], rows[3][slot] = "cafXe", "x" * 10_000_000
    rows[4] = [cell.replace(rows[4][header.index("Input.service_name")], "Nowhere_7") for cell in rows[4]]
    spare = [name for name in header if name.startswith("Answer.slot_") and not rows[5][header.index(name)]][-1]
    rows[5][header.index(spare)] = "an answer to nothing"
    lines = quoted([header, *rows]).splitlines(keepends=True)
    lines[1] = lines[1][:50] + "\r\n"  # cut off inside a quoted cell
    lines[2] = lines[2].replace("\r\n", ',"one more"\r\n')
    data = "".join(lines).encode("ascii", "replace").replace(b"cafXe", b"caf\xe9")
    files = [write(tmp_path / f"{name}.csv", content) for name, (content, _) in NO_BATCH.items()]
    files += [write(tmp_path / "names.csv", data), write(tmp_path / "b.csv", quoted([header, conflict]))]
    taken, dead = run(tmp_path, *files)
    assert taken == ids(table, (4, 6, 7, 8))
    found = {letter["source"].rpartition("/")[2]: letter for letter in dead}
    assert len(found) == len(dead)
    expected = {
        "names.csv: row 2": "broken_row: a quote is not closed",
        "names.csv: row 3": f"broken_row: the row has {len(header) + 1} cells, but the header has {len(header)}",
        "names.csv: row 4": "encoding: the row is not UTF-8; save the file as UTF-8",
        "names.csv: row 5": "too_large: the answer has more than 20,000 characters",
        "names.csv: row 6": "unknown_service: no schema has a service 'Nowhere_7'",
        "names.csv: row 7": "unknown_position: ",
        "names.csv: row 10": "conflicting_assignment: ",
        "b.csv: row 2": "conflicting_assignment: ",
    }
    wrong = {place: found[place]["reason"] for place, reason in expected.items()
             if not found[place]["reason"].startswith(reason)}  # fmt: skip
    assert not wrong
    too_large, unknown = found["names.csv: row 5"], found["names.csv: row 7"]
    assert "10,000,000 characters, sha256" in too_large["payload"]
    assert len(too_large["payload"]) < 2_200
    assert (unknown["key"].rpartition(":")[2], unknown["payload"]) == (spare[7:], "an answer to nothing")
    no_batch = {place.partition(".")[0]: letter["reason"] for place, letter in found.items() if place not in expected}
    assert no_batch.keys() == NO_BATCH.keys()
    for name, reason in no_batch.items():
        assert reason.startswith("unusable_file: ")
        assert NO_BATCH[name][1] in reason


PAIR = "<QuestionIdentifier>{}</QuestionIdentifier><FreeText>{}</FreeText>"
ANSWER = f"<QuestionFormAnswers><Answer>{PAIR}</Answer></QuestionFormAnswers>"


def api(identifier, xml, annotation="Gyms_1:names"):
    item = {"AssignmentId": identifier, "WorkerId": f"A{identifier}ABCDEFG1", "RequesterAnnotation": annotation}
    return json.dumps({**item, "AssignmentStatus": "Submitted", "Answer": xml})


def test_hostile_and_broken_api_lines_cost_themselves_alone(tmp_path):
    bomb = '<!DOCTYPE x [<!ENTITY a "aaaa"><!ENTITY b "&a;&a;&a;">]>' + ANSWER.format("slot_0", "&b;")
    outside = '<!DOCTYPE x [<!ENTITY e SYSTEM "file:///etc/passwd">]>' + ANSWER.format("slot_0", "&e;")
    page = json.dumps([{"slot_0": "workout_place", "slot_1": "gym town"}]).replace('"', "&quot;")
    good = ANSWER.format("slot_0", "sports club")
    broken, deep = ANSWER.format("slot_0", "<b>"), "<Q>" + "<a>" * 20_000 + "</a>" * 20_000 + "</Q>"
    lines = [api("3GOOD", good), api("3BOMB", bomb), api("3OUT", outside), api("3BROKEN", broken)]
    lines += [api("3PAGE", ANSWER.format("taskAnswers", page)), api("3LOST", good, annotation="BatchId:1;")]
    lines += ["not json", '["a list"]', "", api("3MAIL", ANSWER.format("slot_0", "@" * 4_000 + "a"))]
    lines += [api("3NONE", "<Q/>"), api("3XML", deep)]
    taken, dead = run(tmp_path, write(tmp_path / "api.jsonl", "\n".join(lines) + "\n"))
    assert taken == {"3GOOD", "3PAGE", "3MAIL"}
    reasons = {letter["source"].rpartition(" ")[2]: letter["reason"].partition(":")[0] for letter in dead}
    assert len(reasons) == len(dead)
    expected = {"broken_xml": "2 3 4", "no_task": "6", "broken_row": "7 8", "no_answer": "11 12"}
    assert reasons == {line: reason for reason, places in expected.items() for line in places.split()}
    assert "ABCDEFG1" not in (tmp_path / "out/dead_letters.jsonl").read_text()


@cases("kind compress", ("gz", gzip.compress), ("xz", lzma.compress))
def test_a_compressed_file_is_read_whole_or_refused(kind, compress, tmp_path, table):
    data = quoted(table[:31]).encode()
    whole = write(tmp_path / f"whole.csv.{kind}", compress(data[:9_000]) + compress(data[9_000:]))
    assert run(tmp_path, whole) == (ids(table, range(1, 31)), [])
    path = write(tmp_path / f"cut.csv.{kind}", compress(data)[:-3])
    for flags in (["--responses", path], ["--responses", whole, "--decisions", path]):
        error = refused("compose", *flags, output=tmp_path / "other", status=(1, 2))
        assert not lacking(error, str(path), "is damaged, incomplete")
    assert not (tmp_path / "other/run.json").exists()


def test_a_run_that_makes_nothing_fails_and_says_why(tmp_path, table):
    header = table[0]
    named = header.index("Input.service_name")
    strangers = [[cell.replace(row[named], "Nowhere_7") for cell in row] for row in table[1:61]]
    made = compose(tmp_path, write(tmp_path / "names.csv", quoted([header, *strangers])))
    dead, error = made.dead_letters, made.errors
    assert not made.rows("responses.parquet")
    assert len(dead) == len(strangers)
    assert "no service could be composed (the first unusable record: " in error
    assert not lacking(error, "unknown_service: no schema has a service 'Nowhere_7'", "names.csv: row ")


def test_bad_services_are_left_out_and_told(tmp_path, table):
    bad, good = [kit.service(name, []) for name in ("../../x", "Twice_1", "twice_1")], kit.service("Good_1", [])
    services = [*bad, kit.service("Lacks_1", [], [kit.intent("Do", "d", "gone")]), {"service_name": 3}, good]
    write(tmp_path / "schema.json", services)
    _, dead = run(tmp_path, write(tmp_path / "names.csv", quoted(table[:2])), schemas=tmp_path / "schema.json")
    reasons = sorted(d["reason"] for d in dead if d["stage"] == "schemas")
    names = [f"[{i}].{'intents[0].required_slots' if i == 3 else 'service_name'}" for i in range(5)]
    assert [reason.split(": ")[1] for reason in reasons] == names
    parts = ("files are named after it", "appears twice", "appears twice", "refers to slot 'gone'", "Expected `str`")
    assert [part in reason for reason, part in zip(reasons, parts, strict=True)] == [True] * 5
    assert list(json_of(tmp_path / "out/statistics.json")["services"]) == ["Good_1"]
    assert sorted(p.name for p in tmp_path.iterdir()) == ["names.csv", "out", "schema.json"]


def test_bad_decisions_are_told_by_row_and_the_rest_is_applied(tmp_path, sample):
    genuine = [row for row in rows_of(sample / "crowd/truth.csv") if row["label"] == "genuine"]
    known = [f"{row['AssignmentId']}:{row['field']}" for row in genuine[:2]]
    rows = [f"{known[0]},reject,,mine,me", "3NONE:slot_0,accept,,,me", f"{known[1]},perhaps,,,me"]
    (tmp_path / "decisions.csv").write_text("\n".join(["response_id,decision,text,reason,reviewer", *rows]) + "\n")
    made = kit.run("compose", decisions=tmp_path / "decisions.csv", output=tmp_path / "out")
    fate = {row["response_id"]: row for row in made.rows("responses.parquet")}
    assert (fate[known[0]]["disposition"], fate[known[0]]["reason"]) == ("rejected", "reviewer: mine")
    dead = made.dead_letters
    unknown = [letter for letter in dead if letter["key"] == "3NONE:slot_0"]
    told = [(letter["source"].rpartition(": ")[2], letter["reason"].partition(":")[0]) for letter in unknown]
    assert told == [("row 3", "unknown_response")]
    assert [d["source"].rpartition(": ")[2] for d in dead if "perhaps" in d["payload"]] == ["row 4"]
    assert "2 records could not be used" in made.errors
