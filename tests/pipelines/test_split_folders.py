"""A split's folder, or its schema, is accepted where a corpus is; and whose dialogues are meant where nobody says."""

import shutil

import pytest
from kit import cases, json_of, refused, run, write

from parapet.schemas import layout
from parapet.transforms.variants.matching import compose_variant


@pytest.fixture(scope="module")
def variants(tmp_path_factory):
    """Of the sample: v1 has other names for its slots."""
    root = tmp_path_factory.mktemp("variants")
    for split in layout.read_root(layout.sample_root()):
        place = root / "v1" / split.relative_path
        place.parent.mkdir(parents=True)
        schemas = []
        for raw in split.raw:
            names = {f"slot_{i}": f"x_{slot['name']}" for i, slot in enumerate(raw["slots"])}
            names |= {f"intent_{i}": intent["name"] for i, intent in enumerate(raw["intents"])}
            schemas.append(compose_variant(raw, 1, names, dict.fromkeys((*names, "service"), "New")))
        place.write_bytes(layout.schema_bytes(schemas))
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
    flags = ["--sgd", str(sample / "test"), "--variants", str(tmp_path / "variants"), "--output", str(tmp_path / "out")]
    told = refused("rewrite", *flags)
    assert "no service of the corpus has a match in v1; the first problem is: " in told
    assert "the variant has no such split, only train/schema.json" in told


def test_statistics(sample, variants, tmp_path):
    run("statistics", "--variants", str(variants), "--quiet", sgd=sample / "dev", output=tmp_path / "out")
    found = json_of(tmp_path / "out/statistics.json")
    of_dev = layout.read_root(sample / "dev")[0].services
    assert (found["services"], found["unseen_services"]) == (len(of_dev), 0)


@cases("command", "language_variations", "ood", "unseen_entities --training {sample}", "hits --task rewrites")
def test_an_absent_split_is_told_with_those_that_are_there(command, sample, tmp_path):
    corpus = shutil.copytree(sample / "dev", tmp_path / "sgd/dev").parent
    argv = [*command.format(sample=sample).split(), ("--dialogues" if "hits" in command else "--sgd"), corpus]
    message = refused(*argv, output=tmp_path / "out")
    assert (
        "there are some with --split dev" if "hits" in command else "'test'; these splits have some: dev"
    ) in message


def test_statistics_with_one_schema_for_all_splits(sample, variants, tmp_path):
    raw = layout.raw_by_name(layout.read_root(sample))
    for split in layout.SPLITS:
        shutil.copytree(sample / split, tmp_path / "one" / split)
        (tmp_path / "one" / split / "schema.json").unlink()
    write(tmp_path / "one/schema.json", list(raw.values()))
    run("statistics", "--variants", str(variants), "--quiet", sgd=tmp_path / "one", output=tmp_path / "out")
    of_one = json_of(tmp_path / "out/statistics.json")
    assert (of_one["services"], of_one["unseen_services"]) == (len(raw), 0)
    refusal = refused("statistics", sgd=tmp_path / "one", output=tmp_path / "none")
    assert "there is no train/schema.json, so it is not known which names occur in train" in refusal
