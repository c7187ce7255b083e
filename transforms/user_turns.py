"""Edits of what users say, for perturbations that leave alone what they mean."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterable
from typing import Any

from parapet.schemas.dialogue import typed
from parapet.transforms.perturb.edits import Edit, move_spans
from parapet.transforms.perturbation import Perturbed, changed_turn
from parapet.transforms.variations.said import Said as UserTurn
from parapet.transforms.variations.said import said_by_user

Edits = Iterable[tuple[int, int, str]]


def edit_user_turns(
    dialogue: dict[str, Any], edits: Callable[[UserTurn], Edits], *, edit_values: bool = False
) -> Perturbed:
    """Edits the user turns of a dialogue. Spans of slot values move with the text; states stay.

    Values are protected: an edit that overlaps the span of a value, or a value of the dialogue's states, is not made.
    Neither is one that would leave nothing of an utterance.

    Args:
      dialogue: in SGD's form; it is not modified.
      edits: is called with each user turn, and gives edits of its utterance: characters ``start`` to ``end``
        (exclusive) become ``text``. What it can use of the turn: ``dialogue_id``, ``position`` in the dialogue,
        ``utterance``, ``spans``, ``acts``, ``services``.
      edit_values: whether the text inside spans may be edited, too.

    Returns:
      The dialogue, and a row (:func:`changed_turn`) for each turn that has changed.

    Raises:
      InputError: the dialogue is not of SGD's form.
      ValueError: edits overlap, or lie outside the utterance.

    Example:
      >>> import parapet
      >>> dialogue = next(parapet.load_corpus().dialogues("test"))
      >>> dialogue["turns"][0]["utterance"]
      'My bike broke down, who can fix it in Port Alder?'
      >>> perturbed = parapet.edit_user_turns(dialogue, lambda turn: [(0, 0, "Hi! ")])
      >>> turn = perturbed.dialogue["turns"][0]
      >>> turn["utterance"]
      'Hi! My bike broke down, who can fix it in Port Alder?'
      >>> span = turn["frames"][0]["slots"][0]
      >>> turn["utterance"][span["start"] : span["exclusive_end"]]
      'Port Alder'
      >>> perturbed.rows[0]["turn"], perturbed.rows[0]["utterance"][:11]
      (0, 'Hi! My bike')
    """
    turns, rows = [*dialogue["turns"]], []
    for user_turn in said_by_user(typed(dialogue)):
        wanted = sorted(Edit(start, end, text) for start, end, text in edits(user_turn))
        protected = user_turn.protected(edit_values)
        allowed = [
            edit for edit in wanted if not any(edit.start < end and start < edit.end for start, end in protected)
        ]
        turn = copy.deepcopy(turns[user_turn.position])
        torn = move_spans(turn, allowed)
        if torn or not turn["utterance"].strip() or turn["utterance"] == user_turn.utterance:
            continue
        rows.append(changed_turn(dialogue, user_turn.position, turn))
        turns[user_turn.position] = turn
    return Perturbed({**dialogue, "turns": turns}, rows)
