"""The records of ``hits``: settings in, pages and what publishing needs of them out."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

import msgspec

from parapet.schemas.service import TASKS
from parapet.transforms.hits.kept_values import KeptValue
from parapet.transforms.hits.terms import HitTask, Terms

AUTO, NONE = "auto", "none"  # values of --ambiguous and --cues

TURNS_OF_ITEM = 3  # the turn before, the acts, which are about as long as a turn, and the utterance


class Settings(msgspec.Struct, frozen=True):
    """What shapes the pages.

    Attributes:
      ambiguous: ``auto``, ``none`` or the file that ``listed`` was read from.
      listed: element ids from that file.
      cues: ``auto``, ``none`` or the file that ``written`` was read from.
      written: cues to the domain from that file, by service.
      sandbox: whether the forms go to MTurk's sandbox.
      only: the fields of a top-up, as (task id, form field); None for everything.
      tasks: which tasks the pages are of.
      turns: how many user turns are drawn; None for all. ``seed`` is of that draw.
      naturalness: whether judged utterances have the question of how natural they sound.
    """

    terms: Terms = Terms()
    ambiguous: str = AUTO
    listed: frozenset[str] = frozenset()
    sandbox: bool = False
    only: frozenset[tuple[str, str]] | None = None
    tasks: tuple[HitTask, ...] = TASKS
    turns: int | None = None
    seed: int = 0
    naturalness: bool = True
    cues: str = AUTO
    written: dict[str, str] = {}


class PlainAct(msgspec.Struct, frozen=True):
    """A dialogue act in words that a worker understands.

    Attributes:
      does: what the reply has to do: ``Ask for``.
      about: a slot or intent by its description, or nothing.
      value: the values to be said, or nothing.
    """

    does: str
    about: str = ""
    value: str = ""

    @property
    def text(self) -> str:
        """All of it as one line, as the page has it."""
        return ": ".join(filter(None, [self.does, " – ".join(filter(None, [self.about, self.value]))]))


CHECK: Literal["check"] = "check"
Stratum = Literal["faithful", "unfaithful", "invalid", "check"]
Place = tuple[str, str, int]  # of an utterance that is judged: its set, if it has one, dialogue and turn


class RatedItem(msgspec.Struct, frozen=True):
    """An utterance that workers judge. Its page shows the acts, the turn before and the utterance, and nothing else.

    Attributes:
      dialogue_id: the dialogue. ``turn`` is the position of the system's turn in it, from 0.
      stratum: ``faithful`` and ``unfaithful`` are the metric's verdicts on a valid turn, ``invalid`` is a turn that
        fails its validation, and ``check`` a turn beside the utterance of another one.
      faithful: the metric's verdict, whether the turn is valid or not. False for a check.
      acts: what the utterance has to say.
      previous: the turn before, or nothing.
      utterance: what the system said.
    """

    dialogue_id: str
    turn: int
    stratum: Stratum
    faithful: bool
    service_name: str
    acts: tuple[PlainAct, ...]
    previous: str
    utterance: str

    @property
    def place(self) -> Place:
        """What distinguishes it from others of its task."""
        return "", self.dialogue_id, self.turn

    @property
    def values(self) -> tuple[str, ...]:
        """What the acts say, but for a plain yes."""
        return tuple(act.value for act in self.acts if act.value != "yes")

    @property
    def turns(self) -> int:
        """Turns to read."""
        return TURNS_OF_ITEM

    def as_check(self, utterance: str) -> RatedItem:
        """The same beside an utterance that does not fit."""
        return msgspec.structs.replace(self, stratum=CHECK, faithful=False, utterance=utterance)


class VariedItem(msgspec.Struct, frozen=True):
    """A user turn of a perturbed set, which workers compare with the original. The page does not say which set it is.

    Attributes:
      dialogue_id: the dialogue. ``turn`` is the position of the user's turn in it, from 0.
      stratum: the name of the set; ``check`` for a turn beside another one's.
      before: the turns before it: (speaker, utterance).
      original: what the user said.
      values: words of it that say a value.
      utterance: the same as the set has it.
    """

    dialogue_id: str
    turn: int
    stratum: str
    service_name: str
    before: tuple[tuple[str, str], ...]
    original: str
    values: tuple[str, ...]
    utterance: str

    @property
    def place(self) -> Place:
        """What distinguishes it from others of its task."""
        return self.stratum, self.dialogue_id, self.turn

    @property
    def turns(self) -> int:
        """Turns to read: those before, and both versions."""
        return len(self.before) + 2

    def as_check(self, utterance: str) -> VariedItem:
        """The same beside an utterance that does not fit."""
        return msgspec.structs.replace(self, stratum=CHECK, utterance=utterance)


class PageRecord(msgspec.Struct, frozen=True, omit_defaults=True):
    """A line of ``manifest.jsonl``: one HIT, with everything that publishing it needs but the question's text.

    What schema tasks lack comes last, with defaults, and is left out of the lines of other tasks.

    Attributes:
      page: the HTML, below the output folder. ``question`` is the HTMLQuestion of it.
      fields: the form fields that the page asks for, in its order; ``element_ids`` the elements they are about.
      ambiguous: the ids of the elements that are shown with their description.
      bytes: of the question. ``sha256`` too.
      reward: dollars, as MTurk takes it.
      requester_annotation: the task id.
      cue: what the page says of the app as a whole.
      dialogue_id: the dialogue. ``turn`` is the position of the utterance in it, from 0, ``file`` the file it is in.
      utterance: the sentence to be rewritten, as the page shows it.
      values: what every answer must have letter for letter, as the page shows it; None where nothing is rewritten.
      items: what is rated, in the order of the page and of ``fields``, of which each has one or two.
      pairs: the same of turns that are compared with the original; each has one to three fields.
    """

    task_id: str
    service_name: str
    task: HitTask
    part: int
    parts: int
    page: str
    question: str
    fields: list[str]
    element_ids: list[str]
    ambiguous: list[str]
    bytes: int
    sha256: str
    title: str
    description: str
    keywords: str
    reward: str
    assignments: int
    requester_annotation: str
    assignment_duration_seconds: int
    auto_approval_delay_seconds: int
    lifetime_seconds: int
    estimated_seconds: int
    cue: str = ""
    dialogue_id: str = ""
    turn: int | None = None
    file: str = ""
    utterance: str = ""
    values: list[KeptValue] | None = None
    items: list[RatedItem] | None = None
    pairs: list[VariedItem] | None = None

    @property
    def judged(self) -> Sequence[RatedItem | VariedItem] | None:
        """The utterances that are judged, of either kind."""
        return self.items if self.pairs is None else self.pairs

    @property
    def turns(self) -> int:
        """Turns to read: of the dialogue, that of the utterance included; of what is judged, those of all items."""
        if self.judged is not None:
            return sum(item.turns for item in self.judged)
        return 0 if self.turn is None else self.turn + 1


class NotAsked(msgspec.Struct, frozen=True):
    """An element or turn that cannot be asked about, and why."""

    task_id: str
    element_id: str
    reason: str


class Page(msgspec.Struct, frozen=True):
    """A rendered page. ``body`` is the part between the requester template's ends."""

    record: PageRecord
    html: bytes
    question: bytes
    body: str


class Hits(msgspec.Struct, frozen=True):
    """All pages of a service, or of a dialogue file. ``position`` is its place among the others.

    Attributes:
      not_drawn: the number of user turns that were not drawn.
    """

    position: int
    pages: list[Page]
    not_asked: list[NotAsked]
    not_drawn: int = 0
