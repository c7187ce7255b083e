"""A tiny random GPT-2 with a byte-level BPE trained here, saved as real checkpoints are."""

from collections.abc import Sequence
from pathlib import Path

from kit import SEED

END = "<|endoftext|>"


def save_gpt2(
    folder: Path, texts: Sequence[str], size: int = 64, layers: int = 1, positions: int = 192, vocabulary: int = 600
) -> Path:
    """Makes one.

    Args:
      folder: a new one.
      texts: whose words the tokenizer learns; it can write any other text too.
      size: of the hidden states; a multiple of 4.
      layers: of the decoder.
      positions: tokens of a sequence at most.
      vocabulary: tokens at most.
    """
    import torch
    from tokenizers import ByteLevelBPETokenizer
    from transformers import GPT2Config, GPT2LMHeadModel, GPT2TokenizerFast
    from transformers.utils import logging

    logging.disable_progress_bar()
    folder.mkdir(parents=True)
    bpe = ByteLevelBPETokenizer()
    spaced = [f" {text}" for text in texts]
    bpe.train_from_iterator(spaced, vocab_size=vocabulary, min_frequency=1, special_tokens=[END], show_progress=False)
    bpe.save_model(str(folder))
    tokenizer = GPT2TokenizerFast.from_pretrained(str(folder), local_files_only=True, model_max_length=positions)
    tokenizer.save_pretrained(folder)
    config = GPT2Config(
        vocab_size=len(tokenizer),
        n_embd=size,
        n_layer=layers,
        n_head=4,
        n_positions=positions,
        bos_token_id=tokenizer.eos_token_id,
        eos_token_id=tokenizer.eos_token_id,
        resid_pdrop=0.0,  # without any so small a model learns faster
        embd_pdrop=0.0,
        attn_pdrop=0.0,
        initializer_range=0.1,
    )
    with torch.random.fork_rng():
        torch.manual_seed(SEED)
        model = GPT2LMHeadModel(config)
    model.save_pretrained(folder)
    return folder
