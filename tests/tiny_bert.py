"""A tiny random BERT with a WordPiece tokenizer trained here, saved as real checkpoints are."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

SPECIAL = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]


def save_bert(
    folder: Path, texts: Sequence[str], size: int = 32, layers: int = 1, positions: int = 64, vocabulary: int = 500
) -> Path:
    """Makes one, as it stands after pre-training: an encoder with its pooler, no head for a task.

    Args:
      folder: a new one.
      texts: whose words the tokenizer learns; it is uncased.
      size: of the hidden states; a multiple of 4.
      layers: of the encoder.
      positions: tokens of an input at most.
      vocabulary: pieces at most.
    """
    import torch
    from tokenizers import BertWordPieceTokenizer
    from transformers import BertConfig, BertForPreTraining, BertTokenizerFast

    folder.mkdir(parents=True)
    pieces = BertWordPieceTokenizer(lowercase=True)
    pieces.train_from_iterator(
        list(texts), vocab_size=vocabulary, min_frequency=1, special_tokens=SPECIAL, show_progress=False
    )
    pieces.save_model(str(folder))
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
        torch.manual_seed(0)
        model = BertForPreTraining(config)
    model.save_pretrained(folder)
    return folder
