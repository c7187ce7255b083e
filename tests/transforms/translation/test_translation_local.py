"""The engine for local models: tiny ones, made here, through the code that loads real ones."""

import pickle
import socket
import subprocess
import sys

import pytest

pytest.importorskip("torch", reason="the extra 'local' is not installed")
pytest.importorskip("transformers")
pytest.importorskip("ctranslate2")

import torch
from kit import THOROUGH, cases, raised, run, service, slot, write
from tiny_models import BACK, CHINESE, ENGLISH, FEW, FEWER, JAPANESE, phrases, word_for_word

from parapet.schemas.errors import InputError
from parapet.schemas.rows import Translation
from parapet.transforms.running.fence import Refused
from parapet.transforms.translation import local
from parapet.transforms.translation.local import Local, flores, inspect, marian_names
from parapet.transforms.translation.memory import Limits, make_batches
from parapet.transforms.translation.translate import _Translate

# transformers 5 says so of each Marian tokenizer; it does not use it.
pytestmark = pytest.mark.filterwarnings("ignore:Recommended. pip install sacremoses")


@pytest.fixture(autouse=True)
def _as_it_was(monkeypatch):
    """What ``open`` sets is put back."""
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")


def opened(given, **options):
    engine = pickle.loads(pickle.dumps(Local(given, threads=1, **options)))
    engine.open()
    return engine


def right(texts, source, target):
    return [word_for_word(text, source, target) for text in texts]


@pytest.mark.thorough
@cases("kind", "", "ct2-")
def test_models_of_one_direction_and_of_several_targets(models, kind):
    texts, chinese = phrases(ENGLISH[FEW], 100, seed=5), phrases(CHINESE, 100, seed=5)
    several = models[f"{kind}en-mul"]
    engine = opened({"en-zh": several, "en-ja": several, "zh-en": models[f"{kind}zh-en"], "*": models["m2m"]})
    assert engine.translate(texts, "en", "zh") == right(texts, ENGLISH[FEW], CHINESE[FEW])
    assert engine.translate(texts, "en", "ja") == right(texts, ENGLISH[FEW], JAPANESE[FEW])
    assert engine.translate(chinese, "zh", "en") == right(chinese, CHINESE, BACK)
    assert engine.translate(["name of the city"], "en", "ko") == ["名前 の その 都市"]
    engine.close()
    engine.close()


@pytest.mark.thorough
@cases("name", "m2m", "ct2-m2m", "nllb", "ct2-nllb")
def test_a_model_of_many_languages(models, name):
    texts = phrases(ENGLISH[FEWER], 100, seed=5)
    engine = opened({"*": models[name]})
    assert engine.translate(texts, "en", "zh") == right(texts, ENGLISH[FEWER], CHINESE[FEWER])
    assert engine.translate(texts, "en", "ko") == right(texts, ENGLISH[FEWER], JAPANESE[FEWER])
    if "nllb" in name:
        assert engine.translate(texts, "eng_Latn", "kor_Hang") == engine.translate(texts, "en", "ko")


def test_draws_depend_on_seed_and_text_alone(models):
    given, texts = {"zh-en": models["zh-en"]}, phrases(CHINESE, 5, seed=8)
    search = opened(given)  # keeps the model loaded, which draws as well
    searched = search.translate(texts, "zh", "en")
    options = {"sample": True, "temperature": 4}
    state = torch.random.get_rng_state()
    drawn = opened(given, **options).translate(texts, "zh", "en")
    assert drawn != searched
    assert torch.equal(torch.random.get_rng_state(), state)
    again = opened(given, **options, batch=2)
    assert again.translate(texts[::-1], "zh", "en") == drawn[::-1]
    assert again.translate(texts[3:4], "zh", "en") == drawn[3:4]
    assert opened(given, **options, seed="1").translate(texts, "zh", "en") != drawn
    cold = opened(given, sample=True, temperature=0.01)
    assert cold.translate(texts, "zh", "en") == opened(given, beams=1).translate(texts, "zh", "en")


def test_nothing_heavy_is_imported_before_it_is_opened(models):
    code = (
        "import sys; from parapet.transforms.translation.local import Local; "
        f"Local({{'zh-en': {models['zh-en']!r}}}); print({{'torch', 'transformers', 'ctranslate2'}} & set(sys.modules))"
    )
    assert subprocess.check_output([sys.executable, "-c", code], text=True).strip() == "set()"


def test_a_process_holds_a_model_once_and_lets_go_of_it(copy):
    folder = inspect(str(copy("zh-en")))
    first, second = opened({"zh-en": folder.path}), opened({"zh-en": folder.path})
    for engine in (first, second):
        engine.translate(["价格"], "zh", "en")
    assert first._models[folder.path] is second._models[folder.path]
    first.close()
    assert (folder.path, folder.digest) in local._LOADED
    second.close()
    assert (folder.path, folder.digest) not in local._LOADED


@cases("name", "zh-en", "ct2-m2m")
def test_no_network(copy, name, monkeypatch):
    def connect(*_):
        raise AssertionError("the network was asked")

    for asked in ("connect", "connect_ex"):
        monkeypatch.setattr(socket.socket, asked, connect)
    monkeypatch.setattr(socket, "getaddrinfo", connect)
    assert opened({"zh-en": str(copy(name))}).translate(["数量"], "zh", "en")


@cases(
    "given pair reason",
    ({"zh-en": "zh-en"}, ("zh", "ko"), "pair: zh to ko: there is no model for this pair, only for zh-en"),
    ({"en-fr": "en-mul"}, ("en", "fr"), "pair: the model has no fr, but cmn_Hans, jpn"),
    ({"*": "m2m"}, ("en", "zh-Hant"), "pair: the model has no zh-Hant, but af, am, ar"),
    ({"*": "nllb"}, ("en", "tlh_Latn"), "pair: the model has no tlh_Latn, but ace_Arab"),
    ({"*": "ct2-nllb"}, ("en", "tlh"), "pair: the model has no tlh, but ace_Arab"),
)
def test_languages_that_a_model_has_not(models, given, pair, reason):
    refused = raised(Refused, opened({key: models[name] for key, name in given.items()}).translate, ["name"], *pair)
    assert refused.reason.startswith(reason)
    assert not refused.splits


@cases("name", "zh-en", "ct2-zh-en")
def test_texts_that_it_cannot_translate(models, name, monkeypatch):
    engine = opened({"zh-en": models[name]})
    assert raised(Refused, engine.translate, ["价格", "价格 " * 64], "zh", "en", match="too_long: ").splits
    engine = opened({"zh-en": models[name]}, max_tokens=3)
    texts = ["价格", "价格 电影 数量 何处"]
    assert raised(Refused, engine.translate, texts, "zh", "en", match=r"cut_off: .* within 3 tokens").splits
    assert engine.translate(["价格"], "zh", "en") == ["fee"]
    if name == "zh-en":

        def fail(*_, **__):
            raise torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 2 GiB.")

        monkeypatch.setattr(engine._models[models[name]].model, "generate", fail)
        assert raised(Refused, engine.translate, ["价格"], "zh", "en", match="memory: ").splits


@cases("name", "zh-en", "m2m", "nllb")
def test_nothing_but_special_tokens_is_no_text(models, name):
    tokens = local.load(inspect(models[name]), 1).tokens
    special = [tokens.tokenizer.pad_token, tokens.tokenizer.unk_token, *sorted(tokens.languages())[:2], "</s>"]
    assert tokens.decode(special) == tokens.decode([]) == ""


def test_each_text_ends_somewhere(models, tmp_path):
    texts = sorted({*phrases(CHINESE, 20, seed=9), "价格 " * 64, "名称"})
    engine = Local({"zh-en": models["zh-en"]}, batch=8, threads=1)
    batches, _ = make_batches(texts, "zh", "en", engine.limits)
    step = _Translate(engine, str(tmp_path))
    found = list(step.process(batches))
    step.teardown()
    (dead,) = [one.value for one in found if not isinstance(one, Translation)]
    translated = [one for one in found if isinstance(one, Translation)]
    assert (sorted([dead.text, *(one.text for one in translated)]), dead.text) == (texts, "价格 " * 64)
    assert dead.reason.startswith("too_long: the text has 65 tokens, but the model takes at most 64")
    assert Translation("local", engine.model, "zh", "en", "名称", "title") in translated


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


def test_a_model_that_is_exchanged_meanwhile_is_not_used(copy):
    folder = copy("zh-en")
    engine = opened({"zh-en": str(folder)})
    with (folder / "generation_config.json").open("a") as handle:
        handle.write("\n")
    raised(InputError, engine.translate, ["价格"], "zh", "en", match="has changed since this run started")


@cases("name package", ("zh-en", "torch"), ("ct2-zh-en", "ctranslate2"))
def test_without_the_packages_it_says_what_to_install(models, name, package, monkeypatch):
    engine = Local({"zh-en": models[name]})
    monkeypatch.setitem(sys.modules, package, None)
    raised(InputError, engine.open, match=rf"{package} is not installed: pip install .*\[local\]'")


def test_names_of_languages():
    names = {"zh": "zho_Hans", "ja": "jpn_Jpan", "zh-Hant": "zho_Hant", "ace_Arab": "ace_Arab", "xx": ""}
    assert {code: flores(code) for code in names} == names
    assert marian_names("zh") == ["zh", "cmn_Hans", "zho_Hans", "cmn", "zho"]
    assert marian_names("zh-CN")[:2] == ["zh-CN", "zh_CN"]


def test_its_name_in_the_memory(models):
    folder = models["zh-en"]
    digest = inspect(folder).digest
    assert Local({"zh-en": folder}).model == f"marian:zh-en@{digest},beams=4"
    sampling = Local({"zh-en": folder}, sample=True, temperature=0.7, seed="two")
    assert sampling.model == f"marian:zh-en@{digest},temperature=0.7,top_k=50,seed=two"
    both = Local({"*": models["m2m"], "zh-en": models["ct2-zh-en"]}, beams=1)
    ours = f"m2m_100:*@{inspect(models['m2m']).digest},marian/ctranslate2:zh-en@{inspect(models['ct2-zh-en']).digest}"
    assert (both.model, both.provider, both.dollars_per_million, both.parallel) == (f"{ours},beams=1", "local", 0, 1)
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


@cases(
    "file content reason",
    ("config.json", '{"model_type": "t5"}', "contains a model of type 't5'"),
    ("config.json", "{", "cannot be read: "),
    ("config.json", "[]", "is not a JSON object"),
    ("config.json", '{"model_type": "m2m_100"}', "contains a m2m_100 model with the tokenizer of marian"),
    ("tokenizer_config.json", '{"tokenizer_class": "SMALL100Tokenizer"}', "its tokenizer is a SMALL100Tokenizer"),
    ("tokenizer_config.json", '{"tokenizer_class": "M2M100TokenizerFast"}', "lacks the files of a tokenizer (voc"),
    ("config.json", None, "has no config.json"),
    ("model.safetensors", None, "has no weights"),
    ("target.spm", None, "lacks the files of a tokenizer: "),
)
def test_folders_that_cannot_be_used(copy, file, content, reason):
    folder = copy("zh-en")
    (folder / file).unlink()
    if content:
        (folder / file).write_text(content)
    error = raised(InputError, Local, {"zh-en": str(folder)})
    assert error.reason.startswith(reason)
    assert error.path.startswith(str(folder))


@cases(
    "given named",
    ({"models": {}}, "models"),
    ({"models": {"zhen": "zh-en"}}, "models"),
    ({"batch": 0}, "batch"),
    ({"beams": 0}, "beams"),
    ({"threads": -1}, "threads"),
    ({"max_tokens": 0}, "max_tokens"),
    ({"temperature": 0.0}, "temperature"),
    ({"temperature": float("nan")}, "temperature"),
)
def test_arguments_that_cannot_be(models, given, named):
    folders = {pair: models[name] for pair, name in given.pop("models", {"zh-en": "zh-en"}).items()}
    assert raised(InputError, Local, folders, **given).path == named


def test_models_that_cannot_be(models):
    raised(InputError, Local, {"*": models["zh-en"]}, match="a Marian model translates in one direction")
    sampling = "CTranslate2 samples are not reproducible"
    raised(InputError, Local, {"zh-en": models["ct2-zh-en"]}, sample=True, match=sampling)
    raised(InputError, Local, {"en-zh": "Helsinki-NLP/opus-mt-en-zh"}, match=r"there is no such folder; .*'hf download")


def test_the_command_there_and_back_and_again_from_the_memory(models, tmp_path):
    words = ENGLISH[FEW]
    slots = [slot(f"{a}_{b}", f"{b} {a}") for a, b in zip(words[::2], words[1::2], strict=True)]
    schemas = write(tmp_path / "schema.json", [service("Tests_1", slots, description=" ".join(words[:3]))])
    given = ["--model", f"en-zh={models['en-mul']}", f"zh-en={models['zh-en']}"]
    options = {"schemas": schemas, "pivots": "zh", "engine": "local", "beams": 1, "output": tmp_path / "out"}
    made = run("back_translate", *given, **options)
    assert "sent to local: " in made.output
    back = dict(zip(ENGLISH, BACK, strict=True))
    for row in made.rows("translations.parquet"):
        assert row["back_text"] == " ".join(back[word] for word in row["text"].split())
    (variant,) = made.json("zh/schema.json")
    assert variant["slots"][0]["name"] == "_".join(back[word] for word in words[:2])
    memory = made.files["memory.parquet"]
    again = run("back_translate", *given, **options)
    assert "sent to local: 0 characters in 0 requests, $0.00" in again.output
    assert again.files["memory.parquet"] == memory


@cases("name beams", ("zh-en", 1), ("zh-en", 4), ("ct2-zh-en", 4))
def test_a_text_has_the_same_translation_whatever_is_beside_it(models, name, beams):
    texts = [*phrases(CHINESE, 60 if THOROUGH else 20, seed=7), "😀 价格 x", "价格"]
    alone = opened({"zh-en": models[name]}, batch=1, beams=beams).translate(texts, "zh", "en")
    assert len(set(alone)) > 2 * len(texts) / 3 - 2
    for batch in (7, 64):
        engine = opened({"zh-en": models[name]}, batch=batch, beams=beams)
        assert engine.translate(texts, "zh", "en") == alone
        assert engine.translate(texts[::-1], "zh", "en") == alone[::-1]
