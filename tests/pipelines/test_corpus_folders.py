"""A split's folder or its schema as a corpus, and one ``schema.json`` for all splits, as MultiWOZ 2.2 has it."""

import json
import re
import shutil

import multiwoz_corpus
import pyarrow.parquet as pq
import pytest
from commands import inputs_of, lines, made, write_inputs
from kit import THOROUGH, cases, dialogues_of, json_of, lacking, refused, run, write

import parapet
from parapet.schemas import layout
from parapet.schemas.layout import SPLITS
from parapet.transforms.variants.matching import compose_variant


@pytest.fixture(scope="module")
def variants(tmp_path_factory):
    """Of the sample: v1 has other names for its slots."""
    root = tmp_path_factory.mktemp("variants")

    def variant(raw):
        names = {f"slot_{i}": f"x_{slot['name']}" for i, slot in enumerate(raw["slots"])}
        names |= {f"intent_{i}": intent["name"] for i, intent in enumerate(raw["intents"])}
        return compose_variant(raw, 1, names, dict.fromkeys((*names, "service"), "New"))

    for split in layout.read_root(layout.sample_root()):
        write(root / "v1" / split.relative_path, layout.schema_bytes([*map(variant, split.raw)]))
    return root


@pytest.fixture(scope="module")
def whole(sample, variants, tmp_path_factory):
    """The whole sample, rewritten."""
    out = tmp_path_factory.mktemp("whole") / "out"
    return run("rewrite", "--variants", variants, "--quiet", sgd=sample, output=out).folder


@cases("sgd given", ("dev", ""), ("dev", "v1/dev"), ("dev/schema.json", "v1/dev/schema.json"), ("copy", "v1"))
def test_rewrite(sgd, given, sample, variants, whole, tmp_path):
    shutil.copytree(sample, tmp_path / "sgd")
    shutil.copytree(sample / "dev", tmp_path / "sgd/copy")
    run("rewrite", "--variants", str(variants / given), "--quiet", sgd=tmp_path / "sgd" / sgd, output=tmp_path / "out")
    for name in ("dialogues_001.json", "schema.json"):
        assert (tmp_path / "out/v1" / name).read_bytes() == (whole / "v1/dev" / name).read_bytes()


def test_variants_of_other_splits_are_told_at_once(sample, variants, tmp_path):
    shutil.copytree(variants / "v1/train", tmp_path / "variants/v1/train")
    told = refused("rewrite", sgd=sample / "test", variants=tmp_path / "variants", output=tmp_path / "out")
    assert not lacking(told, "no service of the corpus has a match in v1", "no such split, only train/schema.json")


@cases("command", "language_variations", "ood", "unseen_entities --training {sample}", "hits --task rewrites")
def test_an_absent_split_is_told_with_those_that_are_there(command, sample, tmp_path):
    corpus = shutil.copytree(sample / "dev", tmp_path / "sgd/dev").parent
    argv = [*command.format(sample=sample).split(), ("--dialogues" if "hits" in command else "--sgd"), corpus]
    message = refused(*argv, output=tmp_path / "out")
    assert ("there are some with --split dev" if "hits" in command else "these splits have some: dev") in message


def test_statistics_of_a_split_and_with_one_schema_for_all_splits(sample, variants, tmp_path):
    raw = layout.raw_by_name(layout.read_root(sample))
    shutil.copytree(sample, tmp_path / "one")
    for split in layout.SPLITS:
        (tmp_path / "one" / split / "schema.json").unlink()
    write(tmp_path / "one/schema.json", list(raw.values()))
    for root, n in ((sample / "dev", len(layout.read_root(sample / "dev")[0].services)), (tmp_path / "one", len(raw))):
        found = run("statistics", variants=variants, sgd=root, output=tmp_path / "out").json("statistics.json")
        assert (found["services"], found["unseen_services"]) == (n, 0)
    refusal = refused("statistics", sgd=tmp_path / "one", output=tmp_path / "none")
    assert "there is no train/schema.json, so it is not known which names occur in train" in refusal


BOOKING = 4  # the turn in which a value is copied
DOMAINS = ("hotel", "restaurant")


def schema():
    services = multiwoz_corpus.schema()
    for slot in (slot for service in services for slot in service["slots"] if not slot["is_categorical"]):
        del slot["possible_values"]
    return services


def dialogue(number):
    """A dialogue whose frames have no actions, and a value that is copied from another slot."""
    made = multiwoz_corpus.dialogue(number, DOMAINS)
    for frame in (frame for turn in made["turns"] for frame in turn["frames"]):
        del frame["actions"]
    (frame,) = (frame for frame in made["turns"][BOOKING]["frames"] if frame["service"] == "hotel")
    frame["slots"].append(copied("hotel"))
    return made


def copied(prefix):
    return {"copy_from": f"{prefix}-name", "slot": f"{prefix}-name", "value": ["larch house", "Larch House"]}


@pytest.fixture(scope="module")
def root(tmp_path_factory):
    root = tmp_path_factory.mktemp("data") / "MultiWOZ_2.2"
    write(root / "schema.json", schema())
    write(root / "dialog_acts.json", {"MUL0000.json": {"0": {"dialog_act": {"Hotel-Inform": [["name", "larch"]]}}}})
    write(root / "README.md", "MultiWOZ 2.2")
    for split, numbers in {"train": range(4), "dev": (4, 5), "test": (6, 7)}.items():
        write(root / split / "dialogues_001.json", json.dumps([dialogue(n) for n in numbers], indent=4))
    return root


@pytest.mark.parametrize("kind", ["typos", "verbose", "unseen_entities"])
def test_it_is_perturbed_and_keeps_its_shape(kind, root, tmp_path):
    made = run("perturb", kind, sgd=root, output=tmp_path / "out")
    assert not made.dead_letters
    assert "warning" not in made.errors
    folder = tmp_path / "out" if kind == "unseen_entities" else tmp_path / "out" / kind
    assert json.loads((folder / "schema.json").read_bytes()) == schema()
    texts = 0
    for name, perturbed in dialogues_of(folder / "test").items():
        original = dialogue(int(name.removeprefix("MUL").removesuffix(".json")))
        for before, after in zip(original["turns"], perturbed["turns"], strict=True):
            texts += before["utterance"] != after["utterance"]
            for old, new in zip(before["frames"], after["frames"], strict=True):
                assert set(old) == set(new)
                assert kind == "unseen_entities" or old.get("state") == new.get("state")
                names = [[span for span in of["slots"] if span["slot"] == "hotel-name"] for of in (old, new)]
                for was, span in zip(*names, strict=True):
                    shown = after["utterance"][span.get("start", 0) : span.get("exclusive_end", 0)]
                    assert "start" not in was or (shown == was["value"]) == (kind != "unseen_entities")
            assert set(before) == set(after)
    assert texts


def test_splits_alone_and_together(root, tmp_path):
    run("perturb", "typos", sgd=root, split="train,test", output=tmp_path / "both")
    run("perturb", "typos", sgd=root / "test", output=tmp_path / "alone")
    path = tmp_path / "alone/typos/dialogues_001.json"
    assert path.read_bytes() == (tmp_path / "both/typos/test/dialogues_001.json").read_bytes()
    assert parapet.load_corpus(root).splits == ("train", "dev", "test")
    assert parapet.load_corpus(root / "test").services() == schema()
    assert "MultiWOZ_2.2: give one of them" in refused("perturb", "typos", sgd=root.parent, output=tmp_path / "no")


def test_every_service_of_the_one_schema_counts_as_seen(root, tmp_path):
    made = run("evaluate", task="dst", reference=root, model="names", output=tmp_path / "out")
    assert "unseen" not in made.errors
    assert "#SEEN_SERVICES" in json.dumps(made.json("metrics.json"))


def test_variants_of_its_schema(root, tmp_path):
    write(tmp_path / "variants/v1/schema.json", json.loads(json.dumps(schema()).replace("hotel-", "inn-")))
    assert not run("rewrite", sgd=root, variants=tmp_path / "variants", output=tmp_path / "out").dead_letters
    turn = dialogues_of(tmp_path / "out/v1/test")["MUL0006.json"]["turns"][BOOKING]
    assert turn["frames"][0]["slots"][-1] == copied("inn")


LINES = lines("/place", "/place/out")
# These take seconds or need what a slow line makes; test_multiwoz_files.py has the others of `rewrite` and `evaluate`.
SLOW = {
    *("hits", "compose", "back_translate", "speech_errors", "suite"),
    *("train classifier", "predict classifier", "evaluate intent", "hits ratings"),
    *("evaluate variants", "language_variations rewritten", "ood", "ood source"),
}


def reads(name, corpus="/place/sgd"):
    """Whether a line reads the corpus, and nothing that a slow line makes."""
    paths = [path for _, _, path in inputs_of(LINES[name], "/place")]
    needed = {path.removeprefix("/place/out/").split("/")[0] for path in paths if path.startswith("/place/out/")}
    return corpus in paths and (THOROUGH or not ({name} | needed) & SLOW)


NAMES = [name for name in LINES if reads(name)] + ["release", "leaderboard"]


@pytest.fixture(scope="module")
def places(tmp_path_factory):
    """The inputs of the lines: with the schema in each split, and with one for all."""
    root = tmp_path_factory.mktemp("places")
    for name in ("each", "one"):
        write_inputs(root / name)
        paths = [root / name / "sgd" / split / "schema.json" for split in SPLITS]
        schema = list({service["service_name"]: service for path in paths for service in json_of(path)}.values())
        for path in paths:
            path.unlink()
        for path in paths if name == "each" else [root / name / "sgd/schema.json"]:
            write(path, schema)
        toml = root / name / "release.toml"
        toml.write_text(toml.read_text().replace('splits = ["test"]\n', ""))
    return root


def contents(folder, place):
    """The dialogues, rows, and numbers below a folder."""
    found = {}
    for path in sorted(folder.rglob("*")):
        name = str(path.relative_to(folder))
        if path.suffix == ".parquet" and "/schemas/" not in name:
            found[name] = pq.read_table(path).to_pylist()
        elif path.name.startswith(("dialogues_", "metrics", "dead_letters")) or path.suffix in (".csv", ".jsonl"):
            found[name] = path.read_text("utf-8").replace(str(place), "")
    return found


@pytest.mark.parametrize("name", NAMES)
def test_it_makes_what_a_schema_in_each_split_makes(name, places):
    each, one = (contents(made(places / kind, name), places / kind) for kind in ("each", "one"))
    assert one == each
    assert one or name in ("statistics", "hits names", "leaderboard", "augment", "few_shot")


def test_a_release_holds_all_its_dialogues_and_their_services(places, tmp_path):
    one = made(places / "one", "release") / "sample"
    assert run("release", "verify", one).output.endswith("0 findings\n")
    changes = run("release", "diff", made(places / "each", "release") / "sample", one, status=None).output
    assert "\noriginal/" not in changes
    assert re.search(r"schemas/test: 0 added, \d removed", changes)
    shutil.copytree(one, tmp_path / "sample")
    path = tmp_path / "sample/1.0.0/sgd/original/schema.json"
    write(path, [service for service in json_of(path) if service["service_name"] != "Gyms_1"])
    assert "no schema for service 'Gyms_1'" in run("release", "verify", tmp_path / "sample", status=1).output


@pytest.mark.parametrize(("path", "split"), [("test", "test"), ("test/schema.json", "test"), ("flat", "full")])
def test_a_folder_of_dialogues_is_one_split_of_a_release(path, split, places, tmp_path):
    root = shutil.copytree(places / "each/sgd", tmp_path / "sgd")
    shutil.copytree(root / "test", root / "flat")
    toml = (places / "each/release.toml").read_text().replace('"sgd"', f'"sgd/{path}"')
    write(tmp_path / "release.toml", toml)
    run("release", "build", config=tmp_path / "release.toml", output=tmp_path / "out")
    assert run("release", "verify", tmp_path / "out/sample").output.endswith("0 findings\n")
    version = tmp_path / "out/sample/1.0.0"
    rows = pq.read_table(version / f"data/original/{split}-00000-of-00001.parquet").to_pylist()
    assert len(rows) == len(json_of(root / "test/dialogues_001.json"))
    copy = version / "sgd/original/dialogues_001.json"
    assert copy.read_bytes() == (root / "test/dialogues_001.json").read_bytes()


def test_a_split_of_a_release_needs_a_schema(places, tmp_path):
    root = shutil.copytree(places / "each/sgd", tmp_path / "sgd")
    (root / "dev/schema.json").unlink()
    shutil.copy(places / "each/release.toml", tmp_path)
    result = run("release", "build", config=tmp_path / "release.toml", output=tmp_path / "out", status=2)
    assert "sgd/dev: contains dialogues, but no schema.json" in result.errors
