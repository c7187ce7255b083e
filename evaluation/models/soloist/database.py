"""How many entities satisfy a belief state."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from parapet.evaluation.response.knowledge import Knowledge, satisfies


class Database:
    """Counts what :meth:`Knowledge.find` finds, without a walk through all entities for each new belief state.

    An entity satisfies constraints if it satisfies each. So the entities that satisfy one are kept as the bits of a
    number, and those of several are what these numbers have in common.

    Args:
      knowledge: the entities.
    """

    def __init__(self, knowledge: Knowledge) -> None:
        self.knowledge = knowledge
        self._columns: dict[tuple[str, str], dict[str | None, int]] = {}
        self._bits: dict[tuple[str, str, tuple[str, ...]], int] = {}

    def has(self, service: str) -> bool:
        """Whether there are entities of a service."""
        return bool(self.knowledge.entities.get(service))

    def matches(self, service: str, slot_values: Mapping[str, Sequence[str]]) -> int:
        """How many entities satisfy the slots of a state, whose values are as they were said."""
        found = (1 << len(self.knowledge.entities.get(service, ()))) - 1
        for slot, values in slot_values.items():
            found &= self._satisfying(service, slot, self.knowledge.meant(service, slot, values))
        return found.bit_count()

    def _satisfying(self, service: str, slot: str, values: tuple[str, ...]) -> int:
        key = service, slot, values
        if key not in self._bits:
            column, wanted = self._column(service, slot), {slot: values}
            these = (bits for have, bits in column.items() if satisfies({} if have is None else {slot: have}, wanted))
            self._bits[key] = sum(these)  # no entity has two values
        return self._bits[key]

    def _column(self, service: str, slot: str) -> dict[str | None, int]:
        """Each value that entities have for a slot, None for none, to the entities."""
        if (service, slot) not in self._columns:
            rows: dict[str | None, list[int]] = {}
            for number, entity in enumerate(self.knowledge.entities.get(service, ())):
                rows.setdefault(entity.get(slot), []).append(number)
            self._columns[service, slot] = {have: sum(1 << one for one in numbers) for have, numbers in rows.items()}
        return self._columns[service, slot]
