"""The models of ``parapet train`` and ``parapet predict``, and the family of each."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from parapet.pipelines.models.family import Family

# Each model: its family, as MODULE:CLASS below this package, and a summary.
TABLE = {
    "tiny_dst": ("trackers:TinyDst", "dialogue states: a small net, trained in minutes"),
    "t5dst": ("trackers:T5Dst", "dialogue states: a T5, prompted for one slot at a time"),
    "sgp_dst": ("trackers:SgpDst", "dialogue states: four BERT encoders, combined by rules"),
    "ft_t5": ("generation:Generation", "system utterances from their acts: a fine-tuned T5"),
    "pt_t5": ("generation:Prefixes", "system utterances from their acts: a T5 with trained prefixes"),
    "classifier": ("classifier:Classifier", "intents and out-of-domain turns: a text classifier"),
    "soloist": ("systems:Soloist", "belief states and responses, end to end: a GPT-2"),
    "damd": ("systems:Damd", "belief states, acts and responses, end to end: GRUs, from scratch"),
    "rules": ("babi:Rules", "bAbI dialog tasks: rules, given or learned"),
    "tfidf": ("babi:TfIdf", "bAbI dialog tasks: the closest candidate by TF-IDF"),
    "nearest": ("babi:Nearest", "bAbI dialog tasks: the answer to the most similar utterance"),
    "embeddings": ("babi:Embeddings", "bAbI dialog tasks: supervised embeddings"),
    "memn2n": ("babi:MemN2N", "bAbI dialog tasks: a memory network"),
}

# The models of 'parapet predict': those trained here, and language models behind an API.
ENDPOINT = "llm"
FAMILIES = {
    ENDPOINT: ("endpoint:States", "dialogue states: a language model behind an OpenAI-compatible API"),
    "llm_ood": ("endpoint:OutOfDomain", "out-of-domain turns: a language model"),
    "llm_utterances": ("endpoint:Utterances", "system utterances from their acts: a language model"),
    "llm_tools": ("endpoint:ToolCalls", "calls of an agent's tools: a language model"),
    "llm_babi": ("endpoint:BabiAnswers", "bAbI dialog tasks: a language model"),
    **TABLE,
}

MODELS = {name: summary for name, (_, summary) in TABLE.items()}
PREDICTING = {name: summary for name, (_, summary) in FAMILIES.items()}


def family_of(model: str) -> Family:
    """Makes the family object of a model."""
    module, _, name = FAMILIES[model][0].partition(":")
    family: Family = getattr(import_module(f"{__name__}.{module}"), name)(model)
    return family
