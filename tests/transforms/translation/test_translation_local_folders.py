"""Which folders the local engine takes, what it calls them, and which arguments."""

from pathlib import Path

import pytest

pytest.importorskip("torch", reason="the extra 'local' is not installed")
pytest.importorskip("transformers")
pytest.importorskip("ctranslate2")


from parapet.schemas.errors import InputError
from parapet.transforms.translation.local import Local, inspect
from parapet.transforms.translation.memory import Limits

# transformers 5 says so of each Marian tokenizer; it does not use it.
pytestmark = pytest.mark.filterwarnings("ignore:Recommended. pip install sacremoses")


def test_its_name_in_the_memory(models):
    folder = models["zh-en"]
    digest = inspect(folder).digest
    assert Local({"zh-en": folder}).model == f"marian:zh-en@{digest},beams=4"
    sampling = Local({"zh-en": folder}, sample=True, temperature=0.7, seed="two")
    assert sampling.model == f"marian:zh-en@{digest},temperature=0.7,top_k=50,seed=two"
    both = Local({"*": models["m2m"], "zh-en": models["ct2-zh-en"]}, beams=1)
    ours = f"m2m_100:*@{inspect(models['m2m']).digest},marian/ctranslate2:zh-en@{inspect(models['ct2-zh-en']).digest}"
    assert both.model == f"{ours},beams=1"
    assert (both.provider, both.dollars_per_million, both.parallel) == ("local", 0, 1)
    assert Local({"zh-en": folder}, batch=8, max_tokens=9, threads=3).model == Local({"zh-en": folder}).model
    assert Local({"zh-en": folder}, batch=8).limits == Limits(texts=8, codepoints=20_000)


def test_the_name_follows_the_files_that_count_and_no_path(models, copy):
    folder = copy("zh-en")
    before = inspect(models["zh-en"]).digest
    assert inspect(str(folder)).digest == before
    for name in ("README.md", "tf_model.h5", "pytorch_model.bin"):
        (folder / name).write_text("not read")
    assert inspect(str(folder)).digest == before
    for name in ("vocab.json", "generation_config.json", "source.spm", "model.safetensors"):
        last = inspect(str(folder)).digest
        data = bytearray((folder / name).read_bytes())
        data[-1] ^= 1
        (folder / name).write_bytes(data)
        assert inspect(str(folder)).digest not in (before, last)


def spoiled(name: str, folder: Path) -> None:
    """Makes of the folder of a Marian model one with the fault of that name."""
    if name == "another type":
        (folder / "config.json").write_text('{"model_type": "t5"}')
    elif name == "no json":
        (folder / "config.json").write_text("{")
    elif name == "a list":
        (folder / "config.json").write_text("[]")
    elif name == "of many with the tokenizer of one":
        (folder / "config.json").write_text('{"model_type": "m2m_100"}')
    elif name == "another tokenizer":
        (folder / "tokenizer_config.json").write_text('{"tokenizer_class": "SMALL100Tokenizer"}')
    elif name == "half a tokenizer":
        (folder / "tokenizer_config.json").write_text('{"tokenizer_class": "M2M100TokenizerFast"}')
    else:
        (folder / name).unlink()


@pytest.mark.parametrize(
    ("fault", "reason"),
    [
        ("another type", "holds a model of type 't5': Marian (OPUS-MT), M2M100 and NLLB models are taken"),
        ("no json", "cannot be read: "),
        ("a list", "is no JSON object"),
        ("of many with the tokenizer of one", "holds a m2m_100 model with the tokenizer of marian"),
        ("another tokenizer", "its tokenizer is a SMALL100Tokenizer: Marian"),
        ("half a tokenizer", "lacks the files of a tokenizer (vocab.json, sentencepiece.bpe.model): copy them"),
        ("config.json", "has no config.json, so it holds no model; "),
        ("model.safetensors", "has no weights (model.safetensors or pytorch_model.bin); "),
        ("target.spm", "lacks the files of a tokenizer: copy them"),
    ],
)
def test_folders_that_cannot_be_used(copy, fault, reason):
    folder = copy("zh-en")
    spoiled(fault, folder)
    with pytest.raises(InputError) as error:
        Local({"zh-en": str(folder)})
    assert error.value.reason.startswith(reason)
    assert error.value.path.startswith(str(folder))


def test_a_name_of_the_hub_is_no_folder():
    with pytest.raises(InputError) as error:
        Local({"en-zh": "Helsinki-NLP/opus-mt-en-zh"})
    assert str(error.value) == (
        "Helsinki-NLP/opus-mt-en-zh: there is no such folder; models are not downloaded here; "
        "'hf download HUB/NAME --local-dir FOLDER' does it"
    )


@pytest.mark.parametrize(
    ("given", "named"),
    [
        ({"models": {}}, "models"),
        ({"models": {"zhen": "zh-en"}}, "models"),
        ({"models": {"zh-": "zh-en"}}, "models"),
        ({"batch": 0}, "batch"),
        ({"beams": 0}, "beams"),
        ({"threads": -1}, "threads"),
        ({"max_tokens": 0}, "max_tokens"),
        ({"temperature": 0.0}, "temperature"),
        ({"temperature": float("nan")}, "temperature"),
    ],
)
def test_arguments_that_cannot_be(models, given, named):
    folders = {pair: models[name] for pair, name in given.pop("models", {"zh-en": "zh-en"}).items()}
    with pytest.raises(InputError) as error:
        Local(folders, **given)
    assert error.value.path == named


def test_a_model_of_one_direction_is_not_for_all(models):
    with pytest.raises(
        InputError, match="a Marian model translates in one direction: give it for its pair, such as en-zh"
    ):
        Local({"*": models["zh-en"]})
