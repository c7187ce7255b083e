"""A made dialogue as the published files have it."""

from __future__ import annotations

from collections.abc import Iterator

from parapet.transforms.babi.reading import SILENCE, Exchange, Fact
from parapet.transforms.restaurants.simulating import Made
from parapet.transforms.restaurants.world import World, dialogue_facts


def lines_of(world: World, made: Made) -> Iterator[Fact | Exchange]:
    """Its lines; the facts of entities stand before what is said next."""
    for spoken in made.spoken:
        for entity in spoken.results:
            yield from dialogue_facts(world, entity)
        yield Exchange(spoken.user.line.utterance if spoken.user else SILENCE, spoken.bot.line.utterance)
