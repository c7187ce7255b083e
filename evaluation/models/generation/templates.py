"""The input of a model: a short sentence for each act of a system turn (T2G2; Kale and Rastogi 2020).

Theirs are written by hand for each slot. These are built from the schema's words, as the references of SGSAcc are, so
that an unseen service, or a variant of one, has some too.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from parapet.evaluation.generation.references import Act, ServiceWords, references
from parapet.schemas.dialogue import is_marker

# Before a sentence that does not tell which act it is; other acts have their name.
LEADS = {"INFORM": "", "OFFER": "How about this:", "CONFIRM": "Please confirm:"}


def text_of(acts: Iterable[Act], words: Mapping[str, ServiceWords]) -> str:
    """The sentences of a turn's acts, in their order.

    Args:
      acts: of the turn.
      words: of each service.
    """
    return " ".join(sentence(act, words[act.service]) for act in acts)


def sentence(act: Act, words: ServiceWords) -> str:
    """That of one act: ``How about this: Name of the restaurant is Opa.``"""
    told = " ".join(references(act, words)[0].split())
    if act.act == "REQUEST" and act.values:
        told = f"{told}: {' or '.join(act.values)}"
    lead = LEADS.get(act.act, f"{_name(act)}:") if act.states and not is_marker(act.act, act.slot) else ""
    return f"{lead} {told}{'' if told[-1:] in '.?!' else '.'}".lstrip()


def _name(act: Act) -> str:
    return act.act.replace("_", " ").capitalize()
