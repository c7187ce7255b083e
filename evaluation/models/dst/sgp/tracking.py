"""The tracker: follows each dialogue from its first user turn on; and its folder."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import torch
from torch import Tensor

from parapet.evaluation.dst.frames import State
from parapet.evaluation.dst.model import Example
from parapet.evaluation.models import pretrained, saving
from parapet.evaluation.models.devices import check_installed, device_of, enough_memory
from parapet.evaluation.models.dst.sgp.net import Modules, Questions, Texts, best_spans
from parapet.evaluation.models.dst.sgp.rules import (
    CONFIDENT,
    KINDS,
    NULL,
    START,
    Decision,
    Memory,
    Source,
    Turn,
    copy_of,
    cross_of,
    follow,
    intent_name,
    intents_of,
    longest_of,
    next_state,
    role_of,
    slot_of,
    value_of,
)
from parapet.evaluation.models.saving import MODEL, WEIGHTS
from parapet.schemas.errors import InputError
from parapet.schemas.service import Service, Slot
from parapet.transforms import files
from parapet.transforms.checkpoints import Checkpoint, inspect


def ask_intents(questions: Questions, memory: Memory, turn: Turn, service: Service) -> int:
    """Asks for the active intent; gives the number of the question."""
    same = memory.goes_on(turn.services)
    previous = 0
    if service.service_name in memory.states:
        active = memory.states[service.service_name].active_intent
        names = [intent.name for intent in service.intents]
        previous = 1 + (names.index(active) if active in names else len(names))
    return questions.ask(turn.exchange, (id(service), same), lambda: intents_of(service, same), previous)


def ask_combine(questions: Questions, memory: Memory, turn: Turn, service: Service, slot: Slot) -> int:
    """Asks what the user says of a slot."""
    feature = memory.combine_feature(service, slot)
    return questions.ask(turn.exchange, (id(service), slot.name), lambda: slot_of(slot), feature)


def ask_copy(questions: Questions, turn: Turn, service: Service, slot: Slot, intent: str) -> int:
    """Asks whether the user accepts the value that the system gave a slot."""
    key, feature = (id(service), slot.name), role_of(slot.name, intent, service)
    return questions.ask(turn.exchange, key, lambda: copy_of(service, slot), feature)


def ask_cross(
    questions: Questions, memory: Memory, turn: Turn, service: Service, slot: Slot, intent: str, source: Source
) -> int:
    """Asks whether a slot takes the value of another service's slot."""
    key = (id(service), slot.name, id(source.slot))
    feature = memory.cross_feature(service, slot, intent, source)
    return questions.ask(turn.exchange, key, lambda: cross_of(slot, source.slot), feature)


class SgpTracker:
    """A model ready to predict. Its prediction depends on the history and the frames of the example alone.

    Args:
      tokenizer: of the checkpoint.
      modules: on their device.
      length: tokens of an input at most.
      batch: inputs at a time.
    """

    def __init__(self, tokenizer: Any, modules: Modules, length: int, batch: int) -> None:
        self.tokenizer, self.modules = tokenizer, modules
        self.length, self.batch = length, batch

    def predict(self, batch: Sequence[Example]) -> list[State]:
        """The state of each example."""
        return self.tracked(batch)[0]

    def tracked(self, batch: Sequence[Example]) -> tuple[list[State], int]:
        """The state of each example; and how many questions were too long, so that the dialogue was cut off."""
        with torch.inference_mode(), enough_memory(f"lower --batch_size, which is {self.batch}"):
            return _Prediction(self, batch).states()


class _Prediction:
    """A prediction: "combine" sees text and the system's actions alone, so that all of its questions are asked at once.

    The others depend on the state after the turn before: the n-th user turns of all dialogues are asked together.
    """

    def __init__(self, tracker: SgpTracker, examples: Sequence[Example]) -> None:
        self.tracker, self.examples = tracker, examples
        self.dialogues, self.numbers = longest_of(examples)
        self.texts = Texts(tracker.tokenizer, ["", *(text for one in self.dialogues for _, text in one.history)])
        self.device = next(tracker.modules.parameters()).device
        self.cut = 0
        self._combine = self._questions("combine")
        self._said: list[dict[tuple[int, str], list[int]]] = [self._ask_combine(one) for one in self.dialogues]
        self._decisions = self._decide(self._combine)

    def states(self) -> tuple[list[State], int]:
        """The state of each example; and how many questions were cut off."""
        states: list[dict[tuple[int, str], State]] = [{} for _ in self.dialogues]
        memories = [Memory() for _ in self.dialogues]
        following = [follow(one, memory) for one, memory in zip(self.dialogues, memories, strict=True)]
        while turns := {i: turn for i, one in enumerate(following) if (turn := next(one, None))}:
            found = self._step(turns, memories)
            for i, turn in turns.items():
                memories[i].conclude(found[i], turn.services)
                states[i].update({(turn.position, name): state for name, state in found[i].items()})
        result = [
            states[i][one.turn, one.service.service_name] for one, i in zip(self.examples, self.numbers, strict=True)
        ]
        return result, self.cut

    def _questions(self, kind: Any) -> Questions:
        return Questions(self.texts, kind, self.tracker.length)

    def _ask_combine(self, dialogue: Example) -> dict[tuple[int, str], list[int]]:
        asked, memory = {}, Memory()
        for turn in follow(dialogue, memory):
            for service in turn.services:
                numbers = [ask_combine(self._combine, memory, turn, service, slot) for slot in service.slots]
                asked[turn.position, service.service_name] = numbers
            memory.conclude({service.service_name: START for service in turn.services}, turn.services)
        return asked

    def _decide(self, questions: Questions) -> list[Decision]:
        if not len(questions):
            return []

        def decide(numbers: Sequence[int]) -> list[tuple[Decision, float]]:
            return decided(self.tracker.modules, questions, numbers, self.device)

        self.cut += questions.pairs.cut
        return questions.pairs.decisions(self.tracker.batch, decide)

    def _step(self, turns: Mapping[int, Turn], memories: Sequence[Memory]) -> dict[int, dict[str, State]]:
        """The states after a user turn of each dialogue, by service."""
        frames = [(i, turn, service) for i, turn in turns.items() for service in turn.services]
        intents, copies, crosses = (self._questions(kind) for kind in ("intents", "copy_slot", "cross_copy"))
        for i, turn, service in frames:
            ask_intents(intents, memories[i], turn, service)
        active = [
            intent_name(service, decision.option)
            for (_, _, service), decision in zip(frames, self._decide(intents), strict=True)
        ]
        said = [self._values(self._said[i], turn, service) for i, turn, service in frames]
        copied: list[list[tuple[str, str]]] = []  # (slot, value) of each question of each frame
        crossed: list[list[tuple[str, str]]] = []
        for (i, turn, service), intent, (values, _) in zip(frames, active, said, strict=True):
            memory = memories[i]
            filled = {*memory.state(service).slot_values, *values}
            copied.append([])
            for slot in memory.copy_questions(service, filled):
                ask_copy(copies, turn, service, slot, intent)
                given = memory.given(service, slot)
                copied[-1].append((slot.name, given.value if given else ""))
            crossed.append([])
            for slot, source in memory.cross_questions(service, filled):
                ask_cross(crosses, memory, turn, service, slot, intent, source)
                crossed[-1].append((slot.name, source.values[0]))
        of_copies, of_crosses = iter(self._decide(copies)), iter(self._decide(crosses))
        states: dict[int, dict[str, State]] = {i: {} for i in turns}
        for number, ((i, _, service), intent, (values, requested)) in enumerate(zip(frames, active, said, strict=True)):
            others = likeliest(crossed[number], of_crosses), likeliest(copied[number], of_copies)
            state = next_state(memories[i].state(service), service, intent, requested, values, *others)
            states[i][service.service_name] = state
        return states

    def _values(
        self, asked: Mapping[tuple[int, str], Sequence[int]], turn: Turn, service: Service
    ) -> tuple[dict[str, str], list[str]]:
        """What the user says: values of slots; and the requested slots."""
        values, requested = {}, []
        for slot, number in zip(service.slots, asked[turn.position, service.service_name], strict=True):
            decision = self._decisions[number]
            text = self.texts.text_of(turn.exchange[1], *decision.span) if decision.span else ""
            if value := value_of(slot, decision, text):
                values[slot.name] = value
            if decision.yes:
                requested.append(slot.name)
        return values, requested


def likeliest(asked: Sequence[tuple[str, str]], decisions: Iterator[Decision]) -> dict[str, str]:
    """Of each slot the value that is most likely to be copied, of those that are at all.

    Args:
      asked: (slot, value) of each question.
      decisions: as many are taken.
    """
    best: dict[str, tuple[float, str]] = {}
    for (slot, value), decision in zip(asked, decisions, strict=False):
        if decision.yes and (slot not in best or decision.score > best[slot][0]):
            best[slot] = decision.score, value
    return {slot: value for slot, (_, value) in best.items()}


def decided(
    modules: Modules, questions: Questions, numbers: Sequence[int], device: torch.device
) -> list[tuple[Decision, float]]:
    """What a module says of some questions, and by how much the closest choice was won.

    Args:
      modules: on the device.
      questions: to the module.
      numbers: of the questions.
      device: where it is computed.
    """
    kind, ids = questions.kind, torch.tensor(numbers)
    batch = questions.batch(ids).to(device)
    scores = modules(kind, batch)
    if kind == "intents":
        best = scores.options.topk(min(2, scores.options.shape[1]))
        leads = best.values[:, 0] - best.values[:, -1]
        chosen = [Decision(option) for option in best.indices[:, 0].tolist()]
        return list(zip(chosen, leads.tolist(), strict=True))
    margins = scores.yes - _logit(CONFIDENT["requested" if kind == "combine" else kind])
    yes, score = (margins > 0).tolist(), scores.yes.tolist()
    if kind != "combine":
        # Of several sources the likeliest is taken: their scores must not depend on the batch.
        leads = margins.abs() if kind == "copy_slot" else margins.abs().masked_fill(margins > 0, 0.0)
        chosen = [Decision(NULL, None, flag, number) for flag, number in zip(yes, score, strict=True)]
        return list(zip(chosen, leads.tolist(), strict=True))
    options, confidence = _confident(scores.options)
    begins, ends, sums, leads = best_spans(scores, batch)
    nothing = begins == batch.null
    certain = sums - CONFIDENT["span"]
    leads = torch.where(nothing, leads, torch.minimum(leads, certain))
    leads = torch.where(certain > 0, leads, -certain)  # where no span is likely, it does not matter which is the best
    leads = torch.minimum(torch.minimum(leads, confidence.abs()), margins.abs())
    spans = torch.stack([begins, ends], 1).cpu() - questions.first(ids)[:, None]
    found = (~nothing & (certain > 0)).tolist()
    chosen = [
        Decision(option, (span[0], span[1]) if there else None, flag, number)
        for option, span, there, flag, number in zip(options.tolist(), spans.tolist(), found, yes, score, strict=True)
    ]
    return list(zip(chosen, leads.tolist(), strict=True))


def _logit(share: float) -> float:
    return math.log(share / (1 - share))


def _confident(options: Tensor) -> tuple[Tensor, Tensor]:
    """The number of the best option, ``NULL`` where it is not likely enough; and by how much it is, in logits."""
    best, numbers = options.max(1)
    others = options.scatter(1, numbers[:, None], -math.inf).logsumexp(1)
    lead = best - others - _logit(CONFIDENT["option"])
    return torch.where(lead > 0, numbers, NULL), lead


NAME = "sgp_dst"
FORMAT = 2
ARCHITECTURES = pretrained.BY_MODEL[NAME]


class Card(saving.Card, frozen=True, kw_only=True):
    """What ``model.json`` says.

    Attributes:
      length: tokens of an input at most.
    """

    model: str = NAME
    format: int = FORMAT
    length: int


FOLDERS = tuple(f"{pretrained.FOLDER}/{kind}" for kind in KINDS)


def files_of(card: Card, tokenizer: Any, modules: Modules) -> dict[str, bytes]:
    """The files of a model's folder: path to content."""
    found = {MODEL: saving.card_bytes(card), WEIGHTS: saving.weights_bytes(modules.heads.state_dict())}
    for folder, kind in zip(FOLDERS, KINDS, strict=True):
        for path, data in pretrained.saved(tokenizer, modules.encoders[kind]).items():
            found[folder + path.removeprefix(pretrained.FOLDER)] = data
    return found


def check(folder: str) -> tuple[Card, list[Checkpoint]]:
    """Looks at a folder, without its weights. Raises InputError where no model of this kind is in it."""
    check_installed("transformers")
    card = saving.read_card(folder, NAME, Card, FORMAT)
    if card.length < 1:
        raise InputError("is damaged: its length must be 1 or more", files.join(folder, MODEL))
    return card, [inspect(files.join(folder, place), ARCHITECTURES) for place in FOLDERS]


def load(folder: str, device: str, batch: int) -> SgpTracker:
    """The model in a folder, ready to predict.

    Args:
      folder: as ``parapet train sgp_dst`` wrote it.
      device: ``auto``, ``cpu`` or ``cuda``.
      batch: inputs at a time.

    Raises:
      InputError: it is not there, of another kind, or damaged.
    """
    card, encoders = check(folder)
    loaded = [load_encoder(checkpoint) for checkpoint in encoders]
    modules = Modules([encoder for _, encoder in loaded])
    saving.load_weights(modules.heads, folder)
    return SgpTracker(loaded[0][0], modules.to(device_of(device)).eval(), card.length, batch)


def load_encoder(checkpoint: Checkpoint) -> tuple[Any, Any]:
    """The tokenizer and the encoder of a checkpoint. Raises InputError where it cannot be used."""
    tokenizer, encoder = pretrained.load(checkpoint, "AutoModel", new=("pooler.",))
    for name in ("cls_token_id", "sep_token_id", "pad_token_id"):
        if getattr(tokenizer, name) is None:
            raise checkpoint.refused(f"its tokenizer has no {name.removesuffix('_id')}")
    if not tokenizer.is_fast:
        raise checkpoint.refused("its tokenizer is slow: a fast one is needed, which maps tokens to characters")
    return tokenizer, encoder
