"""The engine for local models: tiny ones, made here, through the code that loads real ones."""

import pickle
import socket
import subprocess
import sys
from typing import Any

import apache_beam as beam
import pytest
from apache_beam.testing import test_pipeline

torch: Any = pytest.importorskip("torch", reason="the extra 'local' is not installed")
pytest.importorskip("transformers")
pytest.importorskip("ctranslate2")

from tiny_models import BACK, CHINESE, ENGLISH, FEW, FEWER, JAPANESE, phrases, word_for_word  # noqa: E402

from parapet.schemas.errors import InputError  # noqa: E402
from parapet.schemas.rows import Translation  # noqa: E402
from parapet.transforms.running.fence import Refused  # noqa: E402
from parapet.transforms.translation import local  # noqa: E402
from parapet.transforms.translation.local import Local, flores, inspect, marian_names  # noqa: E402  # noqa: E402
from parapet.transforms.translation.memory import Engine, make_batches  # noqa: E402
from parapet.transforms.translation.translate import DEAD, Translate, Untranslated, in_groups  # noqa: E402

# transformers 5 says so of each Marian tokenizer; it does not use it.
pytestmark = pytest.mark.filterwarnings("ignore:Recommended. pip install sacremoses")

KEPT: list[Any] = []


def keep(outcome: Any) -> None:
    """In this module, which Beam pickles by its name."""
    KEPT.append(outcome)


@pytest.fixture(autouse=True)
def _as_it_was(monkeypatch):
    """What ``open`` sets is put back."""
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")


def opened(given: dict[str, Any], **options: Any) -> Local:
    engine = Local(given, threads=1, **options)
    engine.open()
    return engine


def right(texts: list[str], source: Any, target: Any) -> list[str]:
    return [word_for_word(text, source, target) for text in texts]


@pytest.mark.parametrize("name", ["zh-en", "ct2-zh-en"])
def test_a_model_of_one_direction(models, name):
    texts = phrases(CHINESE, 100, seed=5)
    found = opened({"zh-en": models[name]}).translate(texts, "zh", "en")
    assert found == right(texts, CHINESE, BACK)


@pytest.mark.parametrize("name", ["en-mul", "ct2-en-mul"])
def test_a_model_of_several_targets_is_told_which(models, name):
    texts = phrases(ENGLISH[FEW], 100, seed=5)
    engine = opened({"en-zh": models[name], "en-ja": models[name]})
    assert engine.translate(texts, "en", "zh") == right(texts, ENGLISH[FEW], CHINESE[FEW])
    assert engine.translate(texts, "en", "ja") == right(texts, ENGLISH[FEW], JAPANESE[FEW])


@pytest.mark.parametrize("name", ["m2m", "ct2-m2m", "nllb", "ct2-nllb"])
def test_a_model_of_many_languages(models, name):
    texts = phrases(ENGLISH[FEWER], 100, seed=5)
    engine = opened({"*": models[name]})
    assert engine.translate(texts, "en", "zh") == right(texts, ENGLISH[FEWER], CHINESE[FEWER])
    assert engine.translate(texts, "en", "ko") == right(texts, ENGLISH[FEWER], JAPANESE[FEWER])
    if "nllb" in name:
        assert engine.translate(texts, "eng_Latn", "kor_Hang") == engine.translate(texts, "en", "ko")


def test_there_and_back(models):
    engine = opened({"en-zh": models["en-mul"], "zh-en": models["zh-en"], "*": models["m2m"]})
    there = engine.translate(["name of the city", "where is the hotel"], "en", "zh")
    assert there == ["名称 的 这 城市", "何处 是 这 酒店"]
    assert engine.translate(there, "zh", "en") == ["title of the town", "where is the hotel"]
    assert engine.translate(["name of the city"], "en", "ko") == ["名前 の その 都市"]
    engine.close()
    engine.close()


@pytest.mark.parametrize("name", ["zh-en", "ct2-zh-en"])
@pytest.mark.parametrize("beams", [1, 4])
def test_a_text_has_the_same_translation_whatever_is_beside_it(models, name, beams):
    texts = [*phrases(CHINESE, 60, seed=7), "😀 价格 x", "价格"]
    alone = opened({"zh-en": models[name]}, batch=1, beams=beams).translate(texts, "zh", "en")
    assert len(set(alone)) > 40
    for batch in (7, 64):
        engine = opened({"zh-en": models[name]}, batch=batch, beams=beams)
        assert engine.translate(texts, "zh", "en") == alone
        assert engine.translate(texts[::-1], "zh", "en") == alone[::-1]


def test_draws_depend_on_seed_and_text_alone(models):
    given = {"zh-en": models["zh-en"]}
    texts = phrases(CHINESE, 12, seed=8)
    search = opened(given)
    searched = search.translate(texts, "zh", "en")
    options: dict[str, Any] = {"sample": True, "temperature": 4}
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


def test_what_converted_models_draw_could_not_be_repeated(models):
    with pytest.raises(InputError, match="cannot repeat its samples"):
        Local({"zh-en": models["ct2-zh-en"]}, sample=True)


def test_it_travels_pickled_and_loads_there(models):
    engine = pickle.loads(pickle.dumps(Local({"zh-en": models["zh-en"]}, threads=1)))
    engine.open()
    assert engine.translate(["价格"], "zh", "en") == ["fee"]


def test_nothing_heavy_is_imported_before_it_is_opened(models):
    code = (
        "import sys; from parapet.transforms.translation.local import Local; "
        f"Local({{'zh-en': {models['zh-en']!r}}}); print({{'torch', 'transformers', 'ctranslate2'}} & set(sys.modules))"
    )
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert run.stdout.strip() == "set()"


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


@pytest.mark.parametrize("name", ["zh-en", "nllb", "ct2-m2m"])
def test_no_network(copy, name, monkeypatch):
    def connect(*_: Any) -> None:
        raise AssertionError("the network was asked")

    for asked in ("connect", "connect_ex"):
        monkeypatch.setattr(socket.socket, asked, connect)
    monkeypatch.setattr(socket, "getaddrinfo", connect)
    engine = opened({"zh-en": str(copy(name))})
    assert engine.translate(["数量"], "zh", "en")


def test_weights_as_older_checkpoints_have_them(copy):
    from transformers import MarianMTModel

    folder = copy("zh-en")
    model = MarianMTModel.from_pretrained(folder)
    (folder / "model.safetensors").unlink()
    # All of them, also those that are tied; in half precision, as some are.
    torch.save({name: weight.half() for name, weight in model.state_dict().items()}, folder / "pytorch_model.bin")
    texts = phrases(CHINESE, 50, seed=5)
    engine = opened({"zh-en": str(folder)})
    assert engine.translate(texts, "zh", "en") == right(texts, CHINESE, BACK)
    assert engine._models[str(folder)].model.dtype == torch.float32


@pytest.mark.parametrize(
    ("given", "pair", "reason"),
    [
        ({"zh-en": "zh-en"}, ("zh", "ko"), "pair: zh to ko: there is no model for it, only for zh-en"),
        ({"en-fr": "en-mul"}, ("en", "fr"), "pair: the model has no fr, but cmn_Hans, jpn"),
        ({"*": "m2m"}, ("en", "zh-Hant"), "pair: the model has no zh-Hant, but af, am, ar"),
        ({"*": "m2m"}, ("tlh", "en"), "pair: the model has no tlh, but af"),
        ({"*": "nllb"}, ("en", "tlh_Latn"), "pair: the model has no tlh_Latn, but ace_Arab"),
        ({"*": "ct2-nllb"}, ("en", "tlh"), "pair: the model has no tlh, but ace_Arab"),
    ],
)
def test_languages_that_a_model_has_not(models, given, pair, reason):
    engine = opened({key: models[name] for key, name in given.items()})
    with pytest.raises(Refused) as refused:
        engine.translate(["name"], *pair)
    assert refused.value.reason.startswith(reason)
    assert not refused.value.splits


@pytest.mark.parametrize("name", ["zh-en", "ct2-zh-en"])
def test_texts_that_it_cannot_translate(models, name):
    engine = opened({"zh-en": models[name]})
    with pytest.raises(Refused, match="too_long: ") as refused:
        engine.translate(["价格", "价格 " * 64], "zh", "en")
    assert refused.value.splits
    with pytest.raises(Refused, match="invalid: is not Unicode text"):
        engine.translate(["\ud800"], "zh", "en")
    with pytest.raises(Refused, match=r"cut_off: .* within 3 tokens") as refused:
        opened({"zh-en": models[name]}, max_tokens=3).translate(["价格", "价格 电影 数量 何处"], "zh", "en")
    assert refused.value.splits
    assert opened({"zh-en": models[name]}, max_tokens=3).translate(["价格"], "zh", "en") == ["fee"]


def test_memory_that_does_not_suffice(models, monkeypatch):
    def fail(*_: Any, **__: Any) -> None:
        raise torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 2 GiB.")

    engine = opened({"zh-en": models["zh-en"]})
    assert engine.translate(["价格"], "zh", "en") == ["fee"]
    monkeypatch.setattr(engine._models[models["zh-en"]].model, "generate", fail)
    with pytest.raises(Refused, match="memory: ") as refused:
        engine.translate(["价格"], "zh", "en")
    assert refused.value.splits


@pytest.mark.parametrize("name", ["zh-en", "m2m", "nllb"])
def test_nothing_but_special_tokens_is_no_text(models, name):
    tokens = local.load(inspect(models[name]), 1).tokens
    special = [tokens.tokenizer.pad_token, tokens.tokenizer.unk_token, *sorted(tokens.languages())[:2], "</s>"]
    assert tokens.decode(special) == tokens.decode([]) == ""


def test_through_beam_each_text_ends_somewhere(models, tmp_path):
    texts = sorted({*phrases(CHINESE, 20, seed=9), "价格 " * 64, "名称"})
    engine: Engine = Local({"zh-en": models["zh-en"]}, batch=8, threads=1)
    batches, _ = make_batches(texts, "zh", "en", engine.limits)
    KEPT.clear()
    with test_pipeline.TestPipeline(runner="FnApiRunner") as pipeline:
        outcomes = pipeline | beam.Create(in_groups(batches, engine)) | Translate(engine, str(tmp_path))
        _ = outcomes.translated | "Keep" >> beam.Map(keep)
        _ = outcomes[DEAD] | "Keep dead" >> beam.Map(keep)
    assert sorted(one.text for one in KEPT) == texts
    (dead,) = [one for one in KEPT if isinstance(one, Untranslated)]
    assert dead.text == "价格 " * 64
    assert dead.reason.startswith("too_long: 65 tokens, the model takes 64")
    assert Translation("local", engine.model, "zh", "en", "名称", "title") in KEPT


def test_weights_that_are_broken_or_lacking(copy):
    from safetensors.torch import load_file, save_file

    folder = copy("zh-en")
    weights = load_file(folder / "model.safetensors")
    del weights["model.encoder.layers.0.fc1.weight"]
    save_file(weights, folder / "model.safetensors", metadata={"format": "pt"})
    with pytest.raises(InputError, match=r"its file lacks weights, model\.encoder\.layers\.0\.fc1\.weight for one"):
        opened({"zh-en": str(folder)}).translate(["价格"], "zh", "en")
    (folder / "model.safetensors").write_bytes((folder / "model.safetensors").read_bytes()[:1000])
    with pytest.raises(InputError, match="the model cannot be loaded") as error:
        opened({"zh-en": str(folder)}).translate(["价格"], "zh", "en")
    assert "\n" not in str(error.value)
    assert error.value.path == str(folder)


def test_a_model_that_is_exchanged_meanwhile_is_not_used(copy):
    folder = copy("zh-en")
    engine = opened({"zh-en": str(folder)})
    with (folder / "generation_config.json").open("a") as handle:
        handle.write("\n")
    with pytest.raises(InputError, match="is not the model that it was when this began"):
        engine.translate(["价格"], "zh", "en")


@pytest.mark.parametrize(("name", "package"), [("zh-en", "torch"), ("ct2-zh-en", "ctranslate2")])
def test_without_the_packages_it_says_what_to_install(models, name, package, monkeypatch):
    engine = Local({"zh-en": models[name]})
    monkeypatch.setitem(sys.modules, package, None)
    with pytest.raises(InputError, match=rf"{package} is not installed: pip install .*\[local\]'"):
        engine.open()


def test_names_of_languages():
    assert [flores(code) for code in ("zh", "ja", "ko", "en", "zh-Hant", "ace_Arab", "xx")] == [
        "zho_Hans", "jpn_Jpan", "kor_Hang", "eng_Latn", "zho_Hant", "ace_Arab", "",
    ]  # fmt: skip
    assert marian_names("zh") == ["zh", "cmn_Hans", "zho_Hans", "cmn", "zho"]
    assert marian_names("ko") == ["ko", "kor_Hang", "kor"]
    assert marian_names("zh-CN")[:2] == ["zh-CN", "zh_CN"]
    assert marian_names("xx") == ["xx"]
