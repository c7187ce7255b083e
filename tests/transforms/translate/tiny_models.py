"""Tiny translation models, saved as real checkpoints are and loaded by the same code.

They translate word by word, and their weights are set by hand so that they do: nothing is learned, so no machine, no
number of threads and no version rounds its way to another model. Each takes a moment.

Every token has a code, orthogonal to all others and to what tells positions apart. Cross-attention reads the source at
the position that is written; its values are the codes of the translations. Where there are several target languages, a
self-attention looks for the token that names one, and adds the codes of its words: a word of that language has both.
"""

import itertools
import json
import random

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
SYNONYMS = {"name": "title", "restaurant": "eatery", "price": "fee", "city": "town", "movie": "film"}
BACK = [SYNONYMS.get(word, word) for word in ENGLISH]

WIDTH, HEADS = 128, 4
SIZES = {
    "d_model": WIDTH,
    **dict.fromkeys(["encoder_layers", "decoder_layers"], 1),
    **dict.fromkeys(["encoder_attention_heads", "decoder_attention_heads"], HEADS),
    **dict.fromkeys(["encoder_ffn_dim", "decoder_ffn_dim"], 8),
    "scale_embedding": True,
    "max_position_embeddings": 64,
}
FREQUENCIES = 8  # of the positions' sines; they tell 64 positions apart
SHARP = 200.0  # queries and keys: attention is all on one position
LOUD = 8.0  # values, beside what else a position holds
CLEAR = 2.0  # length of codes: what is right is e^18 times as likely as all else, e^4 with several languages
LONGEST = 4  # words of a phrase


def word_for_word(text, source, target):
    """What a model of these words makes of a text."""
    words = dict(zip(source, target, strict=True))
    return " ".join(words[word] for word in text.split())


def phrases(words, count, seed=0):
    """Random ones of one to ``LONGEST`` words."""
    lots = random.Random(seed)
    return [" ".join(lots.choices(words, k=lots.randint(1, LONGEST))) for _ in range(count)]


def save_marian(folder, source, targets):
    """A Marian model of ``source`` into the words of ``targets``, by language code; the code ``""`` is for only one."""
    from transformers import MarianConfig, MarianMTModel, MarianTokenizer

    folder.mkdir(parents=True)
    every = sorted({word for words in targets.values() for word in words})
    pieces = _train_spm(folder / "source.spm", source) + _train_spm(folder / "target.spm", every)
    vocabulary = dict.fromkeys(["</s>", "<unk>", *pieces, *[f">>{code}<<" for code in targets if code], "<pad>"])
    (folder / "vocab.json").write_text(json.dumps({token: n for n, token in enumerate(vocabulary)}))
    (folder / "tokenizer_config.json").write_text(json.dumps({"model_max_length": 64}))  # as little as the Hub's have
    tokenizer = MarianTokenizer.from_pretrained(str(folder), local_files_only=True)
    pad = len(vocabulary) - 1
    special = {"pad_token_id": pad, "decoder_start_token_id": pad, "eos_token_id": 0, "forced_eos_token_id": 0}
    model = MarianMTModel(MarianConfig(**SIZES, vocab_size=len(vocabulary), **special))
    model.generation_config.bad_words_ids = [[pad]]
    model.generation_config.num_beams = 6  # as the Hub's say; not what is asked for
    ids = {word: _only([*tokenizer(word)["input_ids"]][:-1]) for word in source}
    ids |= {word: _only(tokenizer(text_target=word)["input_ids"][:-1]) for word in every}
    meanings = {ids[word]: [ids[words[n]] for words in targets.values()] for n, word in enumerate(source)}
    named = {code: words for code, words in targets.items() if code}
    languages = {tokenizer.convert_tokens_to_ids(f">>{code}<<"): [*map(ids.get, of)] for code, of in named.items()}
    # What is written first stands first in the source, or second, after the language.
    _set_weights(model, meanings, languages, [0, 1], ahead=1 if languages else 0)
    model.save_pretrained(folder)
    return folder


def save_m2m100(folder, languages):
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
    return _save_many(folder, tokenizer, languages)


def save_nllb(folder, languages):
    """An NLLB model, which is an M2M100 with another tokenizer, from the first of the languages to the others."""
    from tokenizers import Tokenizer, models, pre_tokenizers, trainers
    from transformers import NllbTokenizer

    folder.mkdir(parents=True)
    bpe = Tokenizer(models.BPE(unk_token="<unk>"))
    bpe.pre_tokenizer = pre_tokenizers.Metaspace(replacement="▁", prepend_scheme="always", split=True)
    special = ["<s>", "<pad>", "</s>", "<unk>"]
    learned = trainers.BpeTrainer(vocab_size=1_000, special_tokens=special, show_progress=False)
    bpe.train_from_iterator([word for words in languages.values() for word in words], learned)
    merged = json.loads(bpe.to_str())["model"]
    tokenizer = NllbTokenizer(vocab=merged["vocab"], merges=[tuple(pair) for pair in merged["merges"]])
    tokenizer.save_pretrained(folder)
    return _save_many(folder, tokenizer, languages)


def _save_many(folder, tokenizer, languages):
    from transformers import M2M100Config, M2M100ForConditionalGeneration

    known = getattr(tokenizer, "lang_token_to_id", tokenizer.get_vocab()).values()
    size = max(known) + 1 + 8  # so many are made up, to fill a matrix
    drop = {"encoder_layerdrop": 0.0, "decoder_layerdrop": 0.0}
    config = M2M100Config(**SIZES, **drop, vocab_size=size, decoder_start_token_id=2)
    model = M2M100ForConditionalGeneration(config)
    rows = {}  # of each language and word: [language, word, </s>]
    for code, words in languages.items():
        tokenizer.src_lang = code
        rows[code] = tokenizer(list(words))["input_ids"]
    source, *targets = ([_only(row[1:-1]) for row in of] for of in rows.values())
    meanings = {word: [words[n] for words in targets] for n, word in enumerate(source)}
    named = [of[0][0] for of in rows.values()][1:]
    # What is written begins with its language, as the source does with its own.
    _set_weights(model, meanings, dict(zip(named, targets, strict=True)), [2, 3], ahead=0)
    model.save_pretrained(folder)
    return folder


def _only(tokens):
    (token,) = tokens
    return token


def _set_weights(model, meanings, languages, special, ahead):
    """Makes of a new model, Marian or M2M100, one that translates word by word.

    Args:
      model: with a layer of encoder and of decoder, and with the positions that its class computes.
      meanings: ids of a token's translations, one for each language, by its id.
      languages: ids of a language's words, by the id of the token that names it; none where there is but one.
      special: ids of the tokens for the end and for what is unknown, which are translated by themselves.
      ahead: so many positions behind the one that is written stands what it translates.
    """
    import torch
    from scipy.linalg import helmert

    def attend(attention, query, key, value):
        """Each head compares alike, sharply, and has its part of the value."""
        empty = torch.zeros(WIDTH // HEADS - len(key), WIDTH)
        attention.k_proj.weight.copy_(torch.cat([SHARP * key, empty] * HEADS))
        if query.dim() == 1:  # the same whatever is written
            attention.q_proj.bias.copy_(torch.cat([SHARP * query, empty[:, 0]] * HEADS))
        else:
            attention.q_proj.weight.copy_(torch.cat([SHARP * query, empty] * HEADS))
        attention.v_proj.weight.copy_(value)
        attention.out_proj.weight.copy_(torch.eye(WIDTH))

    # Positions are sines of so many frequencies, and as many cosines; the slowest sine is as good as zero. All rows
    # and codes sum to zero, as layer normalisation takes off the mean.
    half = WIDTH // 2
    zero, sine, cosine = half - 1, slice(0, FREQUENCIES), slice(half, half + FREQUENCIES)
    sines, cosines = torch.eye(WIDTH)[sine], torch.eye(WIDTH)[cosine]
    sines[:, zero] = cosines[:, zero] = -1.0
    angles = ahead * 10_000.0 ** (-torch.arange(FREQUENCIES)[:, None] / half)
    further = sines * angles.cos() + cosines * angles.sin(), cosines * angles.cos() - sines * angles.sin()

    tokens = sorted({*meanings, *languages, *special, *(one for of in meanings.values() for one in of)})
    room = torch.ones(WIDTH, dtype=torch.bool)
    room[sine] = room[cosine] = room[zero] = False
    codes = torch.zeros(len(tokens), WIDTH)
    codes[:, room] = torch.tensor(helmert(int(room.sum()))[-len(tokens) :], dtype=torch.float)
    by_token = dict(zip(tokens, codes, strict=True))

    def written(wanted):
        """What reads codes and gives the sum of those that are wanted for each."""
        sums = ((sum(by_token[one] for one in of), by_token[token]) for token, of in wanted.items())
        return LOUD * sum(itertools.starmap(torch.outer, sums))

    itself = {token: [token] for token in special}
    of_language = {token: [*of, *special] for token, of in languages.items()}
    in_source = model.config.model_type == "marian"
    with torch.no_grad():
        for name, weight in model.named_parameters():
            if "embed_positions" not in name:
                weight.fill_(float(name.endswith("norm.weight")))
        embeddings = model.get_input_embeddings().weight
        embeddings[:] = 0.9 * CLEAR * by_token[special[-1]]  # what is not translated is as good as unknown
        embeddings[tokens] = CLEAR * codes
        embeddings[model.config.pad_token_id] = 0  # Marian starts from it
        core = model.model
        value = written({**meanings, **itself, **(of_language if in_source else {})})
        attend(core.decoder.layers[0].encoder_attn, torch.cat(further), torch.cat([sines, cosines]), value)
        if languages:
            look = (core.encoder if in_source else core.decoder).layers[0].self_attn
            named = sum(by_token[token] for token in languages)[None]
            added = written({token: [token] for token in languages}) / LOUD if in_source else written(of_language)
            attend(look, torch.ones(1), named, added)
    model.eval()


def _train_spm(path, words):
    """Saves a sentencepiece model of the words; its pieces."""
    import io

    import sentencepiece

    written = io.BytesIO()
    sizes = {"vocab_size": 10_000, "hard_vocab_limit": False, "character_coverage": 1.0, "num_threads": 1}
    ids = {"bos_id": -1, "pad_id": -1, "eos_id": 0, "unk_id": 1}
    sentences = iter(phrases(words, 2_000))
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=sentences, model_writer=written, model_type="bpe", minloglevel=2, **sizes, **ids
    )
    path.write_bytes(written.getvalue())
    known = sentencepiece.SentencePieceProcessor(model_file=str(path))
    return [known.id_to_piece(n) for n in range(2, known.get_piece_size())]


FEW = slice(12)  # words of the model with two targets
FEWER = slice(8)  # of those of many languages

NLLB = {"eng_Latn": ENGLISH[FEWER], "zho_Hans": CHINESE[FEWER], "kor_Hang": JAPANESE[FEWER]}

MAKERS = {
    "zh-en": lambda folder: save_marian(folder, CHINESE, {"": BACK}),
    "en-mul": lambda folder: save_marian(folder, ENGLISH[FEW], {"cmn_Hans": CHINESE[FEW], "jpn": JAPANESE[FEW]}),
    "m2m": lambda folder: save_m2m100(folder, {"en": ENGLISH[FEWER], "zh": CHINESE[FEWER], "ko": JAPANESE[FEWER]}),
    "nllb": lambda folder: save_nllb(folder, NLLB),
}


class Models:
    """Folders of models by name, made when first asked for."""

    def __init__(self, root):
        self.root = root

    def __getitem__(self, name):
        place = self.root / name
        if not place.exists():
            MAKERS[name](place)
        return str(place)
