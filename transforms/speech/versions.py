"""A dialogue as a set has it: of all that was heard of its turns what comes nearest to the set's word error rate."""

from __future__ import annotations

import copy
from collections.abc import Mapping, Sequence
from typing import Any

import msgspec
import pyarrow as pa

from parapet.schemas.asr_turns import ASR_TURNS
from parapet.schemas.dialogue import Dialogue
from parapet.schemas.errors import InputError
from parapet.transforms.speech.calibrate import Calibration, Setting
from parapet.transforms.speech.hearing import Unheard
from parapet.transforms.speech.listening import Level
from parapet.transforms.speech.replacing import Form, Replaced, heard_turn, kept_turn, write_into
from parapet.transforms.speech.turns import Speakers, UserTurn, draw_of, voice_of

Levels = Mapping[int, Sequence[Level]]  # position of a turn to what was heard of it


class Version(msgspec.Struct, frozen=True):
    """A dialogue of a set, its user turns and their rows."""

    dialogue: dict[str, Any]
    turns: list[tuple[UserTurn, Replaced]]
    batch: Any


class Writer(msgspec.Struct, frozen=True):
    """What all dialogues of a run are written by.

    Attributes:
      speakers: who says what.
      noise: its name.
      form: how words are written down.
    """

    speakers: Speakers
    noise: str
    form: Form

    def version(
        self,
        raw: dict[str, Any],
        dialogue: Dialogue,
        turns: Sequence[UserTurn],
        levels: Levels,
        calibration: Calibration | None,
        one: Setting | None,
    ) -> Version:
        """A dialogue as one set has it.

        Args:
          raw: the dialogue as its file has it; it stays as it is.
          dialogue: the same, typed.
          turns: its user turns.
          levels: what was heard of those that say something.
          calibration: by which a set chooses; None where no turn says anything, and so is the next.
          one: the set.

        Raises:
          InputError: it has what no row can have.
        """
        made = {**raw, "turns": [*raw["turns"]]}
        replaced = [(turn, self._replaced(dialogue.dialogue_id, turn, levels, calibration, one)) for turn in turns]
        for turn, new in replaced:
            made["turns"][turn.position] = copy.deepcopy(raw["turns"][turn.position])
            write_into(made["turns"][turn.position], new)
        rows = [{"dialogue_id": dialogue.dialogue_id, **new.row} for _, new in replaced]
        try:
            for turn in turns:
                "".join(frame.service for frame in turn.turn.frames).encode()
            return Version(made, replaced, pa.RecordBatch.from_pylist(rows, ASR_TURNS))
        except (pa.ArrowException, UnicodeEncodeError, OverflowError) as error:
            raise InputError(f"not_sgd: {str(error).splitlines()[0]}") from None

    def _replaced(
        self, dialogue_id: str, turn: UserTurn, levels: Levels, calibration: Calibration | None, one: Setting | None
    ) -> Replaced:
        voice = voice_of(dialogue_id, self.speakers)
        if not turn.words:
            return kept_turn(turn, "not_spoken", turn.reason, voice, self.noise)
        of_turn = levels[turn.position]
        if failed := failure_of(of_turn):
            return kept_turn(turn, "failed", failed.reason, voice, self.noise)
        assert calibration is not None
        assert one is not None
        errors = {level.snr: level.errors for level in of_turn}
        draw = draw_of(dialogue_id, turn.position, self.speakers)
        snr = calibration.chosen(one, errors, len(turn.words), draw)
        chosen = next(level.outcome for level in of_turn if level.snr == snr)
        assert not isinstance(chosen, Unheard)
        return heard_turn(turn, chosen, self.form, {"voice": voice, "noise": self.noise, "snr": snr})


def failure_of(levels: Sequence[Level]) -> Unheard | None:
    """Why a turn could not be heard at one of the noises; None where it could at all."""
    return next((level.outcome for level in levels if isinstance(level.outcome, Unheard)), None)
