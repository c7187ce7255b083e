"""Tiny translation models, made and trained here, saved as real checkpoints are and loaded by the same code.

They know some words and translate word by word: enough to tell a translation from noise. Each takes a few seconds on
one core.
"""

from __future__ import annotations

import json
import random
import shutil
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

_WORDS = """
name 名称 名前 / of 的 の / the 这 その / city 城市 都市 / where 何处 どこ /
restaurant 餐厅 レストラン / is 是 です / date 日期 日付 / number 数量 数 / people 人们 人々 /
for 为 ため / hotel 酒店 ホテル / room 房间 部屋 / price 价格 価格 / time 时间 時刻 / to 到 まで /
leave 离开 出発 / from 从 から / airport 机场 空港 / flight 航班 便 / ticket 机票 切符 /
movie 电影 映画 / theater 剧院 劇場 / show 演出 公演 / music 音乐 音楽 / song 歌曲 歌 /
album 专辑 アルバム / account 账户 口座 / balance 余额 残高 / amount 金额 金額 / money 钱 お金 /
transfer 转账 振込 / weather 天气 天気 / day 天 日 / cost 费用 費用 / total 总计 合計
"""
ENGLISH, CHINESE, JAPANESE = zip(*(word.split() for word in _WORDS.split("/")), strict=True)
# What comes back differs from what was sent, as with a real pair of models.
SYNONYMS = {
    "name": "title",
    "restaurant": "eatery",
    "price": "fee",
    "city": "town",
    "movie": "film",
    "people": "guests",
}
BACK = [SYNONYMS.get(word, word) for word in ENGLISH]

DEPTH = {"d_model": 32, "encoder_layers": 1, "decoder_layers": 1}
_HEADS = {
    "encoder_attention_heads": 4,
    "decoder_attention_heads": 4,
    "encoder_ffn_dim": 64,
    "decoder_ffn_dim": 64,
    "dropout": 0.0,
    "attention_dropout": 0.0,
    "init_std": 0.1,  # with the usual 0.02 so small a model takes four times as long to learn
}
LONGEST = 4  # words in training
STEPS = 300  # of a round
KNOWN = 0.02  # loss
KNOWN_BUT_FOR_LANGUAGE = 0.22  # which of two languages comes first nothing tells: ln 2 for one token in five
PHRASES = 1_000

Row = tuple[list[int], list[int]]  # token ids of a text and of its translation


def word_for_word(text: str, source: Sequence[str], target: Sequence[str]) -> str:
    """What a model that learned its words makes of a text."""
    words = dict(zip(source, target, strict=True))
    return " ".join(words[word] for word in text.split())


def phrases(words: Sequence[str], count: int, seed: int = 0) -> list[str]:
    """Random ones of one to ``LONGEST`` words."""
    lots = random.Random(seed)
    return [" ".join(lots.choices(words, k=lots.randint(1, LONGEST))) for _ in range(count)]


def save_marian(folder: Path, source: Sequence[str], targets: dict[str, Sequence[str]], seed: int = 0) -> Path:
    """A Marian model of ``source`` into the words of ``targets``, by language code; the code ``""`` is for only one."""
    from transformers import MarianConfig, MarianMTModel, MarianTokenizer

    folder.mkdir(parents=True)
    every = sorted({word for words in targets.values() for word in words})
    pieces = _train_spm(folder / "source.spm", source) + _train_spm(folder / "target.spm", every)
    codes = [f">>{code}<<" for code in targets if code]
    vocabulary = dict.fromkeys(["</s>", "<unk>", *pieces, *codes, "<pad>"])
    (folder / "vocab.json").write_text(json.dumps({token: n for n, token in enumerate(vocabulary)}))
    (folder / "tokenizer_config.json").write_text(json.dumps({"model_max_length": 64}))  # as little as the Hub's have
    tokenizer = MarianTokenizer.from_pretrained(str(folder), local_files_only=True)
    pad = len(vocabulary) - 1
    config = MarianConfig(
        **DEPTH,
        **_HEADS,
        vocab_size=len(vocabulary),
        max_position_embeddings=64,
        pad_token_id=pad,
        decoder_start_token_id=pad,
        eos_token_id=0,
        forced_eos_token_id=0,
        scale_embedding=True,
    )
    model = _seeded(seed, lambda: MarianMTModel(config))
    model.generation_config.bad_words_ids = [[pad]]
    model.generation_config.num_beams = 6  # as the Hub's say; not what is asked for

    rows = []
    for code, words in targets.items():
        texts = phrases(source, PHRASES, seed)
        inputs = tokenizer([f">>{code}<< {text}" if code else text for text in texts])["input_ids"]
        labels = tokenizer(text_target=[word_for_word(text, source, words) for text in texts])["input_ids"]
        rows += zip(inputs, labels, strict=True)
    train(model, rows, seed)
    model.save_pretrained(folder)
    return folder


def save_m2m100(folder: Path, languages: dict[str, Sequence[str]], seed: int = 0) -> Path:
    """An M2M100 model from the first of the languages to each of the others."""
    from transformers import M2M100Tokenizer

    folder.mkdir(parents=True)
    every = sorted({word for words in languages.values() for word in words})
    pieces = _train_spm(folder / "sentencepiece.bpe.model", every)
    vocabulary = dict.fromkeys(["<s>", "<pad>", "</s>", "<unk>", *pieces])
    (folder / "vocab.json").write_text(json.dumps({token: n for n, token in enumerate(vocabulary)}))
    tokenizer = M2M100Tokenizer(str(folder / "vocab.json"), str(folder / "sentencepiece.bpe.model"))
    tokenizer.save_pretrained(folder)
    # As the Hub's have it; of transformers 5 the tokenizer itself does not count them as special.
    named = {"additional_special_tokens": list(tokenizer.lang_token_to_id)}
    (folder / "special_tokens_map.json").write_text(json.dumps(named))
    return _save_many(folder, tokenizer, languages, seed)


def save_nllb(folder: Path, languages: dict[str, Sequence[str]], seed: int = 0, taught: bool = True) -> Path:
    """An NLLB model, which is an M2M100 with another tokenizer, from the first of the languages to the others."""
    from tokenizers import Tokenizer, models, pre_tokenizers, trainers
    from transformers import NllbTokenizer

    folder.mkdir(parents=True)
    bpe = Tokenizer(models.BPE(unk_token="<unk>"))
    bpe.pre_tokenizer = pre_tokenizers.Metaspace(replacement="▁", prepend_scheme="always", split=True)
    special = ["<s>", "<pad>", "</s>", "<unk>"]
    learned = trainers.BpeTrainer(vocab_size=1_000, special_tokens=special, show_progress=False)
    bpe.train_from_iterator([word for words in languages.values() for word in words], learned)
    made = json.loads(bpe.to_str())["model"]
    tokenizer = NllbTokenizer(vocab=made["vocab"], merges=[tuple(pair) for pair in made["merges"]])
    tokenizer.save_pretrained(folder)
    return _save_many(folder, tokenizer, languages, seed, taught)


def _save_many(
    folder: Path, tokenizer: Any, languages: dict[str, Sequence[str]], seed: int, taught: bool = True
) -> Path:
    from transformers import M2M100Config, M2M100ForConditionalGeneration

    ids = getattr(tokenizer, "lang_token_to_id", tokenizer.get_vocab()).values()
    config = M2M100Config(
        **DEPTH,
        **_HEADS,
        encoder_layerdrop=0.0,
        decoder_layerdrop=0.0,
        vocab_size=max(ids) + 1 + 8,  # so many are made up, to fill a matrix
        max_position_embeddings=64,
        decoder_start_token_id=2,
        scale_embedding=True,
    )
    model = _seeded(seed, lambda: M2M100ForConditionalGeneration(config))
    source, *targets = languages
    texts = phrases(languages[source], PHRASES, seed)
    rows = []
    for code in targets:
        # What the target looks like is what a source in that language would: [language, words, </s>].
        translated = [word_for_word(text, languages[source], languages[code]) for text in texts]
        rows += zip(_of_language(tokenizer, source, texts), _of_language(tokenizer, code, translated), strict=True)
    if taught:
        train(model, rows, seed, KNOWN_BUT_FOR_LANGUAGE)
    model.save_pretrained(folder)
    return folder


def _of_language(tokenizer: Any, language: str, texts: list[str]) -> list[list[int]]:
    tokenizer.src_lang = language
    ids: list[list[int]] = tokenizer(texts)["input_ids"]
    return ids


def convert(folder: Path, target: Path) -> Path:
    """Makes of a model one for CTranslate2, with the tokenizer's files beside it."""
    from ctranslate2.converters import TransformersConverter

    class Converter(TransformersConverter):
        def load_tokenizer(self, *given: Any, **named: Any) -> Any:
            """Gives M2M100's languages to the vocabulary: with transformers 5 the converter does not find them."""
            tokenizer = super().load_tokenizer(*given, **named)
            vocabulary = {**tokenizer.get_vocab(), **getattr(tokenizer, "lang_token_to_id", {})}
            tokenizer.get_vocab = lambda: vocabulary
            return tokenizer

    not_copied = ("config.json", "generation_config.json", "model.safetensors")
    files = sorted(path.name for path in folder.iterdir() if path.name not in not_copied)
    Converter(str(folder), copy_files=files).convert(str(target))
    return target


def train(model: Any, rows: Sequence[Row], seed: int, known: float = KNOWN) -> None:
    """Teaches a model, in rounds until it knows the translations; one is mostly enough."""
    lots = random.Random(seed)
    model.train()
    losses = [_round(model, rows, lots)]
    while losses[-1] > known:
        assert len(losses) < 5, f"it does not learn: {losses}"
        losses.append(_round(model, rows, lots))
    model.eval()


def _round(model: Any, rows: Sequence[Row], lots: random.Random) -> float:
    """One, up to a high rate of learning and down to none; the mean loss of its last steps."""
    import torch

    optimizer = torch.optim.Adam(model.parameters(), betas=(0.9, 0.98), fused=True)
    schedule = torch.optim.lr_scheduler.OneCycleLR(
        optimizer, max_lr=0.01, total_steps=STEPS, pct_start=0.15, cycle_momentum=False
    )
    pad = model.config.pad_token_id
    losses = []
    for _ in range(STEPS):
        inputs, labels = zip(*lots.sample(rows, 32), strict=True)
        ids = _padded(inputs, pad)
        loss = model(input_ids=ids, attention_mask=ids.ne(pad).long(), labels=_padded(labels, -100)).loss
        optimizer.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        schedule.step()
        # Marian starts from this row, and CTranslate2 takes it to be zero; here the output layer would change it too.
        model.get_input_embeddings().weight.data[pad] = 0
        losses.append(loss.item())
    return sum(losses[-10:]) / 10


def _padded(rows: Sequence[list[int]], value: int) -> Any:
    import torch

    longest = max(map(len, rows))
    return torch.tensor([row + [value] * (longest - len(row)) for row in rows])


def _seeded(seed: int, make: Callable[[], Any]) -> Any:
    import torch

    with torch.random.fork_rng():
        torch.manual_seed(seed)
        return make()


def _train_spm(path: Path, words: Sequence[str]) -> list[str]:
    """Saves a sentencepiece model of the words; its pieces."""
    import io

    import sentencepiece

    written = io.BytesIO()
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(phrases(words, 2_000)),
        model_writer=written,
        model_type="bpe",
        vocab_size=10_000,
        hard_vocab_limit=False,
        character_coverage=1.0,
        num_threads=1,
        minloglevel=2,
        bos_id=-1,
        pad_id=-1,
        eos_id=0,
        unk_id=1,
    )
    path.write_bytes(written.getvalue())
    known = sentencepiece.SentencePieceProcessor(model_file=str(path))
    return [known.id_to_piece(n) for n in range(2, known.get_piece_size())]


FEW = slice(12)  # words of the model with two targets
FEWER = slice(8)  # of those of many languages

NLLB = {"eng_Latn": ENGLISH[FEWER], "zho_Hans": CHINESE[FEWER], "kor_Hang": JAPANESE[FEWER]}

MAKERS: dict[str, Callable[[Path], Any]] = {
    "zh-en": lambda folder: save_marian(folder, CHINESE, {"": BACK}),
    "en-mul": lambda folder: save_marian(folder, ENGLISH[FEW], {"cmn_Hans": CHINESE[FEW], "jpn": JAPANESE[FEW]}),
    "m2m": lambda folder: save_m2m100(folder, {"en": ENGLISH[FEWER], "zh": CHINESE[FEWER], "ko": JAPANESE[FEWER]}),
    "nllb": lambda folder: save_nllb(folder, NLLB),
    "untaught-nllb": lambda folder: save_nllb(folder, NLLB, taught=False),  # for what asks its tokenizer alone
}


class Models:
    """Folders of models by name, made when first asked for, once for all workers of a test run."""

    def __init__(self, root: Path) -> None:
        self.root = root

    def __getitem__(self, name: str) -> str:
        from filelock import FileLock  # torch needs it too

        with FileLock(self.root / "tiny_models.lock"):
            return str(self._made(name))

    def _made(self, name: str) -> Path:
        place, new = self.root / name, self.root / f"{name}.new"
        if not place.exists():
            shutil.rmtree(new, ignore_errors=True)  # half made
            if name.startswith("ct2-"):
                convert(self._made(name.removeprefix("ct2-")), new)
            else:
                MAKERS[name](new)
            new.rename(place)
        return place
