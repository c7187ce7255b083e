"""A tiny random T5 with a Unigram tokenizer that is made here, saved as real checkpoints are."""

import math
import re
import string
from collections import Counter
from collections.abc import Iterable
from pathlib import Path

from kit import SEED

SPECIAL = ("<pad>", "</s>", "<unk>")


def save_t5(
    folder: Path,
    texts: Iterable[str],
    size: int = 32,
    layers: int = 1,
    vocabulary: int = 400,
    dropout: float = 0.0,
    seed: int = 0,
) -> Path:
    """Makes one: of the architecture of t5-small, but for its size.

    Args:
      folder: a new one.
      texts: whose most frequent words are pieces of the tokenizer; single characters of ASCII are so besides.
      size: of the hidden states; a multiple of 4.
      layers: of the encoder, and of the decoder.
      vocabulary: pieces at most.
      dropout: real ones have 0.1; without any so small a model learns faster.
      seed: of the weights.
    """
    import torch
    from transformers import T5Config, T5ForConditionalGeneration, T5Tokenizer
    from transformers.utils import logging

    logging.disable_progress_bar()
    folder.mkdir(parents=True)
    tokenizer = T5Tokenizer(vocab=_pieces(texts, vocabulary), extra_ids=0, model_max_length=512)
    tokenizer.save_pretrained(folder)
    config = T5Config(
        vocab_size=-(-len(tokenizer) // 8) * 8,  # more rows than pieces, as real ones have
        d_model=size,
        d_kv=size // 4,
        d_ff=2 * size,
        num_layers=layers,
        num_heads=4,
        dropout_rate=dropout,
        relative_attention_num_buckets=8,
        relative_attention_max_distance=32,
        pad_token_id=tokenizer.pad_token_id,
        eos_token_id=tokenizer.eos_token_id,
        decoder_start_token_id=tokenizer.pad_token_id,
    )
    with torch.random.fork_rng():
        torch.manual_seed(SEED + seed)
        model = T5ForConditionalGeneration(config)
    model.save_pretrained(folder)
    return folder


def _pieces(texts: Iterable[str], most: int) -> list[tuple[str, float]]:
    """Pieces with their scores: words by how frequent they are, single characters where nothing else will do."""
    found: Counter[str] = Counter()
    for text in texts:
        for word in text.split():
            found.update(f"\N{LOWER ONE EIGHTH BLOCK}{word}" if i == 0 else word for i, word in enumerate(_parts(word)))
    characters = ["\N{LOWER ONE EIGHTH BLOCK}", *string.printable.strip()]
    room = max(0, most - len(SPECIAL) - len(characters))
    words = [one for one in sorted(found, key=lambda one: (-found[one], one)) if one not in characters][:room]
    total = sum(found.values())
    return [
        *((piece, 0.0) for piece in SPECIAL),
        *((piece, -20.0) for piece in characters),
        *((piece, math.log(found[piece] / total)) for piece in words),
    ]


def _parts(word: str) -> list[str]:
    return re.findall(r"\w+|\W", word)
