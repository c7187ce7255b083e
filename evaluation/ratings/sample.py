"""Samples turns or acts for human judgement: those that SGSAcc finds faithful, unfaithful, or not valid.

Chen, Lin and Byrne (2023), section 2.2, use 200 + 200 validated pairs of utterance and dialogue action, and 25 others.
The verdicts come from ``rows.parquet`` of ``parapet evaluate --task generation``, the acts and the preceding turns from
the corpus.
"""

from collections.abc import Mapping, Sequence

import msgspec

from parapet.evaluation import results, sets, task
from parapet.evaluation.generation.corpus import Act, ServiceWords, SystemTurn, act_name, in_sentence
from parapet.evaluation.generation.corpus import listed as listed_values
from parapet.evaluation.generation.corpus import read as read_corpus
from parapet.schemas.errors import InputError
from parapet.schemas.layout import as_path, parse_json
from parapet.schemas.limits import read_whole
from parapet.transforms.core.seeding import stable_digest
from parapet.transforms.crowd.hits.page import Place, PlainAct, RatedItem, Stratum

_TEXTS = ("set", "dialogue_id", "turn", "kind", "act", "slot", "values", "outcome", "utterance")
_COLUMNS = (*_TEXTS, "sgsacc_all", "sgsacc_acts_all")
STRATA: tuple[Stratum, ...] = ("faithful", "unfaithful", "invalid")
# The outcome of a turn or an act to its stratum; others are not valid.
_VALID: Mapping[str, Stratum] = {"faithful": "faithful", "unfaithful": "unfaithful"}

# What a reply must do, by act. Other acts are shown by name.
_DOES = {
    "INFORM": "Tell",
    "REQUEST": "Ask for",
    "CONFIRM": "Ask whether this is right",
    "OFFER": "Offer",
    "SELECT": "Choose",
    "INFORM_COUNT": "Tell the number of results",
    "OFFER_INTENT": "Offer to",
    "NOTIFY_SUCCESS": "Say that it has worked",
    "NOTIFY_FAILURE": "Say that it has not worked",
    "REQ_MORE": "Ask if anything else is needed",
    "GOODBYE": "Say goodbye",
}
_SPOKEN = {"true": "yes", "false": "no", "dontcare": "any"}


class Verdict(msgspec.Struct, frozen=True):
    """The metric's verdict on a turn or on one of its acts.

    Attributes:
      stratum: the stratum of the sample for which the turn or act may be drawn.
      faithful: whether the utterance is faithful to the act, or to all acts, valid or not.
      acts: (act, slot, values) of each act of the turn, as in ``rows.parquet``.
      act: the position of the act, or None for all acts.
    """

    utterance: str
    stratum: Stratum
    faithful: bool
    acts: list[tuple[str, str, str]]
    act: int | None = None


class Scores(msgspec.Struct, frozen=True):
    """The scores of a system: the split, and the verdict on each turn with acts, and on each act."""

    split: str
    turns: dict[Place, Verdict]
    acts: dict[Place, Verdict]


def read_scores(folder: str) -> Scores:
    """Reads an output of ``parapet evaluate --task generation``; if it has several sets, the original.

    Raises:
      InputError: the folder is not such an output, or was scored without validation.
    """
    run = as_path(folder) / "run.json"
    header = parse_json(read_whole(run), run) if run.is_file() else {}
    if not isinstance(header, dict) or header.get("pipeline") != "evaluate_generation":
        raise InputError("not a complete output of 'parapet evaluate --task generation'", folder, "--scores")
    options = header["options"]
    if not options.get("validation", True):
        raise InputError("was scored with --no_validation, but the sample requires validated turns", folder, "--scores")
    rows = results.read_parquet(as_path(folder) / task.ROWS, _COLUMNS).to_pylist()
    names = {row["set"] for row in rows}
    turns: dict[Place, Verdict] = {}
    acts: dict[Place, Verdict] = {}
    for row in rows:
        place = row["dialogue_id"], row["turn"]
        if row["set"] != sets.ORIGINAL and sets.ORIGINAL in names:
            continue
        stratum = _VALID.get(row["outcome"], "invalid")
        if row["kind"] == "act":  # the acts of a turn follow its own row
            turn = turns[place]
            n = len(turn.acts)
            acts[*place, n] = Verdict(turn.utterance, stratum, row["sgsacc_acts_all"] == 1, turn.acts, n)
            turn.acts.append((row["act"], row["slot"] or "", row["values"] or ""))
        elif row["outcome"] is not None:  # a turn with acts
            turns[place] = Verdict(row["utterance"], stratum, row["sgsacc_all"] == 1, [])
    return Scores(options.get("split") or "", turns, acts)


def draw_sample(
    root: str, scores: Scores, sizes: Mapping[str, int], seed: int, unit: str = "turn"
) -> tuple[list[RatedItem], dict[str, dict[str, int]]]:
    """Draws turns or acts of each stratum at random, without replacement.

    One is drawn by a hash of seed, dialogue, turn and act, so that a larger sample contains the smaller one.

    Args:
      root: the scored corpus.
      scores: the scores of the system.
      sizes: the number of each stratum; if there are fewer, all are drawn.
      seed: the seed of the draw.
      unit: what an utterance is judged by: all acts of its ``turn``, or one ``act``.

    Returns:
      The utterances, and by stratum the numbers of ``drawn`` and of all ``turns`` or ``acts``.

    Raises:
      InputError: the corpus is not the scored one, or there is nothing to draw.
    """
    corpus = read_corpus(root, scores.split)
    turns: dict[Place, SystemTurn] = {turn.place: turn for turn in corpus.turns}
    for place, verdict in scores.turns.items():
        _check_same(place, turns.get(place), verdict, root)
    verdicts = scores.acts if unit == "act" else scores.turns
    items: list[RatedItem] = []
    drawn: dict[str, dict[str, int]] = {}
    for stratum in STRATA:
        places = [place for place, verdict in verdicts.items() if verdict.stratum == stratum]
        places.sort(key=lambda place: stable_digest(str(seed), "rating", *map(str, place)))
        taken = places[: sizes[stratum]]
        items += (_item(turns[place[:2]], verdicts[place], corpus.words[sets.ORIGINAL]) for place in taken)
        drawn[stratum] = {"drawn": len(taken), f"{unit}s": len(places)}
    if not items:
        raise InputError("no turn can be drawn from these scores", "--scores")
    return items, drawn


def _check_same(place: Place, turn: SystemTurn | None, verdict: Verdict, root: str) -> None:
    acts = None if turn is None else [(act.act, act.slot, "; ".join(act.values)) for act in turn.acts]
    if acts != verdict.acts:
        reason = f"is not the corpus that was scored: {sets.named(('', *place))} is missing or has other dialogue acts"
        raise InputError(reason, root, "--dialogues")


def _item(turn: SystemTurn, verdict: Verdict, words: Mapping[str, ServiceWords]) -> RatedItem:
    acts = turn.acts if verdict.act is None else [turn.acts[verdict.act]]
    return RatedItem(
        turn.dialogue_id,
        turn.turn,
        verdict.stratum,
        verdict.faithful,
        "+".join(dict.fromkeys(act.service for act in acts)),
        tuple(plain_act(act, words[act.service]) for act in acts),
        turn.previous,
        verdict.utterance,
        verdict.act,
    )


def plain_act(act: Act, words: ServiceWords) -> PlainAct:
    """Describes an act for workers, with the schema's descriptions of slots and intents."""
    does = _DOES.get(act.act, act_name(act))
    if act.kind == "marker" and act.slot == "intent" and act.values:
        return PlainAct(does, _listed([in_sentence(words.intent(value).description) for value in act.values]))
    if act.kind == "marker" and act.slot == "count":
        return PlainAct(does, "", _listed(act.values))
    about = in_sentence(words.slot(act.slot).description) if act.slot else ""
    if not about and act.intent and act.act.startswith("NOTIFY"):
        return PlainAct(does, in_sentence(words.intent(act.intent).description))
    return PlainAct(does, about, _listed([_SPOKEN.get(value.lower(), value) for value in act.values]))


def _listed(values: Sequence[str]) -> str:
    return listed_values(values) if values else ""
