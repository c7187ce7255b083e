"""Apply a variation to a user turn, check it, and write it with its spans."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from typing import TYPE_CHECKING, Any

import msgspec

from parapet.transforms.perturbation.base import size_of
from parapet.transforms.perturbation.corpora import domain_of
from parapet.transforms.perturbation.edits import Range, edited, moved
from parapet.transforms.perturbation.user_turns import UserTurn
from parapet.transforms.perturbations.paraphrase import NOT_TRANSLATED
from parapet.transforms.perturbations.rewording import Made
from parapet.transforms.perturbations.typos import Operation
from parapet.transforms.reports.numbers import Metric, Numbers
from parapet.transforms.reports.text import counted
from parapet.transforms.running.counts import Counted, Counts

if TYPE_CHECKING:
    from parapet.transforms.perturbations.variations import LanguageVariation

BAD_SPAN, TORN_SPAN = "bad_span", "torn_span"  # reasons for which a turn becomes a dead letter


class Variation(msgspec.Struct, frozen=True):
    """The version of a turn in a set.

    Attributes:
      utterance: its text.
      places: the positions of its spans, in order.
      operations: the applied operations, in order.
      reason: why it is unchanged: an id, and details after a colon.
      source: the source of the words; empty if it is unchanged.
      refused: candidates that were refused, as ``NAME: REASON``.
    """

    utterance: str
    places: Sequence[Range]
    operations: Sequence[Operation] = ()
    reason: str = ""
    source: str = ""
    refused: Sequence[str] = ()


def varied(user_turn: UserTurn, made: Made, perturb_values: bool = False) -> Variation:
    """Apply the operations to a turn, or keep it with a reason if a value would be damaged.

    Args:
      user_turn: the turn; its spans must be inside the utterance.
      made: the operations to apply.
      perturb_values: whether operations may change the text of spans.
    """
    before = user_turn.utterance
    reason = made.reason
    if made.operations:
        utterance = edited(before, made.operations)
        places = [
            moved(span.start, span.end, made.operations) if made.places is None else made.places[i]
            for i, span in enumerate(user_turn.spans)
        ]
        kept = [place for place in places if place is not None]
        is_kept = made.places is not None or not perturb_values
        torn = next(
            (
                span.slot
                for span, place in zip(user_turn.spans, places, strict=True)
                if place is None or (is_kept and utterance[slice(*place)] != before[span.start : span.end])
            ),
            None,
        )
        if torn is None and utterance != before:
            return Variation(utterance, kept, made.operations, source=made.source, refused=made.refused)
        reason = "unchanged" if torn is None else f"{TORN_SPAN}: {torn}: the span cannot be repaired"
    return Variation(before, user_turn.ranges, reason=reason, refused=made.refused)


def write_into(turn: dict[str, Any], variation: Variation) -> dict[str, Any]:
    """Write a variation to a copy of a turn.

    Args:
      turn: the turn in the format of its file.
      variation: the variation of this turn.
    """
    places = iter(variation.places)
    frames = []
    for frame in turn["frames"]:
        if frame.get("slots"):
            frame = {**frame, "slots": [_moved_span(span, places) for span in frame["slots"]]}
        frames.append(frame)
    return {**turn, "utterance": variation.utterance, "frames": frames}


def _moved_span(span: dict[str, Any], places: Iterator[Range]) -> dict[str, Any]:
    if not isinstance(span.get("start"), int) or not isinstance(span.get("exclusive_end"), int):
        return span
    start, end = next(places)
    return {**span, "start": start, "exclusive_end": end}


def row_of(user_turn: UserTurn, variation: Variation, level: int) -> dict[str, Any]:
    """Return a row of ``parapet.schemas.perturbed_turns``."""
    return {
        "dialogue_id": user_turn.dialogue_id,
        "turn": user_turn.position,
        "status": "varied" if variation.operations else "unchanged",
        "reason": variation.reason,
        "original": user_turn.utterance,
        "utterance": variation.utterance,
        "source": variation.source,
        "operations": [
            {
                "kind": operation.kind,
                "start": operation.start,
                "end": operation.end,
                "before": operation.before,
                "after": operation.text,
            }
            for operation in variation.operations
        ],
        "env": level,
        "slots": [
            {
                "service": span.service,
                "slot": span.slot,
                "value": user_turn.utterance[span.start : span.end],
                "start": span.start,
                "exclusive_end": span.end,
                "new_value": variation.utterance[start:end],
                "new_start": start,
                "new_exclusive_end": end,
            }
            for span, (start, end) in zip(user_turn.spans, variation.places, strict=True)
        ],
    }


_SUMS = ("turns", "varied")
OPERATIONS = {
    "neighbour": "neighbouring key",
    "full_form": "full form",
    "lost_space": "lost space",
    "by_acts": "reduced to its dialogue acts",
    "dropped_sentence": "sentence left out",
    "full_stop": "full stop",
    "back_translated": "back-translated",
}
_SHARE = Metric("share", "share", percent=True)
TABLES = (
    Numbers(
        "Sets",
        "kinds/*",
        ("set",),
        (
            Metric("turns", "user turns"),
            Metric("varied", "varied"),
            Metric("changed", "user turns changed", percent=True, shown_first=True),
        ),
    ),
    Numbers("User turns changed, by domain", "kinds/*/domains/*", ("set", "domain"),
            (Metric("changed", "changed", percent=True), Metric("turns", "user turns")), chart="dots", in_card=False),
    Numbers(
        "Mixes with the originals",
        "kinds/*/envs/*/splits/*",
        ("kind", "set", "split"),
        (
            Metric("rate", "rate", percent=True, digits=0),
            Metric("user_turns", "user turns"),
            Metric("can_be_varied", "can be varied", meaning="User turns for which the kind has a rule that applies "
                   "safely, or words that keep every value. All other turns are unchanged."),
            Metric("requested", "requested"),
            Metric("replaced", "varied"),
            Metric("short", "short", meaning="How many turns a mix lacks to reach its rate, because no other turn "
                   "can be varied. Each mix contains the turns of the next smaller one."),
            _SHARE._replace(digits=2),
        ),
    ),
    Numbers("Operations", "kinds/*/operations/*", ("set", "operation"),
            (Metric("count", "count"), _SHARE), OPERATIONS),
    Numbers("Sources", "kinds/*/sources/*", ("set", "source"), (Metric("", "user turns"),)),
    Numbers("Candidates refused", "kinds/*/refused/*", ("set", "candidate"), (Metric("", "user turns"),)),
    Numbers("Rewritten turns", "rewritten", (), (
        Metric("lines", "lines"), Metric("bad", "that could not be used"), Metric("with_a_turn", "with a user turn"),
        Metric("kind_not_asked", "of kinds that were not requested"), Metric("no_user_turn", "without a user turn"))),
    Numbers("Turns that are unchanged", "kinds/*/reasons/*", ("set", "reason"), (Metric("", "user turns"),)),
)  # fmt: skip


def is_reported(reason: str, first: bool) -> bool:
    """Whether an unchanged turn becomes a dead letter; wrong spans are reported only for the first kind."""
    return reason.startswith((TORN_SPAN, NOT_TRANSLATED)) or (first and reason.startswith(BAD_SPAN))


def counts_of(turns: Sequence[UserTurn], variations: Sequence[Variation]) -> dict[Counted, int]:
    """Count the turns of a dialogue in the set of one kind."""
    sums = dict.fromkeys((*_SUMS, "unchanged", "bad_spans", "bad_turns"), 0)
    values: Counter[Counted] = Counter()
    for turn, variation in zip(turns, variations, strict=True):
        sums["turns"] += 1
        sums["bad_spans"] += bool(turn.wrong)
        domains = domains_of(turn.services)
        values.update([("domain_turns", domain) for domain in domains])
        values.update([("refused", candidate) for candidate in variation.refused])
        if not variation.operations:
            sums["unchanged"] += 1
            sums["bad_turns"] += is_reported(variation.reason, first=False)
            values["reason", variation.reason.partition(":")[0]] += 1
            continue
        sums["varied"] += 1
        values["source", variation.source] += 1
        values.update([("domain_varied", domain) for domain in domains])
        values.update([("operation", operation.kind) for operation in variation.operations])
    values.update(sums)
    return values


@cache
def domains_of(services: tuple[str, ...]) -> frozenset[str]:
    """Return the domains of a turn's services."""
    return frozenset(map(domain_of, services))


def statistics(perturbation: LanguageVariation, counts: Counts) -> dict[str, Any]:
    """Return the content of ``statistics.json``."""
    kinds = [part.name for part in perturbation.parts]
    return {
        "rewritten": _of_lines(kinds, counts),
        "kinds": {kind: _of_kind(perturbation, kind, counts) for kind in kinds},
    }


def _of_kind(perturbation: LanguageVariation, kind: str, counts: Counts) -> dict[str, Any]:
    numbers: dict[str, Any] = {name: counts.sum(name, set=kind) for name in _SUMS}
    numbers["changed"] = _share(numbers["varied"], numbers["turns"])
    operations = counts.by("value", "operation", set=kind)
    total = sum(operations.values())
    numbers["operations"] = {name: {"count": n, "share": _share(n, total)} for name, n in operations.items()}
    varied = counts.by("value", "domain_varied", set=kind)
    numbers["domains"] = {
        name: {"turns": n, "varied": varied.get(name, 0), "changed": _share(varied.get(name, 0), n)}
        for name, n in counts.by("value", "domain_turns", set=kind).items()
    }
    numbers["reasons"] = counts.by("value", "reason", set=kind)
    numbers["sources"] = counts.by("value", "source", set=kind)
    numbers["refused"] = counts.by("value", "refused", set=kind)
    envs = zip(perturbation.env_names(kind), perturbation.envs, strict=True)
    numbers["envs"] = {name: _of_env(name, kind, rate, counts) for name, rate in envs}
    return numbers


def _of_env(name: str, kind: str, rate: str, counts: Counts) -> dict[str, Any]:
    splits = {}
    replaced = counts.by("split", "replaced", set=name)
    varied = counts.by("split", "varied", set=kind)
    for split, turns in counts.by("split", "turns", set=kind).items():
        n, requested = replaced.get(split, 0), size_of(rate, turns)
        splits[split or "-"] = {
            "user_turns": turns,
            "can_be_varied": varied.get(split, 0),
            "requested": requested,
            "replaced": n,
            "short": requested - n,
            "share": _share(n, turns),
        }
    return {"rate": float(rate), "splits": splits}


def _of_lines(kinds: Sequence[str], counts: Counts) -> dict[str, Any] | None:
    """Count the lines of rewritten turns by outcome; None if there are none."""
    lines = counts.by("set", "lines")
    if not lines:
        return None
    bad = counts.sum("bad_lines")
    return {
        "lines": sum(lines.values()) + bad,
        "bad": bad,
        "kind_not_asked": sum(n for kind, n in lines.items() if kind not in kinds),
        "no_user_turn": counts.sum("lines_without_turn"),
        "with_a_turn": counts.by("set", "lines_with_turn"),
    }


def _share(n: int, total: int) -> float | None:
    return n / total if total else None


def summary(statistics: Mapping[str, Any]) -> Iterator[str]:
    """Describe how much of each set is varied, and how much its rate is missed by."""
    for kind, numbers in statistics["kinds"].items():
        changed = "" if numbers["changed"] is None else f" ({numbers['changed']:.1%})"
        yield f"{kind}: {numbers['varied']:,} of {counted(numbers['turns'], 'user turn')} varied{changed}"
        for name, env in numbers["envs"].items():
            sums = Counter[str]()
            for of_split in env["splits"].values():
                sums.update({count: of_split[count] for count in ("user_turns", "replaced", "short")})
            turns, short = sums["user_turns"], sums["short"]
            share = f" ({sums['replaced'] / turns:.1%})" if turns else ""
            missing = (
                (
                    f", {short:,} fewer than the rate of {100 * env['rate']:.4g}% requires, because no other turn "
                    "can be varied"
                )
                if short
                else ""
            )
            yield f"{name}: {sums['replaced']:,} of {counted(turns, 'user turn')} varied{share}{missing}"
