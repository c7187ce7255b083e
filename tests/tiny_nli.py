"""A tiny random RoBERTa classifier with a byte-level BPE trained here, saved as real checkpoints are."""

from collections.abc import Sequence
from pathlib import Path

from kit import SEED

# Not in the order that most checkpoints have.
LABELS = ("neutral", "CONTRADICTION", "Entailment")
TEXTS = ["Request City of the restaurant", "Name of the restaurant is Opa", "has live music? Yes.", "Goodbye."]


def save_roberta(
    folder: Path, bias: Sequence[float] | None = None, labels: Sequence[str] = LABELS, length: int = 0
) -> Path:
    """Makes one.

    Args:
      folder: a new one.
      bias: of the outputs, which then say the same of every pair; None for a random model.
      labels: of the outputs, by position.
      length: in tokens, which the tokenizer cuts texts to; 0 for 64 that it does not know of.
    """
    import torch
    from tokenizers import ByteLevelBPETokenizer
    from transformers import RobertaConfig, RobertaForSequenceClassification, RobertaTokenizer

    folder.mkdir(parents=True)
    bpe = ByteLevelBPETokenizer()
    special = ["<s>", "<pad>", "</s>", "<unk>", "<mask>"]
    bpe.train_from_iterator(TEXTS * 10, vocab_size=400, special_tokens=special, show_progress=False)
    bpe.save_model(str(folder))
    tokenizer = RobertaTokenizer.from_pretrained(str(folder), local_files_only=True)
    if length:
        tokenizer.model_max_length = length
    tokenizer.save_pretrained(folder)
    config = RobertaConfig(
        vocab_size=len(tokenizer),
        hidden_size=16,
        num_hidden_layers=1,
        num_attention_heads=2,
        intermediate_size=16,
        max_position_embeddings=(length or 64) + 2,
        pad_token_id=tokenizer.pad_token_id,
        initializer_range=0.5,  # with the usual 0.02 all pairs would be judged alike
        id2label=dict(enumerate(labels)),
        label2id={label: i for i, label in enumerate(labels)},
    )
    with torch.random.fork_rng():
        torch.manual_seed(SEED)
        model = RobertaForSequenceClassification(config)
    if bias is not None:
        model.classifier.out_proj.weight.data.zero_()
        model.classifier.out_proj.bias.data.copy_(torch.tensor(bias))
    model.save_pretrained(folder)
    return folder
