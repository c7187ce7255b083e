"""The models of ``parapet train`` and ``parapet predict``, and the commands of each."""

from __future__ import annotations

from functools import cache, partial
from importlib import import_module
from typing import TYPE_CHECKING, Any, Literal

if TYPE_CHECKING:
    from parapet.pipelines.app import Command

# Each model: the module of its commands, the class to train it (if it is trained here), that to predict with it, and a
# summary. Language models behind an API come first.
ENDPOINT = "llm"
TABLE = {
    ENDPOINT: ("endpoint", "", "States", "dialogue states: a language model behind an OpenAI-compatible API"),
    "llm_ood": ("endpoint", "", "OutOfDomain", "out-of-domain turns: a language model"),
    "llm_utterances": ("endpoint", "", "Utterances", "system utterances from their acts: a language model"),
    "llm_tools": ("endpoint", "", "ToolCalls", "calls of an agent's tools: a language model"),
    "llm_babi": ("endpoint", "", "BabiAnswers", "bAbI dialog tasks: a language model"),
    "t5dst": ("trained", "T5Dst", "PredictStates", "dialogue states: a T5, prompted for one slot at a time"),
    "sgp_dst": ("trained", "SgpDst", "PredictStates", "dialogue states: four BERT encoders, combined by rules"),
    "sgd_baseline": ("trained", "SgdBaseline", "PredictStates", "dialogue states: a BERT encoder with small heads"),
    "ft_t5": ("trained", "Generation", "PredictUtterances", "system utterances from their acts: a fine-tuned T5"),
    "pt_t5": ("trained", "Prefixes", "PredictByPrefixes", "system utterances from their acts: a T5 with prefixes"),
    "classifier": ("trained", "Classifier", "PredictTurns", "intents and out-of-domain turns: a text classifier"),
    "soloist": ("trained", "Soloist", "PredictSystem", "belief states and responses, end to end: a GPT-2"),
    "damd": ("trained", "Damd", "PredictSystem", "belief states, acts and responses, end to end: GRUs, from scratch"),
    "rules": ("trained", "Rules", "PredictAnswers", "bAbI dialog tasks: rules, given or learned"),
    "tfidf": ("trained", "TfIdf", "PredictAnswers", "bAbI dialog tasks: the closest candidate by TF-IDF"),
    "nearest": ("trained", "Nearest", "PredictAnswers", "bAbI dialog tasks: the answer to the most similar utterance"),
    "embeddings": ("trained", "Embeddings", "PredictAnswers", "bAbI dialog tasks: supervised embeddings"),
    "memn2n": ("trained", "MemN2N", "PredictByMemory", "bAbI dialog tasks: a memory network"),
}
MODELS = {name: summary for name, (_, trained, _, summary) in TABLE.items() if trained}
PREDICTING = {name: summary for name, (*_, summary) in TABLE.items()}


@cache
def command_of(action: Literal["train", "predict"], model: str) -> type[Command[Any]]:
    """Makes the declaration of ``parapet ACTION MODEL``, as models share classes."""
    module, to_train, to_predict, _ = TABLE[model]
    name = to_train if action == "train" else to_predict
    shared: type[Command[Any]] = getattr(import_module(f"{__name__}.{module}"), name)
    own = {"name": f"{action} {model}", "model_name": model, "example": shared.example.replace("{model}", model)}
    return type(name, (shared,), {"__module__": shared.__module__, "__doc__": shared.__doc__, **own})


train_command, predict_command = partial(command_of, "train"), partial(command_of, "predict")
