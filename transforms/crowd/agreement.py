"""Two reviewers' decisions: what they agree on, how far beyond chance, and what a third has to settle."""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from parapet.schemas.decisions import COLUMNS, Decision, csv_bytes
from parapet.transforms.text import clean

ADJUDICATE_COLUMNS = (
    *COLUMNS,
    *(f"{who}_{what}" for who in ("first", "second") for what in ("decision", "text", "reason", "reviewer")),
)


class Agreement(msgspec.Struct):
    """How far two reviewers agree.

    Attributes:
      items: answers that both judged.
      disagreements: how many of them need adjudication; two fixes with different texts are one.
      cohen_kappa: over the words accept, reject and fix on the answers that both judged, -1 to 1; the text of a fix
        is not part of it. None where it is undefined.
      krippendorff_alpha: the same words, nominal, at most 1. None where it is undefined.
      undefined: why the two are None, else ``""``.
    """

    items: int
    disagreements: int
    cohen_kappa: float | None = None
    krippendorff_alpha: float | None = None
    undefined: str = ""


class Disagreement(msgspec.Struct):
    """One answer on which the two differ."""

    response_id: str
    first: Decision
    second: Decision


class Merged(msgspec.Struct):
    """Two reviewers' sheets in one; every list is in the order of the response ids.

    Attributes:
      agreed: same decision from both; for a fix, the same text.
      single: judged by one of them only; taken unchanged.
      adjudicate: judged differently; nothing is decided about these.
    """

    agreed: list[Decision]
    single: list[Decision]
    adjudicate: list[Disagreement]
    agreement: Agreement

    @property
    def decisions(self) -> list[Decision]:
        """What can be applied: agreed and single."""
        return sorted(self.agreed + self.single, key=lambda decision: decision.response_id)


def merge_reviewers(first: Iterable[Decision], second: Iterable[Decision]) -> Merged:
    """Merges the decisions of two reviewers. Where one of them decided an answer twice, the first decision counts."""
    a, b = _by_id(first), _by_id(second)
    both = sorted(a.keys() & b.keys())
    agreed = [_joined(a[key], b[key]) for key in both if _same(a[key], b[key])]
    adjudicate = [Disagreement(key, a[key], b[key]) for key in both if not _same(a[key], b[key])]
    single = [(a | b)[key] for key in sorted(a.keys() ^ b.keys())]
    agreement = _agreement([(key, a[key].decision, b[key].decision) for key in both])
    agreement.disagreements = len(adjudicate)
    return Merged(agreed, single, adjudicate, agreement)


def adjudicate_csv(disagreements: Iterable[Disagreement]) -> bytes:
    """The sheet of a third reviewer: both decisions beside empty columns. Filled in, it is a decisions file."""
    return csv_bytes(ADJUDICATE_COLUMNS, (_sheet_row(disagreement) for disagreement in disagreements))


def _by_id(decisions: Iterable[Decision]) -> dict[str, Decision]:
    by_id: dict[str, Decision] = {}
    for decision in decisions:
        by_id.setdefault(decision.response_id, decision)
    return by_id


def _same(one: Decision, two: Decision) -> bool:
    if one.decision != two.decision:
        return False
    return one.decision != "fix" or clean(one.text) == clean(two.text)


def _joined(one: Decision, two: Decision) -> Decision:
    """The decision of both, with what either of them gave as reason."""

    def both(field: str, between: str) -> str:
        return between.join(dict.fromkeys(value for d in (one, two) if (value := getattr(d, field))))

    text = one.text if one.decision == "fix" else ""
    return Decision(
        one.response_id, one.decision, text, both("reason", "; "), both("reviewer", ", "), both("source", ", ")
    )


def _agreement(items: list[tuple[str, str, str]]) -> Agreement:
    if not items:
        return Agreement(0, 0, undefined="no answer was judged by both")
    labels = {label for _, *pair in items for label in pair}
    if len(labels) == 1:
        # Agreement cannot be distinguished from chance here; some tools print 1, others divide by zero.
        return Agreement(len(items), 0, undefined=f"both said {labels.pop()!r} throughout, so chance agrees as often")
    # nltk takes a third of a second to import, and most runs have one reviewer.
    from nltk.metrics.agreement import AnnotationTask

    task = AnnotationTask(
        [("first", key, one) for key, one, _ in items] + [("second", key, two) for key, _, two in items]
    )
    return Agreement(len(items), 0, float(task.kappa()), float(task.alpha()))


def _sheet_row(disagreement: Disagreement) -> list[str]:
    row = [disagreement.response_id, "", "", "", ""]
    for decision in (disagreement.first, disagreement.second):
        row += [decision.decision, decision.text, decision.reason, decision.reviewer]
    return row
