"""The metrics of generated utterances that need no judge: slot error rate and BLEU."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from parapet.evaluation.generation.references import Act


def missing_values(acts: Iterable[Act], utterance: str) -> list[tuple[str, str]]:
    """(slot, value) of what is to be said word by word and is not: values of free slots, whatever their case.

    An utterance that misses one is an error; the slot error rate is the share of errors among all utterances, those
    without any value among them. Values of categorical slots may be said in any words, so they do not count.
    """
    said = utterance.lower()
    return [
        (act.slot, value) for act in acts if act.kind == "free" for value in act.values if value.lower() not in said
    ]


def corpus_bleu(utterances: Sequence[str], references: Sequence[str]) -> tuple[float, str]:
    """BLEU of a corpus, 0 to 100, and sacrebleu's signature, which says how it was computed."""
    from sacrebleu.metrics.bleu import BLEU

    metric = BLEU()
    score = metric.corpus_score(list(utterances), [list(references)]).score
    return float(score), str(metric.get_signature())
