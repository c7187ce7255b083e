"""The API gives what the commands write: the same dialogues and rows, byte for byte."""

import json
import tempfile
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from kit import files_of

import parapet
from parapet.pipelines.main import main
from parapet.schemas.layout import sample_root

SPLITS = "train,dev,test"


def data_of(folder: Path) -> dict[str, bytes]:
    """The dialogues, schemas and rows of a set; not what says how it was made."""
    wanted = (".json", ".parquet")
    return {name: data for name, data in files_of(folder).items() if name.endswith(wanted) and name != "run.json"}


def run(*flags: str) -> None:
    assert main([*flags, "--quiet"]) == 0


def command(*flags: str, env: str = "none") -> list[str]:
    """``language_variations`` on all splits."""
    return ["language_variations", "--env", env, "--split", SPLITS, *flags]


@settings(max_examples=6)
@given(
    kind=st.sampled_from(["typos", "verbose", "simple", "paraphrase"]),
    seed=st.text(st.characters(codec="ascii", categories=["L", "N"]), min_size=1, max_size=4),
    mixes=st.booleans(),
)
def test_language_variations(kind, seed, mixes):
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder)
        env = "0.2,0.9" if mixes else "none"
        run(*command("--kinds", kind, "--seed", seed, "--output", f"{out}/c", env=env))
        sets = parapet.perturb_sets(parapet.load_corpus(), kind, seed=seed, env=(0.2, 0.9) if mixes else ())
        assert list(sets) == [kind, f"{kind}-env1", f"{kind}-env2"][: 3 if mixes else 1]
        for name, corpus in sets.items():
            corpus.save(out / name)
            expected, found = data_of(out / "c" / name), data_of(out / name)
            assert expected.items() <= found.items()
            assert all(path.startswith("turns/") for path in found.keys() - expected.keys())


def test_the_options_of_typos(tmp_path):
    flags = ["--rates", "word=0.4,omission=10", "--at_least", "0", "--perturb_values", "--least_changed", "0"]
    run(*command("--kinds", "typos", *flags), "--output", str(tmp_path / "c"))
    options = {"rates": {"word": 0.4, "omission": 10}, "at_least": 0, "perturb_values": True}
    parapet.perturb(parapet.load_corpus(), "typos", **options).save(tmp_path / "a")
    assert data_of(tmp_path / "a") == data_of(tmp_path / "c" / "typos")


def test_paraphrases_of_a_memory(tmp_path):
    flags = ["--kinds", "paraphrase", "--engine", "memory", "--env", "none"]
    run("language_variations", *flags, "--output", str(tmp_path / "c"))
    corpus = parapet.load_corpus(sample_root() / "test")
    parapet.perturb(corpus, "paraphrase", memory=sample_root() / "translations.csv").save(tmp_path / "a")
    expected = {name.removeprefix("test/"): data for name, data in data_of(tmp_path / "c" / "paraphrase").items()}
    found = data_of(tmp_path / "a")
    assert found["dialogues_001.json"] == expected["dialogues_001.json"]
    assert found["turns/dialogues_001.parquet"] == expected["turns/test/dialogues_001.parquet"]


def test_rewritten_turns(tmp_path):
    corpus = parapet.load_corpus(sample_root() / "dev")
    rows = [row for row in parapet.perturb(corpus, "verbose").rows.to_pylist() if row["status"] == "varied"]
    columns = ("dialogue_id", "turn", "utterance")
    lines = [{**{name: row[name] for name in columns}, "kind": "verbose"} for row in rows if row["turn"] % 4 == 0]
    path = tmp_path / "lines.jsonl"
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    run(*command("--rewritten", str(path), "--sgd", str(sample_root() / "dev")), "--output", str(tmp_path / "c"))
    parapet.perturb(corpus, "verbose", rewritten=path).save(tmp_path / "a")
    assert data_of(tmp_path / "a") == data_of(tmp_path / "c" / "verbose")


@pytest.fixture(scope="module")
def variants(tmp_path_factory):
    out = tmp_path_factory.mktemp("variants")
    run("compose", "--allow_partial", "--output", str(out))
    return out


def test_apply_variants(variants, tmp_path):
    run("rewrite", "--variants", str(variants), "--output", str(tmp_path / "c"))
    renamed = parapet.apply_variants(parapet.load_corpus(), variants)
    assert list(renamed) == ["v1", "v2", "v3", "v4", "v5"]
    for name, corpus in renamed.items():
        corpus.save(tmp_path / name)
        assert data_of(tmp_path / name) == data_of(tmp_path / "c" / name)


def test_a_set_of_a_variant(variants, tmp_path):
    """Typos in v2: the commands on each other's folders, the API on its own corpora."""
    run("rewrite", "--variants", str(variants), "--variant", "v2", "--output", str(tmp_path / "r"))
    kinds = ["--kinds", "typos", "--env", "0.5", "--split", SPLITS]
    run("language_variations", "--sgd", str(tmp_path / "r" / "v2"), *kinds, "--output", str(tmp_path / "c"))
    v2 = parapet.apply_variants(parapet.load_corpus(), variants)["v2"]
    both = parapet.perturb_sets(v2, "typos", env=[0.5])
    both["typos"].save(tmp_path / "a")
    assert data_of(tmp_path / "a") == data_of(tmp_path / "c" / "typos")
    both["typos-env1"].save(tmp_path / "e")
    assert data_of(tmp_path / "c" / "typos-env1").items() <= data_of(tmp_path / "e").items()
