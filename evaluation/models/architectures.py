"""Which architectures a model's checkpoint may be of, by the ``model_type`` in its ``config.json``."""

from __future__ import annotations

BY_MODEL = {
    "t5dst": ("t5", "mt5", "umt5", "longt5"),  # whose positions are relative, so that any length will do
    "sgp_dst": ("bert", "distilbert", "electra", "roberta"),
    "ft_t5": ("t5", "mt5"),
    "pt_t5": ("t5", "mt5"),
    "classifier": ("bert", "roberta", "distilbert", "electra", "xlm-roberta", "camembert"),
    "soloist": ("gpt2", "gpt_neo"),
}


def models_of(architecture: str) -> list[str]:
    """The models that begin with checkpoints of an architecture; none of one that no model takes."""
    return [model for model, taken in BY_MODEL.items() if architecture in taken]
