"""Checks on what a perturbation returns for a dialogue, and the application of a perturbation to one dialogue.

A plug-in is not trusted: a dialogue must keep its id, its turns and its services, refer to what the schema has, and
have its spans inside the utterances. The checks take about 200 microseconds for a dialogue of SGD.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from parapet.schemas.dialogue import Dialogue, problems_of, typed
from parapet.schemas.errors import InputError, UserCodeError, storable_row
from parapet.schemas.json_text import compact_json
from parapet.schemas.service import Service
from parapet.transforms.corpora import Corpus, Item
from parapet.transforms.perturbation.base import Perturbation, Perturbed
from parapet.transforms.perturbation.fence import PLUGIN, Fault, calling, is_plugin

Services = Mapping[str, Service]


class Guard:
    """Compares a dialogue with what a perturbation makes of it. It is made before the perturbation sees the dialogue.

    Args:
      perturbation: that gets the dialogue.
      item: the dialogue.
      services: the services of its split, by name; None where they are not known.
    """

    def __init__(self, perturbation: Perturbation, item: Item, services: Services | None) -> None:
        self.perturbation, self.raw, self.services = perturbation, item.raw, services
        self.original = item.dialogue or typed(item.raw)
        self.text = _text(item.raw)

    def check(self, dialogue: dict[str, Any]) -> None:
        """Raises Fault for the first problem of a perturbed dialogue."""
        for where, reason in self.problems(dialogue):
            raise Fault(f"{PLUGIN}: {reason} ({type(self.perturbation).__name__}.perturb)", "", where)

    def problems(self, dialogue: dict[str, Any]) -> Iterator[tuple[str, str]]:
        """(place, what is wrong) of a perturbed dialogue, besides what was wrong with the original."""
        if _text(self.raw) != self.text:
            yield "", "the dialogue is modified in place: build new dicts and lists"
        if dialogue.get("dialogue_id") != self.original.dialogue_id:
            yield "", f"dialogue_id has become {dialogue.get('dialogue_id')!r}"
        try:
            result = typed(dialogue)
        except InputError as error:
            yield error.where, error.reason
            return
        try:
            compact_json(dialogue)
        except (TypeError, ValueError, RecursionError) as error:
            yield "", f"it is not JSON: {error}"
        if self.perturbation.keeps_turns:
            yield from self._changed_turns(result)
        elif self.original.turns and not result.turns:
            yield "turns", "there are none left"
        for i, name in enumerate(result.services):
            if self.services is not None and name not in self.services and name not in self.original.services:
                yield f"services[{i}]", f"no schema for service {name!r}"
        if problems := [*problems_of(result, self.services)]:
            known = {part for problem in problems_of(self.original, self.services) for part in problem}
            yield from (problem for problem in problems if known.isdisjoint(problem))

    def _changed_turns(self, result: Dialogue) -> Iterator[tuple[str, str]]:
        before, after = self.original, result
        if before.services != after.services:
            yield "services", f"has become {after.services}, and was {before.services}"
        if len(before.turns) != len(after.turns):
            yield "", f"it has {len(after.turns)} turns, and had {len(before.turns)}"
            return
        for i, (old, new) in enumerate(zip(before.turns, after.turns, strict=True)):
            if old.speaker != new.speaker:
                yield f"turns[{i}]", "the speaker has changed"
            if [frame.service for frame in old.frames] != [frame.service for frame in new.frames]:
                yield f"turns[{i}].frames", "the services of the frames have changed"


def _text(raw: Any) -> str | None:
    """A dialogue as JSON; None where a perturbation has put something into it that JSON cannot hold."""
    try:
        return compact_json(raw)
    except (TypeError, ValueError, RecursionError):
        return None


def services_by_folder(corpus: Corpus) -> dict[str, Services]:
    """The services of each split of a corpus, by name."""
    return {folder: {service.service_name: service for service in of.services} for folder, of in corpus.folders.items()}


def guard_for(perturbation: Perturbation, item: Item, services: Services | None) -> Guard | None:
    """The guard of a dialogue; None for perturbations of Parapet's own, which the tests check."""
    return Guard(perturbation, item, services) if is_plugin(perturbation) else None


def apply(perturbation: Perturbation, item: Item, set_name: str, state: Any, services: Services | None) -> Item:
    """An item of a file as a set has it, with its rows; one that cannot be perturbed has the error.

    Args:
      perturbation: what is done.
      item: the dialogue.
      set_name: which set is made.
      state: of the dialogue, see :meth:`Perturbation.state_of`.
      services: see :class:`Guard`.

    Raises:
      UserCodeError: :meth:`Perturbation.perturb` returned something else than it should: an error of the class, not of
        the dialogue.
    """
    if item.error is not None:
        return item
    try:
        guard = guard_for(perturbation, item, services)
        with calling():
            returned = perturbation.perturb(item.raw, set_name, state)
        perturbed = checked(perturbation, returned)
        if guard is not None:
            guard.check(perturbed.dialogue)
    except UserCodeError:
        raise
    except InputError as error:
        return item._replace(error=error)
    rows = perturbed.rows if item.plain else [storable_row(row) for row in perturbed.rows]
    return item._replace(raw=perturbed.dialogue, rows=rows, dialogue=None)


def checked(perturbation: Perturbation, perturbed: Any) -> Perturbed:
    """What ``perturb`` returned, once it is clear that it is what it should be.

    Raises:
      UserCodeError: it is not.
    """
    name = f"{type(perturbation).__name__}.perturb"
    if not isinstance(perturbed, Perturbed):
        hint = "expected parapet.Perturbed(dialogue, rows)"
        raise UserCodeError(f"{name} returned {_kind_of(perturbed)}: {hint}")
    if not isinstance(perturbed.dialogue, dict):
        raise UserCodeError(f"{name}: the dialogue in its Perturbed is {_kind_of(perturbed.dialogue)}, expected a dict")
    if not isinstance(perturbed.rows, list | tuple):
        raise UserCodeError(
            f"{name}: the rows of its Perturbed are {_kind_of(perturbed.rows)}, expected a list of dicts"
        )
    columns = perturbation.row_schema.names if perturbed.rows else ()
    for row in perturbed.rows:
        if not isinstance(row, dict):
            raise UserCodeError(f"{name}: a row is {_kind_of(row)}, expected a dict")
        unknown = [str(column) for column in row if column not in columns]
        if unknown:
            there = ", ".join(columns)
            raise UserCodeError(f"{name}: a row has {unknown[0]!r}, which row_schema has not: it has {there}")
    return perturbed


def _kind_of(value: object) -> str:
    return "None" if value is None else f"a {type(value).__name__}"
