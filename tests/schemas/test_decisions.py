import csv
import io

import msgspec
from hypothesis import given
from hypothesis import strategies as st
from kit import cases, decisions_csv, raised

from parapet.schemas.decisions import COLUMNS, MAX_CELL, VERDICTS, Decision, neutralise, parse_decisions, restore
from parapet.schemas.errors import InputError
from parapet.transforms.crowd.answer_files import read_lines, read_records

HEADER = "response_id,decision,text,reason,reviewer\n"
# Texts that provoke the guard and the CSV quoting more often than chance would.
ANY = st.text(st.characters(exclude_categories=["Cs"]))
TRICKY = st.text(st.sampled_from("'=+-@\t\r\n\",;a ｅ＝\0"), max_size=8) | ANY


def parse(text, path="d.csv"):
    handle = io.BufferedReader(io.BytesIO(text.encode() if isinstance(text, str) else text))
    decisions, bad = parse_decisions(read_records(read_lines(handle), COLUMNS, is_ragged=True), path)
    return decisions, [(int(place.removeprefix(f"{path}: row ")), reason, cells) for place, reason, cells in bad]


@given(st.text() | TRICKY)
def test_neutralise_is_undone_by_restore(text):
    assert restore(neutralise(text)) == text
    assert neutralise(text)[:1] not in set("=+-@\t\r\n＝＋－＠") - {""}


KEYS = TRICKY.filter(lambda text: text and text == text.strip() and len(text) < MAX_CELL)
DRAWN = st.builds(Decision, KEYS, st.sampled_from(VERDICTS), TRICKY, TRICKY, TRICKY)


@given(st.lists(DRAWN, max_size=5, unique_by=lambda one: one.response_id))
def test_what_is_written_is_read_back(drawn):
    decisions = [msgspec.structs.replace(one, text=f"{one.text}x") if one.decision == "fix" else one for one in drawn]
    good, bad = parse(decisions_csv(decisions))
    assert (bad, [msgspec.structs.replace(one, source="") for one in good]) == ([], decisions)


@given(st.binary(max_size=200) | st.text(st.sampled_from('"",;\n\r\taccept fix:\0'), max_size=80).map(str.encode))
def test_any_bytes_give_decisions_bad_rows_or_an_input_error(data):
    for payload in (data, HEADER.encode() + data):
        try:
            good, bad = parse(payload)
        except InputError:
            continue
        assert all(d.decision in VERDICTS for d in good)
        assert all(isinstance(row, int) and reason for row, reason, _ in bad)


def test_bad_rows_and_their_reasons():
    rows = ["a:slot_0,fix,,,", "b:slot_0,acept,,,", ",accept,,,", "c:slot_0,fix, …,,", "d:slot_0,,lost words,,"]
    rows += ["e:slot_0,fix,Which city, exactly,,", "f:slot_0,zzzzzz,,,", "g:slot_0,reject,,,"]
    good, bad = parse(HEADER + "".join(f"{row}\n" for row in rows))
    assert [d.response_id for d in good] == ["g:slot_0"]
    found = {row: reason for row, reason, _ in bad}
    parts = ["needs a text", "did you mean 'accept'?", "response_id is empty"]
    parts += ["needs a text", "write 'fix'", "1 more cells"]
    assert sorted(found) == [2, 3, 4, 5, 6, 7, 8]
    assert [part for row, part in enumerate(parts, 2) if part not in found[row]] == []
    assert found[8] == "there is no decision 'zzzzzz': must be one of accept, reject, fix"
    assert bad[1][2] == {"response_id": "b:slot_0", "decision": "acept"}


def test_the_same_answer_decided_twice():
    good, bad = parse(HEADER + "a:slot_0,accept,,,EL\na:slot_0,Accept,,,EL\na:slot_0,reject,,,EL\n")
    assert ([d.decision for d in good], len(bad)) == (["accept"], 1)
    assert bad[0][:2] == (4, "decided twice, differently: the decision in row 2, 'accept', is used")


@cases("length", MAX_CELL, MAX_CELL + 1, 10 * 2**20)
def test_long_texts(length):
    limit = csv.field_size_limit()
    for text in ("x" * length, "=" + "x" * (length - 1)):
        good, bad = parse(decisions_csv([Decision("a:slot_0", "fix", text), Decision("b:slot_0", "accept")]))
        assert [d.response_id for d in good] == (["a:slot_0", "b:slot_0"] if length <= MAX_CELL else ["b:slot_0"])
        assert all(row == 2 and "over the limit of 2,000" in reason for row, reason, _ in bad)
    assert csv.field_size_limit() == limit


@cases(
    "data reason",
    (b"", "empty"),
    (b"id,decision\n1,accept\n", "missing columns: response_id (the header has: id, decision)"),
    ("response_id,decision,größe\n".encode("latin-1"), "the header cannot be read: the row is not UTF-8"),
    (HEADER.encode("utf-16-le"), "it looks like UTF-16 (save the sheet as 'CSV UTF-8')"),
    (b"response_id,decision,text,text\n", "twice: text"),
    (b'response_id,"decision\n', "the header cannot be read: a quote is not closed"),
)
def test_files_that_cannot_be_used(data, reason):
    error = raised(InputError, parse, data, "sheets/a.csv")
    assert reason in str(error)
    assert str(error).startswith("sheets/a.csv")


def test_a_long_cell_that_is_not_ours_is_no_matter():
    good, bad = parse(f"response_id,decision,prompt\na:slot_0,accept,{'x' * 200_000}\n")
    assert ([d.response_id for d in good], bad, parse(HEADER)) == (["a:slot_0"], [], ([], []))


@cases("encoding", "utf-8", "utf-8-sig", "utf-16")
@cases("delimiter", ",", ";", "\t")
@cases("end", "\n", "\r\n", "\r")
def test_what_spreadsheets_save(encoding, delimiter, end):
    rows = [["Reviewer", "text", "decision ", "prompt", "response_id"], ["É", "straße", " FIX", "a; b, c", "3X:slot_0"]]
    good, bad = parse("".join(delimiter.join(f'"{cell}"' for cell in row) + end for row in rows).encode(encoding))
    assert (good, bad) == ([Decision("3X:slot_0", "fix", "straße", "", "É", "d.csv: row 2")], [])
