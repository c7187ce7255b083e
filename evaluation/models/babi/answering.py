"""A trained net answers: each turn alone, whatever it is computed together with."""

from __future__ import annotations

from collections.abc import Sequence

import torch

from parapet.evaluation.models.babi.data import numbers_of
from parapet.evaluation.models.babi.encoding import encode, turns_of
from parapet.evaluation.models.babi.nets import Net, Vocabulary
from parapet.evaluation.models.devices import enough_memory
from parapet.transforms.babi_format import BabiDialogue


class NetAnswers:
    """A net, loaded.

    It computes in double precision and takes scores that are equal in single precision for equal, the first candidate
    then. So neither padding, nor what else is in a batch, nor the number of threads changes an answer, though each
    changes the last digits.

    Args:
      net: with its weights.
      vocabulary: what it knows.
      device: where to compute.
      batch: turns at a time.
    """

    def __init__(self, net: Net, vocabulary: Vocabulary, device: torch.device, batch: int) -> None:
        self.net = net.double().to(device).eval()
        self.words = numbers_of(vocabulary.words)
        self.candidates, self.device, self.batch = vocabulary.candidates, device, batch

    def answers(self, dialogues: Sequence[BabiDialogue]) -> list[list[str]]:
        """The answers at each turn of each dialogue.

        Raises:
          InputError: there is not enough memory.
        """
        turns = turns_of(encode(dialogues, {}), self.words, self.net.matches.entities, self.device)
        found: list[int] = []
        with torch.inference_mode(), enough_memory(f"lower --batch_size, which is {self.batch}"):
            for ids in turns.batches(self.batch):
                found += self.net(turns, ids).float().argmax(1).tolist()
        rest = iter(found)
        return [[self.candidates[next(rest)] for _ in dialogue.exchanges] for dialogue in dialogues]
