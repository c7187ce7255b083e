"""The engine for local models: tiny ones, made here, through the code that loads real ones."""

import pickle
import shutil
import socket
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("torch", reason="the extra 'local' is not installed")
pytest.importorskip("transformers")

import torch
from kit import THOROUGH, cases, raised, run, service, slot, write
from tiny_models import BACK, CHINESE, ENGLISH, FEW, FEWER, JAPANESE, Models, phrases, word_for_word

from parapet.schemas.errors import InputError
from parapet.transforms.core import checkpoints
from parapet.transforms.core.fence import Refused
from parapet.transforms.translate import local
from parapet.transforms.translate.local import Local

# transformers 5 says so of each Marian tokenizer; it does not use it.
pytestmark = pytest.mark.filterwarnings("ignore:Recommended. pip install sacremoses")


@pytest.fixture(scope="session")
def models(tmp_path_factory):
    return Models(tmp_path_factory.mktemp("tiny_models"))


@pytest.fixture
def copy(models, tmp_path):
    """Copies a model's folder, so that it may be changed."""
    return lambda name: Path(shutil.copytree(models[name], tmp_path / f"copy-{name}"))


@pytest.fixture(autouse=True)
def _as_it_was(monkeypatch):
    """What ``open`` sets is put back."""
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")


def opened(folders, **options):
    engine = pickle.loads(pickle.dumps(Local(folders, **options)))
    engine.open()
    return engine


def expected(texts, source, target):
    return [word_for_word(text, source, target) for text in texts]


@pytest.mark.thorough
def test_models_of_one_direction_and_of_several_targets(models):
    texts, chinese = phrases(ENGLISH[FEW], 100, seed=5), phrases(CHINESE, 100, seed=5)
    several = models["en-mul"]
    engine = opened({"en-zh": several, "en-ja": several, "zh-en": models["zh-en"], "*": models["m2m"]})
    assert engine.translate(texts, "en", "zh") == expected(texts, ENGLISH[FEW], CHINESE[FEW])
    assert engine.translate(texts, "en", "ja") == expected(texts, ENGLISH[FEW], JAPANESE[FEW])
    assert engine.translate(chinese, "zh", "en") == expected(chinese, CHINESE, BACK)
    assert engine.translate(["name of the city"], "en", "ko") == ["名前 の その 都市"]


@pytest.mark.thorough
@cases("name", "m2m", "nllb")
def test_a_model_of_many_languages(models, name):
    texts = phrases(ENGLISH[FEWER], 100, seed=5)
    engine = opened({"*": models[name]})
    assert engine.translate(texts, "en", "zh-CN") == expected(texts, ENGLISH[FEWER], CHINESE[FEWER])
    assert engine.translate(texts, "en", "ko") == expected(texts, ENGLISH[FEWER], JAPANESE[FEWER])
    if name == "nllb":
        assert engine.translate(texts, "eng_Latn", "kor_Hang") == engine.translate(texts, "en", "ko")


def test_nothing_heavy_is_imported_before_it_is_opened(models):
    code = (
        "import sys; from parapet.transforms.translate.local import Local; "
        f"Local({{'zh-en': {models['zh-en']!r}}}); print({{'torch', 'transformers'}} & set(sys.modules))"
    )
    assert subprocess.check_output([sys.executable, "-c", code], text=True).strip() == "set()"


@cases("name", "zh-en", "m2m")
def test_no_network(copy, name, monkeypatch):
    def connect(*_):
        raise AssertionError("the network was used")

    for function in ("connect", "connect_ex"):
        monkeypatch.setattr(socket.socket, function, connect)
    monkeypatch.setattr(socket, "getaddrinfo", connect)
    assert opened({"zh-en": str(copy(name))}).translate(["数量"], "zh", "en")


@cases(
    "folders pair reason",
    ({"zh-en": "zh-en"}, ("zh", "ko"), "pair: zh to ko: there is no model for this pair, only for zh-en"),
    ({"en-fr": "en-mul"}, ("en", "fr"), "pair: the model has no fr, but cmn_Hans, jpn"),
    ({"*": "m2m"}, ("en", "zh-Hant"), "pair: the model has no zh-Hant, but af, am, ar"),
    ({"*": "nllb"}, ("en", "tlh_Latn"), "pair: the model has no tlh_Latn, but ace_Arab"),
)
def test_languages_that_a_model_does_not_have(models, folders, pair, reason):
    refused = raised(Refused, opened({key: models[name] for key, name in folders.items()}).translate, ["name"], *pair)
    assert refused.reason.startswith(reason)
    assert not refused.splits


def test_texts_that_it_cannot_translate(models, monkeypatch):
    engine = opened({"zh-en": models["zh-en"]})
    too_long = "too_long: the text has 65 tokens, but the model takes at most 64"
    assert raised(Refused, engine.translate, ["价格", "价格 " * 64], "zh", "en", match=too_long).splits
    with monkeypatch.context() as patched:
        patched.setattr(local, "_MAX_TOKENS", 3)
        assert raised(Refused, engine.translate, ["价格", "价格 电影 数量 何处"], "zh", "en", match="cut_off: ").splits
        assert engine.translate(["价格"], "zh", "en") == ["fee"]

    def fail(*_, **__):
        raise torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 2 GiB.")

    monkeypatch.setattr("transformers.MarianMTModel.generate", fail)
    assert raised(Refused, engine.translate, ["价格"], "zh", "en", match="memory: ").splits


def test_weights_that_are_broken_or_lacking(copy):
    from safetensors.torch import load_file, save_file

    folder = copy("zh-en")
    weights = load_file(folder / "model.safetensors")
    del weights["model.encoder.layers.0.fc1.weight"]
    save_file(weights, folder / "model.safetensors", metadata={"format": "pt"})
    with pytest.raises(InputError, match=r"its file lacks weights, such as model\.encoder\.layers\.0\.fc1\.weight"):
        opened({"zh-en": str(folder)}).translate(["价格"], "zh", "en")
    (folder / "model.safetensors").write_bytes((folder / "model.safetensors").read_bytes()[:1000])
    translate = opened({"zh-en": str(folder)}).translate
    error = raised(InputError, translate, ["价格"], "zh", "en", match="the model cannot be loaded")
    assert ("\n" in str(error), error.path) == (False, str(folder))


def test_without_the_packages_it_says_what_to_install(models, monkeypatch):
    engine = Local({"zh-en": models["zh-en"]})
    monkeypatch.setitem(sys.modules, "torch", None)
    raised(InputError, engine.open, match=r"torch is not installed: pip install .*\[local\]'")


def test_its_name_in_the_memory(models, copy):
    digest = checkpoints.digest(models["zh-en"])
    assert Local({"zh-en": models["zh-en"]}).model == f"marian:zh-en@{digest},beams=4"
    folder = copy("zh-en")
    (folder / "README.md").write_text("not read")
    both = Local({"*": models["m2m"], "zh-en": str(folder)}, beams=1)
    assert both.model == f"m2m_100:*@{checkpoints.digest(models['m2m'])},marian:zh-en@{digest},beams=1"
    for name in ("vocab.json", "generation_config.json", "source.spm", "model.safetensors"):
        before = checkpoints.digest(str(folder))
        with (folder / name).open("ab") as handle:
            handle.write(b"\n")
        assert checkpoints.digest(str(folder)) != before


@cases(
    "file content reason",
    ("config.json", '{"model_type": "t5"}', "contains a model of type 't5'"),
    ("config.json", "{", "cannot be read: "),
    ("config.json", "[]", "is not a JSON object"),
    ("config.json", None, "has no config.json"),
    ("model.safetensors", None, "has no weights"),
    ("target.spm", None, "lacks the files of a tokenizer (source.spm, "),
)
def test_folders_that_cannot_be_used(copy, file, content, reason):
    folder = copy("zh-en")
    (folder / file).unlink()
    if content:
        (folder / file).write_text(content)
    error = raised(InputError, Local, {"zh-en": str(folder)})
    assert error.reason.startswith(reason)
    assert error.path.startswith(str(folder))


def test_models_that_cannot_be(models):
    raised(InputError, Local, {"*": models["zh-en"]}, match="a Marian model translates in one direction")
    raised(InputError, Local, {"en-zh": "Helsinki-NLP/opus"}, match=r"there is no such folder; .*'hf download")


def test_the_command_there_and_back_and_again_from_the_memory(models, tmp_path):
    words = ENGLISH[FEW]
    slots = [slot(f"{a}_{b}", f"{b} {a}") for a, b in zip(words[::2], words[1::2], strict=True)]
    schemas = write(tmp_path / "schema.json", [service("Tests_1", slots, description=" ".join(words[:3]))])
    flags = ["--model", f"en-zh={models['en-mul']}", f"zh-en={models['zh-en']}"]
    options = {"schemas": schemas, "pivots": "zh", "engine": "local", "beams": 1, "output": tmp_path / "out"}
    first = run("back_translate", *flags, **options)
    assert "sent to local: " in first.output
    back = dict(zip(ENGLISH, BACK, strict=True))
    names = [row for row in first.rows("translations.parquet") if {*row["text"].split()} <= back.keys()]
    assert len(names) == len(slots)
    for row in names:
        assert row["back_text"] == " ".join(back[word] for word in row["text"].split())
    assert any(row["emitted"] != row["original"] for row in names)
    memory = first.files["memory.parquet"]
    again = run("back_translate", *flags, **options)
    assert "sent to local: 0 characters in 0 requests, $0.00" in again.output
    assert again.files["memory.parquet"] == memory


@cases("beams", 1, 4)
def test_a_text_has_the_same_translation_whatever_is_beside_it(models, beams):
    texts = [*phrases(CHINESE, 60 if THOROUGH else 20, seed=7), "😀 价格 x", "价格"]
    engine = opened({"zh-en": models["zh-en"]}, beams=beams)
    alone = [translation for text in texts for translation in engine.translate([text], "zh", "en")]
    assert len(set(alone)) > 2 * len(texts) / 3 - 2
    assert engine.translate(texts, "zh", "en") == alone
    assert engine.translate(texts[::-1], "zh", "en") == alone[::-1]
