"""No worker id leaves: not from answers, not from what could not be read, in no form and no encoding."""

import json
import logging
import re

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from kit import cases, files_of, quoted, raised, rows_of, run, write

from parapet.schemas.errors import InputError
from parapet.transforms.crowd.worker_ids import MASK, VARIABLE, key_file, load_worker_key, redact, withheld

OWN = "A2ZX81QWERT3KV"
OTHER = "A1PLKJ8HGFD5SM"

FORMS = {
    "plain": str,
    "lower": str.lower,
    "after a line end": lambda i: f"x\n{i}\n",
    "between underscores": lambda i: f"_{i}_",
    "before an accent": lambda i: f"{i}é",
    "after an accent": lambda i: f"é{i}",
    "in words": lambda i: f"I am {i}, thanks",
    "in a link": lambda i: f"https://worker.mturk.com/?workerId={i}&x=1",
}
OWN_FORMS = {
    **FORMS,
    "with spaces": " ".join,
    "with dashes": lambda i: f"{i[:5]}-{i[5:]}",
    "within a word": lambda i: f"xyz{i}abc",
}


def shows(text, worker_id):
    return worker_id.lower() in re.sub(r"[^a-z0-9]", "", text.lower())


@cases("form worker_id", *((form, OWN) for form in OWN_FORMS), *((form, OTHER) for form in FORMS))
@cases("is_answer", False, True)
def test_an_id_is_found_in_every_form_and_of_somebody_else_by_its_form(form, is_answer, worker_id):
    written = OWN_FORMS[form](worker_id)
    assert shows(written, worker_id)
    left = redact(f"before {written} after", OWN, is_answer)
    assert (MASK in left, shows(left, worker_id), left[:6], left[-5:]) == (True, False, "before", "after")


def test_doubled_ids_are_one_and_short_ones_stand_alone():
    assert redact(f"{OWN} here", f"{OWN},{OWN}") == f"{MASK} here"
    assert redact("is A12B3 there", "A12B3", is_answer=True) == f"is {MASK} there"
    for text, own in (("is xA12B3 there", "A12B3"), ("gate A1", "A1")):
        assert redact(text, own, is_answer=True) == text


HOSTILE = st.text(st.characters(exclude_categories=["Cs"]), max_size=20) | st.sampled_from(
    ["\0", "_", "é", "\n", "%", "&#", "\\u", "\\", "=", '"', ",", "A", "a1", "\u200b", "\ufeff", "%4", "&#6"]
)


@given(HOSTILE, st.sampled_from(sorted(OWN_FORMS)), HOSTILE)
@example("&#", "plain", "")
def test_wherever_it_stands_it_is_not_shown(before, form, after):
    left = redact(f"{before}{OWN_FORMS[form](OWN)}{after}", OWN)
    assert not shows(left, OWN)
    assert redact(left, OWN) == left
    assert redact(redact(before)) == redact(before)


def test_what_is_withheld_says_how_long_it_was_and_nothing_else():
    one, other = (withheld(b"a worker key of tests", f"row of {each}") for each in (OWN, OTHER))
    told = r"\[not shown, because it may contain a worker id: 21 characters, keyed hash [0-9a-f]{16}\]"
    assert re.fullmatch(told, one)
    assert one != other
    assert withheld(b"another key of the tests", f"row of {OWN}") != one


# --- the command ----------------------------------------------------------------------------------------------------


def everything(folder):
    """Name to all that can be read in each file, of Parquet the values."""
    tables = {path.name: rows_of(path) for path in folder.rglob("*.parquet")}
    values = {name: json.dumps(rows, default=str, ensure_ascii=False) for name, rows in tables.items()}
    files = {path: data.decode("latin-1") for path, data in files_of(folder).items()}
    return files | {f"values of {name}": text for name, text in values.items()}


def ids_of(found, ids):
    """(file, id) of every id that stands in a file, with anything or nothing between its letters."""
    packed = {name: re.sub(r"[^a-z0-9]", "", text.lower()) for name, text in found.items()}
    return {(name, each) for name, text in packed.items() for each in ids if each.lower() in text}


def test_no_output_of_compose_has_an_id(table, sample, tmp_path, caplog):
    caplog.set_level(logging.DEBUG)
    head, rows = table[0], [list(row) for row in table[1:31]]
    worker = head.index("WorkerId")
    answers = [i for i, name in enumerate(head) if name.startswith("Answer.")]
    for n, (row, form) in enumerate(zip(rows, [*OWN_FORMS] * 2, strict=False)):
        row[worker] = f"A{n:02d}QW{n * 7919 % 10**8:08d}Z"
        row[next((i for i in answers if row[i].strip()), answers[0])] = OWN_FORMS[form](row[worker])
        if form in FORMS and n % 2:  # and that of somebody else
            row[answers[-1]] = FORMS[form](rows[0][worker])
    ids = {row[worker] for row in rows}
    good, bad = quoted([head, *rows]), quoted(rows[:19])
    one_more = quoted([[*row, row[worker]] for row in rows[:3]]).replace('"', "")
    last = b'"' + rows[4][worker].encode() + b"\xff\xe9" + rows[5][worker].lower().encode() + b"\n"
    # The second is an export appended to another.
    mixed = write(tmp_path / "mixed.csv", good.encode() + bad.encode("utf-16") + one_more.encode() + last)
    odd = [{"Answer": f"<a>{rows[0][worker]}"}, {"Answer": ""}, {"x": [rows[1][worker].lower()]}]
    lines = [
        json.dumps({"AssignmentId": f"3JSON{n}", "WorkerId": row[worker], "RequesterAnnotation": row[worker], **more})
        for n, (row, more) in enumerate(zip(rows, odd, strict=False))
    ]
    lines += [f'{{"WorkerId": "{rows[0][worker]}"', f'["{rows[1][worker]}"]', f'{{"workerid":"{rows[2][worker]}"}}']
    swapped = [list(row) for row in rows[:3]]
    for row in swapped:
        at = head.index("AssignmentId")
        row[at], row[worker] = row[worker], row[at]
    jsonl = write(tmp_path / "lines.jsonl", "\n".join(lines))
    files = [mixed, jsonl, write(tmp_path / "swapped.csv", quoted([head, *swapped]))]
    made = run("compose", schemas=sample, responses=files, output=tmp_path / "out", status=None)
    assert len(made.dead_letters) >= 25
    assert ids_of(everything(made.folder) | {"printed": made.output + made.errors + caplog.text}, ids) == set()
    texts = made.rows("responses.parquet")
    assert sum(MASK in row["text"] for row in texts) >= 20
    assert {row["reason"] for row in texts if MASK in row["text"]} <= {"worker_id", "same_answer", "too_fast"}
    assert not [row for row in texts if any(shows(row["text"], each) for each in ids)]


@pytest.fixture
def home(tmp_path, monkeypatch):
    """A configuration folder of its own, and no key in the environment."""
    monkeypatch.delenv(VARIABLE)
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    return tmp_path / "config"


def test_the_environment_decides_or_each_home_has_its_key(home, monkeypatch, tmp_path):
    first = load_worker_key()
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "other"))
    assert load_worker_key() not in (first, b"")
    write(key_file(), b"a key that someone wrote\n")
    assert load_worker_key() == b"a key that someone wrote"  # a newline at the end is no part of it
    monkeypatch.setenv(VARIABLE, "sixteen letters!")
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "third"))
    assert (load_worker_key(), (tmp_path / "third").exists()) == (b"sixteen letters!", False)


def test_where_no_key_can_be_kept_the_message_says_what_to_do(home):
    home.write_text("a file, not a folder")
    raised(InputError, load_worker_key, match=f"cannot store the worker key: .*; set {VARIABLE} instead")
