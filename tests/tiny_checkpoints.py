"""Tiny random models with tokenizers that are made here, saved as real checkpoints are."""

import math
import re
import string
from collections import Counter
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from kit import SEED

# Of the RoBERTa: not in the order that most checkpoints have.
LABELS = ("neutral", "CONTRADICTION", "Entailment")
PAIRS = ["Request City of the restaurant", "Name of the restaurant is Opa", "has live music? Yes.", "Goodbye."]


def save_bert(folder: Path, texts: Sequence[str], positions: int = 64, spread: float = 0.2) -> Path:
    """Makes a BERT as it is after pre-training: an encoder with its pooler, and no head for a task.

    Args:
      folder: a new one.
      texts: their most frequent words are pieces of the tokenizer, besides their letters; it is uncased.
      positions: the number of tokens of an input at most.
      spread: the standard deviation of its weights; so small a model learns slowly with the usual 0.02.
    """
    from transformers import BertConfig, BertForPreTraining, BertTokenizerFast

    folder.mkdir(parents=True)
    # Not with the trainer of 'tokenizers', which chooses others of equally frequent pieces each time.
    words = Counter(word for text in texts for word in re.findall(r"\w+|[^\w\s]", text.lower()))
    letters = sorted({letter for word in words for letter in word})
    pieces = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *letters, *(f"##{letter}" for letter in letters)]
    pieces += [word for word in sorted(words, key=lambda word: (-words[word], word)) if word not in letters]
    (folder / "vocab.txt").write_text("\n".join(pieces[:500]) + "\n")
    tokenizer = BertTokenizerFast.from_pretrained(str(folder), local_files_only=True, model_max_length=positions)
    sizes = {"hidden_size": 32, "num_hidden_layers": 1, "num_attention_heads": 4, "intermediate_size": 64}
    places = {"max_position_embeddings": positions, "pad_token_id": tokenizer.pad_token_id}
    config = BertConfig(vocab_size=len(tokenizer), **sizes, **places, initializer_range=spread)
    return _save(folder, tokenizer, BertForPreTraining, config)


def save_gpt2(folder: Path, texts: Sequence[str], positions: int = 192) -> Path:
    """Makes a GPT-2, whose tokenizer learns the words of the texts and can write any other text too."""
    from transformers import GPT2Config, GPT2LMHeadModel

    tokenizer = _gpt2_tokenizer(folder, texts, positions)
    ends = dict.fromkeys(("bos_token_id", "eos_token_id"), tokenizer.eos_token_id)
    dropouts = dict.fromkeys(("resid_pdrop", "embd_pdrop", "attn_pdrop"), 0.0)  # so small a model learns faster so
    sizes = {"n_embd": 64, "n_layer": 1, "n_head": 4, "n_positions": positions}
    config = GPT2Config(vocab_size=len(tokenizer), **sizes, **ends, **dropouts, initializer_range=0.1)
    return _save(folder, tokenizer, GPT2LMHeadModel, config)


def save_llama(folder: Path, texts: Sequence[str]) -> Path:
    """Makes a Llama of SmolLM2's kind: GPT-2's tokenizer, fewer keys than queries, and tied embeddings."""
    from transformers import LlamaConfig, LlamaForCausalLM

    tokenizer = _gpt2_tokenizer(folder, texts, 192)
    ends = dict.fromkeys(("bos_token_id", "eos_token_id"), tokenizer.eos_token_id)
    heads = {"num_attention_heads": 4, "num_key_value_heads": 2, "tie_word_embeddings": True}
    sizes = {"hidden_size": 64, "intermediate_size": 64, "num_hidden_layers": 1, "max_position_embeddings": 192}
    config = LlamaConfig(vocab_size=len(tokenizer), **sizes, **heads, **ends, initializer_range=0.1)
    return _save(folder, tokenizer, LlamaForCausalLM, config)


def save_roberta(folder: Path, length: int = 0) -> Path:
    """Makes a RoBERTa that classifies pairs of texts.

    Args:
      folder: a new one.
      length: to which the tokenizer cuts texts, in tokens; 0 for 64, which the tokenizer does not know.
    """
    from transformers import RobertaConfig, RobertaForSequenceClassification, RobertaTokenizer

    _save_bpe(folder, PAIRS * 10, 400, ["<s>", "<pad>", "</s>", "<unk>", "<mask>"])
    tokenizer = RobertaTokenizer.from_pretrained(str(folder), local_files_only=True)
    if length:
        tokenizer.model_max_length = length
    sizes = {"hidden_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 16}
    places = {"max_position_embeddings": (length or 64) + 2, "pad_token_id": tokenizer.pad_token_id}
    labels = {"id2label": dict(enumerate(LABELS)), "label2id": {label: i for i, label in enumerate(LABELS)}}
    # With the usual 0.02 all pairs would be judged alike.
    config = RobertaConfig(vocab_size=len(tokenizer), **sizes, **places, **labels, initializer_range=0.5)
    return _save(folder, tokenizer, RobertaForSequenceClassification, config)


def save_t5(
    folder: Path, texts: Iterable[str], size: int = 32, layers: int = 1, vocabulary: int = 400, dropout: float = 0.0
) -> Path:
    """Makes a T5 of the architecture of t5-small, but for its size.

    Args:
      folder: a new one.
      texts: their most frequent words are pieces of the Unigram tokenizer, besides single characters of ASCII.
      size: of the hidden states; a multiple of 4.
      layers: of the encoder, and of the decoder.
      vocabulary: the number of pieces at most.
      dropout: real ones have 0.1; so small a model learns faster without any.
    """
    from transformers import T5Config, T5ForConditionalGeneration, T5Tokenizer

    folder.mkdir(parents=True)
    tokenizer = T5Tokenizer(vocab=_pieces(texts, vocabulary), extra_ids=0, model_max_length=512)
    rows = -(-len(tokenizer) // 8) * 8  # more than pieces, as real ones have
    sizes = {"d_model": size, "d_kv": size // 4, "d_ff": 2 * size, "num_layers": layers, "num_heads": 4}
    biases = {"relative_attention_num_buckets": 8, "relative_attention_max_distance": 32}
    marks = {"pad_token_id": tokenizer.pad_token_id, "decoder_start_token_id": tokenizer.pad_token_id}
    ends = {"eos_token_id": tokenizer.eos_token_id, "dropout_rate": dropout}
    config = T5Config(vocab_size=rows, **sizes, **biases, **marks, **ends)
    return _save(folder, tokenizer, T5ForConditionalGeneration, config)


def _gpt2_tokenizer(folder: Path, texts: Sequence[str], positions: int) -> Any:
    from transformers import GPT2TokenizerFast

    _save_bpe(folder, [f" {text}" for text in texts], 600, ["<|endoftext|>"], min_frequency=1)
    return GPT2TokenizerFast.from_pretrained(str(folder), local_files_only=True, model_max_length=positions)


def _save_bpe(folder: Path, texts: Sequence[str], size: int, special: Sequence[str], **options: int) -> None:
    from tokenizers import ByteLevelBPETokenizer

    folder.mkdir(parents=True)
    bpe = ByteLevelBPETokenizer()
    bpe.train_from_iterator(texts, vocab_size=size, special_tokens=[*special], show_progress=False, **options)
    bpe.save_model(str(folder))


def _save(folder: Path, tokenizer: Any, kind: Any, config: Any) -> Path:
    import torch
    from transformers.utils import logging

    logging.disable_progress_bar()
    tokenizer.save_pretrained(folder)
    with torch.random.fork_rng():
        torch.manual_seed(SEED)
        model = kind(config)
    model.save_pretrained(folder)
    return folder


def _pieces(texts: Iterable[str], most: int) -> list[tuple[str, float]]:
    """Pieces with their scores: words by how frequent they are, single characters where nothing else will do."""
    begin, special = "\N{LOWER ONE EIGHTH BLOCK}", ("<pad>", "</s>", "<unk>")
    counts: Counter[str] = Counter()
    for word in (word for text in texts for word in text.split()):
        counts.update(re.findall(rf"{begin}?(?:\w+|\W)", begin + word))
    characters = [begin, *string.printable.strip()]
    words = [word for word in sorted(counts, key=lambda word: (-counts[word], word)) if word not in characters]
    scores = dict.fromkeys(special, 0.0) | dict.fromkeys(characters, -20.0)
    kept = words[: max(0, most - len(scores))]
    return [*scores.items(), *((piece, math.log(counts[piece] / counts.total())) for piece in kept)]
