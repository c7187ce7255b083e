"""A tiny random BERT with a WordPiece tokenizer of words and letters, saved as real checkpoints are."""

import re
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

from kit import SEED

SPECIAL = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]


def save_bert(
    folder: Path, texts: Sequence[str], size: int = 32, layers: int = 1, positions: int = 64, vocabulary: int = 500
) -> Path:
    """Makes one, as it stands after pre-training: an encoder with its pooler, no head for a task.

    Args:
      folder: a new one.
      texts: whose most frequent words are pieces of the tokenizer, beside their letters; it is uncased.
      size: of the hidden states; a multiple of 4.
      layers: of the encoder.
      positions: tokens of an input at most.
      vocabulary: pieces at most.
    """
    import torch
    from transformers import BertConfig, BertForPreTraining, BertTokenizerFast

    folder.mkdir(parents=True)
    # Not by the trainer of 'tokenizers': of equally frequent pieces it takes others each time.
    words = Counter(word for text in texts for word in re.findall(r"\w+|[^\w\s]", text.lower()))
    letters = sorted({letter for word in words for letter in word})
    pieces = [*SPECIAL, *letters, *(f"##{letter}" for letter in letters)]
    pieces += [word for word in sorted(words, key=lambda word: (-words[word], word)) if word not in letters]
    (folder / "vocab.txt").write_text("\n".join(pieces[:vocabulary]) + "\n")
    tokenizer = BertTokenizerFast.from_pretrained(str(folder), local_files_only=True, model_max_length=positions)
    tokenizer.save_pretrained(folder)
    config = BertConfig(
        vocab_size=len(tokenizer),
        hidden_size=size,
        num_hidden_layers=layers,
        num_attention_heads=4,
        intermediate_size=2 * size,
        max_position_embeddings=positions,
        pad_token_id=tokenizer.pad_token_id,
        initializer_range=0.2,  # with the usual 0.02 so small a model learns slowly
    )
    with torch.random.fork_rng():
        torch.manual_seed(SEED)
        model = BertForPreTraining(config)
    model.save_pretrained(folder)
    return folder
