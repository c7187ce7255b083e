"""Broken files through the command line: each fault has its own message or dead letter, and the rest goes on."""

import bz2
import gzip
import json
import lzma
import zlib

import kit
import pytest
import zstandard
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


@pytest.mark.parametrize("encoding", ["utf-8-sig", "utf-16", "utf-16-le-bom"])
def test_other_encodings_with_a_mark_are_read(encoding, tmp_path, table):
    text = quoted(table[:6])
    data = b"\xff\xfe" + text.encode("utf-16-le") if encoding == "utf-16-le-bom" else text.encode(encoding)
    taken, dead = run(tmp_path, write(tmp_path / "names.csv", data))
    assert (taken, dead) == (ids(table, range(1, 6)), [])


def test_a_latin_1_row_costs_itself(tmp_path, table):
    rows = [list(row) for row in table[:6]]
    rows[3][table[0].index("Answer.slot_0")] = "cafXe"
    (tmp_path / "names.csv").write_bytes(quoted(rows).encode("ascii", "replace").replace(b"cafXe", b"caf\xe9"))
    taken, (letter,) = run(tmp_path, tmp_path / "names.csv")
    assert taken == ids(table, range(1, 6)) - ids(table, range(3, 4))
    assert letter["source"].endswith("names.csv: row 4")
    assert letter["reason"] == "encoding: the row is not UTF-8; save the file as UTF-8"


def test_a_broken_row_costs_itself(tmp_path, table):
    lines = quoted(table[:6]).splitlines(keepends=True)
    lines[2] = lines[2][:50] + "\r\n"  # cut off inside a quoted cell
    lines[4] = lines[4].replace("\r\n", ',"one more"\r\n')
    taken, dead = run(tmp_path, write(tmp_path / "names.csv", "".join(lines)))
    assert taken == ids(table, range(1, 6)) - ids(table, range(2, 3)) - ids(table, range(4, 5))
    width = len(table[0])
    assert [(d["source"].rpartition(": ")[2], d["reason"]) for d in dead] == [
        ("row 3", "broken_row: a quote is not closed"),
        ("row 5", f"broken_row: the row has {width + 1} cells, but the header has {width}"),
    ]


@cases(
    "content reason",
    (b"", "the file is empty"),
    (b"a,b,c\n1,2,3\n", "the header lacks AssignmentId, WorkerId, Answer.*"),
    (b"AssignmentId;WorkerId;Answer.slot_0\n", "the cells must be separated by commas"),
    ("AssignmentId,WorkerId,Answer.slot_0\n".encode("utf-16-le"), "the file looks like UTF-16"),
    (b"AssignmentId,WorkerId,Answer.slot_0,Answer.slot_0\n", "these columns appear twice in the header: Answer.slot_0"),
)
def test_a_file_that_is_no_batch_is_one_dead_letter_and_the_others_are_read(content, reason, tmp_path, table):
    (tmp_path / "bad.csv").write_bytes(content)
    taken, (letter,) = run(tmp_path, tmp_path / "bad.csv", write(tmp_path / "good.csv", quoted(table[:4])))
    assert taken == ids(table, range(1, 4))
    assert letter["reason"].startswith("unusable_file: ")
    assert reason in letter["reason"]


def test_one_id_with_different_answers_is_used_by_neither(tmp_path, table):
    other = list(table[2])
    other[table[0].index("Answer.slot_0")] = "something else"
    (tmp_path / "a.csv").write_text(quoted(table[:4]), newline="")
    taken, dead = run(tmp_path, tmp_path / "a.csv", write(tmp_path / "b.csv", quoted([table[0], other])))
    assert taken == ids(table, range(1, 4)) - ids(table, range(2, 3))
    found = {d["source"].rpartition("/")[2]: d["reason"] for d in dead}
    assert sorted(found) == ["a.csv: row 3", "b.csv: row 2"]
    assert all(reason.startswith("conflicting_assignment: ") for reason in found.values())
    assert found["a.csv: row 3"].endswith("b.csv: row 2")


def test_ten_megabytes_in_a_cell_cost_that_answer(tmp_path, table):
    rows = [list(row) for row in table[:4]]
    rows[1][table[0].index("Answer.slot_0")] = "x" * 10_000_000
    taken, (letter,) = run(tmp_path, write(tmp_path / "names.csv", quoted(rows)))
    assert taken == ids(table, range(1, 4))
    assert letter["key"].endswith(":slot_0")
    assert letter["reason"] == "too_large: the answer has more than 20,000 characters"
    assert len(letter["payload"]) < 2_200
    assert "10,000,000 characters, sha256" in letter["payload"]


def test_unknown_services_and_positions(tmp_path, table):
    header = table[0]
    stranger = [cell.replace(table[1][header.index("Input.service_name")], "Nowhere_7") for cell in table[1]]
    odd = list(table[2])
    spare = [name for name in header if name.startswith("Answer.slot_") and not odd[header.index(name)]]
    field = spare[-1].removeprefix("Answer.")
    odd[header.index(spare[-1])] = "an answer to nothing"
    taken, dead = run(tmp_path, write(tmp_path / "names.csv", quoted([header, stranger, odd, table[3]])))
    assert taken == ids(table, range(2, 4))
    by_reason = {d["reason"].partition(":")[0]: d for d in dead}
    assert "'Nowhere_7'" in by_reason["unknown_service"]["reason"]
    assert by_reason["unknown_position"]["key"].endswith(f":{field}")
    assert by_reason["unknown_position"]["payload"] == "an answer to nothing"


ANSWER = (
    "<QuestionFormAnswers><Answer><QuestionIdentifier>{}</QuestionIdentifier>"
    "<FreeText>{}</FreeText></Answer></QuestionFormAnswers>"
)


def api(identifier, xml, annotation="Gyms_1:names"):
    item = {"AssignmentId": identifier, "WorkerId": f"A{identifier}ABCDEFG1", "RequesterAnnotation": annotation}
    return json.dumps({**item, "AssignmentStatus": "Submitted", "Answer": xml})


def test_hostile_and_broken_api_lines(tmp_path):
    bomb = '<!DOCTYPE x [<!ENTITY a "aaaa"><!ENTITY b "&a;&a;&a;">]>' + ANSWER.format("slot_0", "&b;")
    outside = '<!DOCTYPE x [<!ENTITY e SYSTEM "file:///etc/passwd">]>' + ANSWER.format("slot_0", "&e;")
    page = json.dumps([{"slot_0": "workout_place", "slot_1": "gym town"}]).replace('"', "&quot;")
    lines = [
        api("3GOOD", ANSWER.format("slot_0", "sports club")),
        api("3BOMB", bomb),
        api("3OUT", outside),
        api("3BROKEN", ANSWER.format("slot_0", "<b>")),
        api("3PAGE", ANSWER.format("taskAnswers", page)),
        api("3LOST", ANSWER.format("slot_0", "x"), annotation="BatchId:1;"),
        "not json",
        '["a list"]',
        "",
    ]
    taken, dead = run(tmp_path, write(tmp_path / "api.jsonl", "\n".join(lines) + "\n"))
    assert taken == {"3GOOD", "3PAGE"}
    assert {k: v for k, v in {d["key"]: d["reason"].partition(":")[0] for d in dead}.items() if k.startswith("3")} == {
        "3BOMB": "unsafe_xml",
        "3OUT": "unsafe_xml",
        "3BROKEN": "broken_xml",
        "3LOST": "no_task",
    }
    assert [d["source"].rpartition(": ")[2] for d in dead if d["reason"].startswith("broken_row")] == ["row 7", "row 8"]
    assert "ABCDEFG1" not in (tmp_path / "out/dead_letters.jsonl").read_text()


def test_no_answer_stops_the_others_and_each_is_in_one_place(tmp_path):
    deep = "[" * 300 + "]" * 300
    page = f'[{{"slot_0": {deep}}}]'.replace('"', "&quot;")
    whole = json.loads(api("3WHOLE", ANSWER.format("slot_0", "sports club")))
    lines = [
        api("3GOOD", ANSWER.format("slot_0", "sports club")),
        api("3DEEP", ANSWER.format("taskAnswers", page)),
        json.dumps({**whole, "Extra": json.loads(deep)}),
        api("3MAIL", ANSWER.format("slot_0", "@" * 4_000 + "a")),
        api("3NONE", "<Q/>"),
        api("3XML", "<Q>" + "<a>" * 20_000 + "</a>" * 20_000 + "</Q>"),
    ]
    taken, dead = run(tmp_path, write(tmp_path / "api.jsonl", "\n".join(lines) + "\n"))
    assert taken == {"3GOOD", "3MAIL"}
    place = str(tmp_path / "api.jsonl")
    assert sorted((d["key"].removeprefix(place), d["reason"].partition(":")[0], d["source"]) for d in dead) == [
        ("3DEEP", "task_answers", f"{place}: row 2"),
        ("3NONE", "no_answer", f"{place}: row 5"),
        ("3XML", "no_answer", f"{place}: row 6"),
        (": row 3", "broken_row", f"{place}: row 3"),
    ]


COMPRESSED = {
    "gz": gzip.compress,
    "bz2": bz2.compress,
    "xz": lzma.compress,
    "zst": lambda data: zstandard.ZstdCompressor().compress(data),
    "deflate": zlib.compress,
}


@pytest.mark.parametrize("kind", COMPRESSED)
def test_a_compressed_file_is_read_whole_or_refused(kind, tmp_path, table):
    data = quoted(table[:31]).encode()
    halves = COMPRESSED[kind](data[:9_000]), COMPRESSED[kind](data[9_000:])
    taken, dead = run(tmp_path, write(tmp_path / f"whole.csv.{kind}", b"".join(halves)))
    assert (taken, dead) == (ids(table, range(1, 31)), [])
    packed = COMPRESSED[kind](data)
    for name, content, told in (
        ("cut", packed[: len(packed) // 2], "is truncated"),
        ("short", packed[:-3], "is truncated"),
        ("empty", b"", "is truncated"),
        ("plain", data, "but is not one"),
    ):
        path = write(tmp_path / f"{name}.csv.{kind}", content)
        lines = [["--responses", path]]
        if name == "cut":  # decisions are opened as responses are
            lines.append(["--responses", write(tmp_path / "x.csv", data), "--decisions", path])
        for flags in lines:
            error = refused("compose", *flags, output=tmp_path / "other", status=(1, 2))
            assert str(path) in error, error
            assert told in error, error
        assert not (tmp_path / "other/run.json").exists()


def test_a_run_that_makes_nothing_fails_and_says_why(tmp_path, table):
    header = table[0]
    named = header.index("Input.service_name")
    strangers = [[cell.replace(row[named], "Nowhere_7") for cell in row] for row in table[1:61]]
    made = compose(tmp_path, write(tmp_path / "names.csv", quoted([header, *strangers])))
    dead, error = made.dead_letters, made.errors
    assert not made.rows("responses.parquet")
    assert len(dead) == len(strangers)
    assert f"no service could be composed: {len(dead)} dead letters ({tmp_path}/out/dead_letters.jsonl)" in error
    assert not lacking(error, "unknown_service (", "names.csv: row ", "no schema has a service 'Nowhere_7'")
    error = compose(tmp_path, write(tmp_path / "names.csv", quoted([header, *(row[:-1] for row in table[1:4])]))).errors
    assert "no assignment could be read from the files of --responses: 3 dead letters" in error
    assert not lacking(error, "3 broken_row (", "names.csv: row 2: ")


def service(name, **more):
    return {"service_name": name, "description": "A thing", "slots": [], "intents": [], **more}


def test_bad_services_are_left_out_and_told(tmp_path, table):
    intent = {"name": "Do", "description": "d", "is_transactional": False, "required_slots": ["gone"]}
    services = [
        service("../../x"),
        service("Twice_1"),
        service("twice_1"),
        service("Lacks_1", intents=[{**intent, "optional_slots": {}, "result_slots": []}]),
        {"service_name": 3},
        service("Good_1"),
    ]
    write(tmp_path / "schema.json", services)
    _, dead = run(tmp_path, write(tmp_path / "names.csv", quoted(table[:2])), schemas=tmp_path / "schema.json")
    reasons = sorted(d["reason"] for d in dead if d["stage"] == "schemas")
    assert [reason.split(": ")[1] for reason in reasons] == [
        "[0].service_name",
        "[1].service_name",
        "[2].service_name",
        "[3].intents[0].required_slots",
        "[4].service_name",
    ]
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


def test_a_sheet_that_is_none_stops_the_run_before_it_begins(tmp_path, sample):
    flags = ["--decisions", str(sample / "crowd/names.csv")]
    assert "missing columns: response_id, decision" in refused("compose", *flags, output=tmp_path / "out")
    assert not (tmp_path / "out").exists()
