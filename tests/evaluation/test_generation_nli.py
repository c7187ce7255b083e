"""Entailment by a model in a folder: a tiny RoBERTa that is made here. Its labels stand where its config.json says."""

import json
import shutil
from pathlib import Path

import pytest

pytest.importorskip("torch", reason="the extra 'local' is not installed")
pytest.importorskip("transformers")

from kit import cases, json_of, raised
from tiny_checkpoints import save_roberta

from parapet.evaluation.generation.scoring import Nli
from parapet.schemas.errors import InputError

PAIRS = [
    ("How about Opa?", "Name of the restaurant is Opa"),
    ("Which city? " * 40, "Request City of the restaurant"),  # longer than the model takes
    ("", "Goodbye."),
    ("Do they have live music? Yes, they do.", "has live music? Yes."),
]


@pytest.fixture(scope="module")
def roberta(tmp_path_factory):
    return save_roberta(tmp_path_factory.mktemp("nli") / "roberta")


def test_each_pair_is_judged_as_alone(roberta):
    nli = Nli(str(roberta), batch=3)
    together = nli.entailment(PAIRS)
    for pair, judgement in zip(PAIRS, together, strict=True):
        (alone,) = nli.entailment([pair])
        assert (alone, sum(judgement)) == (pytest.approx(judgement, abs=1e-5), pytest.approx(1))
    assert len({max(range(3), key=one.__getitem__) for one in together} | {round(one[0], 3) for one in together}) > 2
    assert nli.entailment(PAIRS[::-1]) == together[::-1]  # the order of asking decides nothing
    assert nli.entailment([]) == []


def spoil(folder, fault):
    config = json_of(folder / "config.json")
    if fault == "no config":
        (folder / "config.json").unlink()
    elif fault == "no weights":
        (folder / "model.safetensors").unlink()
    elif fault == "no tokenizer":
        (folder / "tokenizer.json").unlink()
        (folder / "merges.txt").unlink()
    else:
        config |= {
            "another architecture": {"architectures": ["RobertaForMaskedLM"]},
            "numbered labels": {"id2label": {"0": "LABEL_0", "1": "LABEL_1", "2": "LABEL_2"}},
            "odd positions": {"id2label": {"0": "entailment", "1": "neutral", "7": "contradiction"}},
        }[fault]
        (folder / "config.json").write_text(json.dumps(config))


@cases(
    "fault said",
    ("no config", "has no config.json, so it contains no model; Parapet does not download models"),
    ("no weights", "has no weights (model.safetensors or pytorch_model.bin)"),
    ("no tokenizer", "lacks the files of a tokenizer (tokenizer.json or vocab.json, merges.txt or "),
    ("another architecture", "contains a RobertaForMaskedLM: expected a classifier of text pairs"),
    ("numbered labels", "its labels are LABEL_0, LABEL_1, LABEL_2: id2label in config.json must map"),
    ("odd positions", "its labels are entailment, neutral, contradiction: "),
)
def test_folders_that_cannot_be_used(roberta, tmp_path, fault, said):
    copy = Path(shutil.copytree(roberta, tmp_path / "copy"))
    spoil(copy, fault)
    error = raised(InputError, Nli, str(copy))
    assert error.reason.startswith(said)
    assert error.path.startswith(str(copy))


def test_a_batch_of_nothing(roberta):
    raised(InputError, Nli, str(roberta), batch=0, match="--batch: 0: must be 1 or more")


@pytest.mark.parametrize("fault", ["broken weights", "half of the weights"])
def test_a_model_that_cannot_be_loaded(roberta, tmp_path, fault):
    copy = Path(shutil.copytree(roberta, tmp_path / "copy"))
    if fault == "broken weights":
        (copy / "model.safetensors").write_bytes(b"no weights")
    else:
        from safetensors.torch import load_file, save_file

        weights = load_file(copy / "model.safetensors")
        save_file({key: one for key, one in weights.items() if "out_proj" not in key}, copy / "model.safetensors",
                  metadata={"format": "pt"})  # fmt: skip
    error = raised(InputError, Nli(str(copy)).entailment, PAIRS)
    assert error.path == str(copy)
    assert "\n" not in error.reason


def test_its_name_follows_the_files_that_count(roberta, tmp_path):
    copy = Path(shutil.copytree(roberta, tmp_path / "roberta"))
    assert Nli(str(copy)).model == Nli(str(roberta)).model
    (copy / "README.md").write_text("not read")
    assert Nli(str(copy)).model == Nli(str(roberta)).model
    data = bytearray((copy / "model.safetensors").read_bytes())
    data[-1] ^= 1
    (copy / "model.safetensors").write_bytes(data)
    assert Nli(str(copy)).model != Nli(str(roberta)).model
