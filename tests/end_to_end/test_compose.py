"""``parapet compose`` through its command line, on the bundled sample and, where it is at hand, on real data."""

import json
import re
import shutil
from collections import Counter, defaultdict
from statistics import median

import pytest
from kit import cases, files_of, intent, json_of, refused, rows_of, run, write

from parapet.schemas import layout


def compose(output, *flags, status=0):
    return run("compose", *flags, output=output, status=status)


@pytest.fixture(scope="session")
def crowd(sample):
    return sample / "crowd"


@pytest.fixture(scope="session")
def csvs(crowd):
    return [crowd / "names.csv", crowd / "descriptions.csv"]


@pytest.fixture(scope="session")
def composed(tmp_path_factory, sample, csvs, crowd):
    """The sample composed from its CSVs with its reviewer's decisions."""
    out = tmp_path_factory.mktemp("composed") / "out"
    compose(out, "--schemas", sample, "--responses", *csvs, "--decisions", crowd / "decisions.csv")
    return out


@pytest.fixture(scope="session")
def undecided(tmp_path_factory):
    """The sample composed without a reviewer's decisions: too few answers are left for most services."""
    out = tmp_path_factory.mktemp("undecided") / "out"
    assert "1 of 6 services composed" in compose(out, "--require_complete", status=1).output
    return out


def answers_of(out):
    return rows_of(out / "responses.parquet")


def test_every_answer_ends_once_and_where_it_belongs(composed, crowd):
    truth = {f"{row['AssignmentId']}:{row['field']}": row for row in rows_of(crowd / "truth.csv")}
    rows = answers_of(composed)
    assert Counter(row["response_id"] for row in rows) == Counter(list(truth))
    fate = defaultdict(Counter)
    for row in rows:
        fate[truth[row["response_id"]]["label"]][row["disposition"]] += 1
    for label in ("blank", "placeholder", "gibberish", "markup", "too_long", "original_copy", "spam_worker"):
        assert set(fate[label]) == {"rejected"}, (label, fate[label])
    assert set(fate["prompt_copy"]) <= {"rejected", "review"}
    assert set(fate["wrong_meaning"]) == {"rejected"}  # by the reviewer
    assert set(fate["foreign"]) <= {"rejected", "review"}
    assert set(fate["genuine"]) <= {"used", "surplus", "duplicate", "review"}
    assert fate["genuine"]["review"] <= 0.05 * fate["genuine"].total()


def test_variants_are_named_ranked_and_referenced_right(composed, sample):
    from parapet.transforms.variants.distance import Method

    rows = {(r["element_id"], r["field"], r["variant"]): r for r in answers_of(composed) if r["variant"]}
    method, seen = Method(), 0
    for split in layout.read_root(sample):
        order = [name for name in (s.service_name for s in split.services) if name != "Museums_1"]
        for k in range(1, 6):
            path = composed / f"v{k}" / split.relative_path
            variant = layout.read_schema_file(path, split.split)
            assert path.read_bytes() == layout.schema_bytes(variant.raw)
            assert [s.service_name for s in variant.services] == [f"{name}{k}" for name in order]
            for original in split.services:
                if original.service_name == "Museums_1":
                    continue
                ours = next(s for s in variant.services if s.service_name == f"{original.service_name}{k}")
                rename = {a.name: b.name for a, b in zip(original.slots, ours.slots, strict=True)}
                names = [*rename.values(), *(intent.name for intent in ours.intents)]
                assert len(set(names)) == len(names)
                for a, b in zip(original.intents, ours.intents, strict=True):
                    assert b.required_slots == [rename[name] for name in a.required_slots]
                    assert b.optional_slots == {rename[name]: value for name, value in a.optional_slots.items()}
                    assert b.result_slots == [rename[name] for name in a.result_slots]
                    assert re.fullmatch(r"[A-Z][A-Za-z0-9]*", b.name)
                for a, b in zip(original.slots, ours.slots, strict=True):
                    assert (a.is_categorical, a.possible_values) == (b.is_categorical, b.possible_values)
                    assert re.fullmatch(r"[a-z0-9]+(_[a-z0-9]+)*", b.name)
                    element = f"{original.service_name}/slot/{a.name}"
                    named, described = rows[element, "name", k], rows[element, "description", k]
                    assert (named["canonical"], described["canonical"]) == (b.name, b.description)
                    assert named["distance"] == method.metric("names")(a.name, b.name)
                    assert described["distance"] == method.metric("descriptions")(a.description, b.description)
                    if k > 1:
                        assert named["distance"] >= rows[element, "name", k - 1]["distance"]
                        assert described["distance"] >= rows[element, "description", k - 1]["distance"]
                    seen += 1
    assert seen > 5 * 5 * 7


def test_shortfall_names_what_is_missing_and_the_service_is_left_out(composed):
    missing = [[r[key] for key in ("element_id", "task", "field", "have", "composed")]
               for r in rows_of(composed / "shortfall.csv")]  # fmt: skip
    assert missing == [
        ["Museums_1/slot/has_audio_guide", "names", "slot_3", "3", "no"],
        ["Museums_1/slot/collection", "descriptions", "slot_2", "4", "no"],
    ]
    statistics = json_of(composed / "statistics.json")
    assert [name for name, service in statistics["services"].items() if not service["composed"]] == ["Museums_1"]
    of_museums = [r for r in answers_of(composed) if r["element_id"].startswith("Museums_1")]
    assert {r["reason"] for r in of_museums if r["disposition"] == "surplus"} == {"service_incomplete"}


def test_a_top_up_asks_only_for_what_is_missing(composed, tmp_path):
    made = run("hits", output=tmp_path / "hits", shortfall=composed / "shortfall.csv")
    asked = {(row["task_id"], field) for row in rows_of(made.folder / "manifest.jsonl") for field in row["fields"]}
    missing = rows_of(composed / "shortfall.csv")
    assert asked == {(f"{row['service_name']}:{row['task']}", row["field"]) for row in missing}
    # Two HITs; 2 are missing at an expected yield of a half.
    assert made.json("plan.json")["total"]["assignments"] == 8


SHORTFALL = "service_name,task,field,have,need\n"


@cases(
    "text said",
    ("a,b\n1,2\n", "row 1: the header lacks service_name, task, field, have, need"),
    (f"{SHORTFALL}None_1,names,slot_0,1,5\n", "no such element: None_1:names, slot_0"),
    (f"{SHORTFALL}Gyms_1,names,slot_0,few,5\n", "row 2: 'have' and 'need' must be numbers"),
    (SHORTFALL, "no answers are missing"),
)
def test_a_bad_shortfall_is_told_by_row(text, said, tmp_path):
    assert said in refused("hits", output=tmp_path / "out", shortfall=write(tmp_path / "shortfall.csv", text))


def test_statistics_are_those_of_the_audit(composed):
    statistics, rows = json_of(composed / "statistics.json"), answers_of(composed)
    counted = Counter(row["disposition"] for row in rows)
    assert statistics["answers"] == {"total": len(rows), **{k: counted[k] for k in list(statistics["answers"])[1:]}}
    reasons = Counter(row["reason"].partition(":")[0] for row in rows if row["disposition"] == "rejected")
    assert statistics["reasons"]["rejected"] == dict(reasons)


def test_a_mix_of_exports_gives_the_same_bytes(composed, tmp_path, sample, csvs, crowd):
    responses = [csvs[1], crowd / "assignments.jsonl", csvs[0], csvs[0]]
    compose(tmp_path, "--schemas", sample, "--responses", *responses, "--decisions", crowd / "decisions.csv")
    assert files_of(tmp_path) == files_of(composed)


def test_partial_services_are_completed_and_marked(tmp_path, sample, csvs, crowd):
    flags = ["--responses", *csvs, "--decisions", crowd / "decisions.csv"]
    compose(tmp_path, "--schemas", sample, *flags, "--allow_partial")
    (row,) = [r for r in rows_of(tmp_path / "shortfall.csv") if (r["field"], r["task"]) == ("slot_3", "names")]
    assert (row["composed"], row["filled_variants"]) == ("partial", "v4 v5")
    services = [layout.services_by_name(layout.read_root(tmp_path / f"v{k}")) for k in range(1, 6)]
    names = [variant[f"Museums_1{k}"].slots[3].name for k, variant in enumerate(services, 1)]
    assert len(set(names[:3])) == 3
    assert names[3] == names[4] == names[2]
    assert json_of(tmp_path / "statistics.json")["services"]["Museums_1"]["partial"]


def test_the_draw_depends_on_the_seed_alone_and_diverse_is_further_apart(undecided, tmp_path):
    other = run("compose", seed=2, output=tmp_path / "other")
    diverse = run("compose", selection="diverse", output=tmp_path / "diverse").json("statistics.json")
    statistics = json_of(undecided / "statistics.json")
    assert statistics["answers"] == other.json("statistics.json")["answers"]
    assert files_of(undecided / "v1") != files_of(other.folder / "v1")
    assert diverse["self_bleu"] < statistics["self_bleu"]


def test_a_corpus_with_other_conventions(tmp_path):
    """MultiWOZ 2.2: ``domain-slot`` names, snake_case intents, no ``result_slots``, its own order of keys."""
    slots = [
        {"name": "hotel-pricerange", "description": "price budget of the hotel", "is_categorical": True},
        {"name": "hotel-name", "description": "name of the hotel", "is_categorical": False},
    ]
    slots[0]["possible_values"] = ["cheap", "expensive"]
    optional = dict.fromkeys((slot["name"] for slot in slots), "dontcare")
    find = intent("find_hotel", "search for a hotel to stay in", **optional)
    del find["result_slots"]
    about = "hotel reservations and vacation stays"
    schema = [{"service_name": "hotel", "slots": slots, "description": about, "intents": [find]}]
    write(tmp_path / "schema.json", schema)
    for task, fields in {
        "names": {
            "intent_0": "Look for Hotel,search_hotels,LocateHotel,discover a hotel,BrowseHotels",
            "slot_0": "cost level,hotel cost range,budget,price-category,how expensive",
            "slot_1": "title,hotel label,hotel called,lodging name,Name Of Property",
        },
        "descriptions": {
            "intent_0": "find a place to sleep,look up hotels,get a list of hotels,discover where to stay,see hotels",
            "slot_0": "cost level of the stay,how expensive it is,what the place costs,price category,budget for it",
            "slot_1": "what the hotel is called,title of the lodging,label of the place,the hotel's name,its name",
            "service": "book places to stay,lodging service,find a room,reserve hotel rooms,plan where to stay",
        },
    }.items():
        rows = []
        for w in range(5):
            row = {"AssignmentId": f"3{task[:1].upper()}{w}", "WorkerId": f"W{task}{w}", "WorkTimeInSeconds": 300}
            answers = {f"Answer.{field}": text.split(",")[w] for field, text in fields.items()}
            rows.append({**row, "Input.task_id": f"hotel:{task}", **answers})
        write(tmp_path / f"{task}.csv", rows)
    responses = [tmp_path / "names.csv", tmp_path / "descriptions.csv"]
    compose(tmp_path / "out", "--schemas", tmp_path / "schema.json", "--responses", *responses, "--require_complete")
    names = defaultdict(set)
    for k in range(1, 6):
        service = json_of(tmp_path / f"out/v{k}/schema.json")[0]
        assert list(service) == list(schema[0])
        assert "possible_values" not in service["slots"][1]
        assert "result_slots" not in service["intents"][0]
        assert list(service["intents"][0]["optional_slots"]) == [slot["name"] for slot in service["slots"]]
        names["intent"].add(service["intents"][0]["name"])
        names["slot"].update(slot["name"] for slot in service["slots"])
    assert names["intent"] == {"look_for_hotel", "search_hotels", "locate_hotel", "discover_a_hotel", "browse_hotels"}
    said = ("cost_level", "cost_range", "price_category", "title", "label")
    assert {f"hotel-{name}" for name in said} <= names["slot"]
    assert all(re.fullmatch(r"hotel-[a-z_]+", name) for name in names["slot"])


def test_a_reviewers_work_is_never_replaced(undecided, tmp_path):
    out = shutil.copytree(undecided, tmp_path / "out")
    sheet = out / "review.csv"
    filled = sheet.read_bytes().replace(b'","","","",""', b'","accept","","",""')
    sheet.write_bytes(filled)
    for flags in ([], ["--decisions", sheet]):
        told = compose(out, "--quiet", *flags, status=2).errors
        assert "review.csv: has been changed since it was written: move it elsewhere" in told
        assert sheet.read_bytes() == filled
    compose(out, "--quiet", "--decisions", sheet.rename(tmp_path / "mine.csv"))
    assert json_of(out / "statistics.json")["decisions"]["accept"] > 20


def test_a_bad_service_is_not_complete(tmp_path, sample, csvs, crowd):
    schema = json_of(sample / "train/schema.json")
    kept = [service for service in schema if service["service_name"] in ("Ferries_1", "Gyms_1")]
    (tmp_path / "schema.json").write_text(json.dumps(kept))
    flags = ["--schemas", tmp_path / "schema.json", "--responses", *csvs, "--require_complete", "--quiet"]
    compose(tmp_path / "good", *flags, "--decisions", crowd / "decisions.csv")
    kept[0]["intents"][0]["required_slots"].append("gone")
    (tmp_path / "schema.json").write_text(json.dumps(kept))
    held = next(r for r in answers_of(tmp_path / "good") if r["element_id"].startswith("Ferries_1"))["response_id"]
    (tmp_path / "decisions.csv").write_text(f"response_id,decision\n{held},reject\n")
    compose(tmp_path / "bad", *flags, "--decisions", crowd / "decisions.csv", tmp_path / "decisions.csv", status=1)
    reasons = {letter["key"]: letter["reason"] for letter in rows_of(tmp_path / "bad/dead_letters.jsonl")}
    assert reasons[held] == "unused_response: 'Ferries_1' was left out, because its schema is invalid (see bad_service)"
    assert (tmp_path / "bad/v1/schema.json").exists()


# Working time and pay.


HEADER = "AssignmentId,WorkerId,WorkTimeInSeconds,Reward,Input.task_id,Answer.slot_0\n"


def test_medians_by_task_where_time_and_reward_are_known(tmp_path):
    rows = [
        ("3A", "60", "$1.00", "names"),
        ("3B", "120", "1", "names"),
        ("3C", "180", "$2.00", "names"),
        ("3D", "32400", "$1.00", "names"),  # left open for nine hours
        ("3E", "", "$9.00", "names"),
        ("3F", "90", "", "descriptions"),
        ("3G", "0", "$9.00", "descriptions"),
        ("3H", "90", "12 points", "descriptions"),
    ]
    lines = [f"{id_},A{id_},{taken},{reward},Ferries_1:{task},some words\n" for id_, taken, reward, task in rows]
    answers = write(tmp_path / "answers.csv", HEADER + "".join(lines))
    out = run("compose", responses=answers, output=tmp_path / "out", status=1)
    assert out.json("statistics.json")["work"] == {
        "descriptions": {"assignments": 2, "median_minutes": 1.5, "dollars_per_hour": None},
        "names": {"assignments": 4, "median_minutes": 2.5, "dollars_per_hour": 35.0},  # of 60, 30, 40 and 0.11
    }


def test_work_times_are_those_of_a_plain_reader_of_the_files(composed, csvs):
    for path in csvs:
        rows = rows_of(path)
        seconds = [int(row["WorkTimeInSeconds"]) for row in rows]
        pay = [float(row["Reward"].strip("$")) * 3600 / taken for row, taken in zip(rows, seconds, strict=True)]
        numbers = json_of(composed / "statistics.json")["work"][path.stem]
        assert numbers["assignments"] == len(rows)
        assert abs(numbers["median_minutes"] - median(seconds) / 60) <= 0.005
        assert abs(numbers["dollars_per_hour"] - median(pay)) <= 0.005
