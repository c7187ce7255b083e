"""``parapet.compose`` and ``parapet.rank``: the same as the command ``compose``, byte for byte; and what it refuses."""

import csv
import json
from unittest import mock

import msgspec
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from kit import THOROUGH, argv_of, files_of, json_of, lacking, raised, rows_of, write

from parapet import compose, rank
from parapet.pipelines.main import main
from parapet.schemas import layout
from parapet.schemas.decisions import Decision
from parapet.schemas.errors import InputError, NoRoomError
from parapet.schemas.rows import RESPONSES, Assignment
from parapet.transforms.crowd.answer_files import read_responses, read_sheet

KEY = b"a worker key for tests only"


@pytest.fixture(scope="module")
def answers(sample):
    return [sample / "crowd" / "names.csv", sample / "crowd" / "descriptions.csv"]


@pytest.fixture(scope="module")
def decisions(sample):
    return sample / "crowd" / "decisions.csv"


@pytest.fixture(scope="module")
def made(sample, answers, decisions):
    return compose(sample, answers, decisions)


def by_command(output, *flags):
    main(["compose", "--quiet", "--output", str(output), *map(str, flags)])
    return files_of(output)


# --- the same as the command ---------------------------------------------------------------------------------------


def test_what_is_saved_is_what_the_command_writes(tmp_path, made, sample, answers, decisions):
    expected = by_command(tmp_path / "command", "--schemas", sample, "--responses", *answers, "--decisions", decisions)
    made.save(tmp_path / "api")
    assert (files_of(tmp_path / "api"), made.statistics) == (expected, json.loads(expected["statistics.json"]))
    rows = list(csv.DictReader(expected["shortfall.csv"].decode().splitlines()))
    assert ([{k: str(v) for k, v in row.items()} for row in made.shortfall.to_pylist()], len(rows)) == (rows, 2)
    audit = pq.read_table(tmp_path / "command" / "responses.parquet")
    assert made.audit.schema == RESPONSES == audit.schema
    assert made.audit.equals(audit)
    for name, of_splits in made.variants.items():
        assert {f"{name}/{split}/schema.json" for split in of_splits} == {p for p in expected if p.startswith(name)}
        for split, services in of_splits.items():
            assert services == json.loads(expected[f"{name}/{split}/schema.json"])


def test_options_are_the_flags(tmp_path, sample, answers):
    options = {"allow_partial": True, "seed": 7, "selection": "diverse"}
    options |= {"name_distance": "jaccard", "description_distance": "levenshtein"}
    flags = argv_of("--schemas", sample, "--responses", *answers, **options)
    compose(sample, answers, **options).save(tmp_path / "api")
    assert files_of(tmp_path / "api") == by_command(tmp_path / "command", *flags)


@pytest.mark.thorough  # the sample's answers do, above
def test_the_published_answers_give_the_same_by_both(tmp_path, real_data):
    files = [real_data / "mturk" / name for name in ("names.csv", "descriptions.csv", "assignments.jsonl")]
    expected = by_command(tmp_path / "command", "--schemas", real_data / "sgd", "--responses", *files)
    made = compose(real_data / "sgd", files)
    made.save(tmp_path / "api")
    assert (files_of(tmp_path / "api"), made.audit.num_rows) == (expected, 7_340)


SAMPLE = layout.sample_root()
ROWS = rows_of(SAMPLE / "crowd" / "descriptions.csv")


@given(st.permutations(ROWS[:24]), st.lists(st.integers(0, 23), max_size=8), st.integers(0, 24))
@settings(max_examples=20 if THOROUGH else 6)
def test_order_and_copies_of_answers_do_not_matter(tmp_path_factory, rows, copied, cut):
    folder = tmp_path_factory.mktemp("shuffled")
    rows = rows + [rows[i] for i in copied]
    exports = {"a.csv": rows[:cut], "b.csv": rows[cut:], "all.csv": ROWS[:24]}
    *parts, whole = (write(folder / name, part) for name, part in exports.items() if part)
    made = compose(SAMPLE, parts, allow_partial=True)
    same = compose(SAMPLE, whole, allow_partial=True)
    assert made.audit.equals(same.audit)
    assert (made.variants, made.statistics) == (same.variants, same.statistics)
    assert made.audit.num_rows > 100


# --- what it takes -------------------------------------------------------------------------------------------------


def test_records_are_as_good_as_files(sample, answers, decisions, made):
    records = [record for path in answers for record in read_responses(str(path), KEY, "utf-8")]
    assert all(isinstance(record, Assignment) for record in records)
    decided, _ = read_sheet(str(decisions))
    again = compose(sample, records, decided)
    assert again.audit.equals(made.audit)
    assert again.variants == made.variants
    assert compose(sample, [answers[0], *records], [decisions, *decided]).audit.equals(made.audit)


def test_a_service_that_breaks_a_rule_is_a_dead_letter(sample, answers):
    services = json_of(sample / "test" / "schema.json")
    services[0]["slots"][0]["name"] = ""
    made = compose(services, answers, sample / "crowd" / "decisions.csv")
    (letter,) = [letter for letter in made.dead_letters if letter.stage == "schemas"]
    assert letter.reason.startswith("bad_service: [0].slots[0].name:")
    assert len(made.variants["v1"]["schema"]) == len(services) - 1


# --- what it refuses -----------------------------------------------------------------------------------------------


def refused(*args, **options):
    return str(raised(InputError, compose, *args, **options))


def test_bad_input_is_refused_with_place_and_reason(tmp_path, sample, answers):
    empty = write(tmp_path / "empty.csv", "")
    assert refused(tmp_path / "none", answers) == f"{tmp_path}/none: there is no such file or folder"
    assert refused(sample, tmp_path / "none.csv") == f"responses {tmp_path}/none.csv: there is no such file"
    assert refused(sample, tmp_path) == f"responses {tmp_path}: is a folder: give a file"
    assert refused(sample, []) == "responses: no assignment could be read: the files contain none"
    assert not lacking(refused(sample, empty), "no assignment could be read", f"{empty}: unusable_file")
    assert refused(sample, answers, empty).startswith(f"{empty}: the file is empty")
    assert refused(sample, [answers[0], 3]) == ("responses[1]: expected a path or a record of Assignment, found int")
    assert refused(sample, answers, [answers]).startswith("decisions[0]: expected a path or a record of Decision")
    assert refused(sample, answers, seed=1, selection="best").startswith("selection: 'best' is unknown")
    assert refused(sample, answers, name_distance="cosine").startswith("name_distance: there is no distance 'cosine'")
    assert refused(sample, answers, encoding="base64") == "encoding: 'base64' is not a text encoding that Python knows"
    assert refused({"service_name": "A"}, answers) == "services: expected a list of services, found dict"
    assert refused([], answers) == "services: the list of services is empty"
    assert refused([{"service_name": "A"}], answers).startswith("services: [0]: ")


def test_records_made_by_hand_are_checked(sample):
    good = Assignment("3A", "Ferries_1", "names", "ab", {"slot_0": "x"})
    bad = msgspec.structs.replace(good, answers={"slot_0": 3})
    assert refused(sample, [good, bad]).startswith("responses[1]: Expected `str`, got `int`")
    maybe = Decision("3A:slot_0", "perhaps")
    assert refused(sample, [good], [maybe]).startswith("decisions[0]: Invalid enum value 'perhaps'")


def test_a_save_that_fails_publishes_nothing(tmp_path, made, monkeypatch):
    full = mock.Mock(side_effect=OSError(28, "No space left on device"))
    monkeypatch.setattr("pyarrow.parquet.ParquetWriter.write_table", full)
    raised(NoRoomError, made.save, tmp_path / "out", match="no disk space left")
    assert not {"run.json", "responses.parquet"} & files_of(tmp_path / "out").keys()


# --- rank ----------------------------------------------------------------------------------------------------------


@given(st.text(max_size=8), st.lists(st.text(max_size=8), max_size=6), st.sampled_from(["levenshtein", "jaccard"]))
def test_rank_orders_by_distance_then_text(original, paraphrases, by):
    found = rank(original, paraphrases, by)
    assert (found, sorted(text for _, text in found)) == (sorted(found), sorted(paraphrases))
    assert (rank(original, reversed(paraphrases), by), rank(original, [original], by)) == (found, [(0.0, original)])


def test_rank_refuses_what_it_cannot_rank():
    known = "no distance 'cosine': built in: jaccard, jaccard_spacy, levenshtein"
    raised(InputError, rank, "a", ["b"], by="cosine", match=known)
    raised(InputError, rank, "a", "bc", match="put it in a list")
    raised(InputError, rank, "a", ["b", None], match=r"paraphrases\[1\]: expected a text, found NoneType")
