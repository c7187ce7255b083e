"""Which dialogues a domain gets: nested training sets in which every slot occurs, and a test with others."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Iterable, Sequence

import msgspec

from parapet.schemas.dialogue import Dialogue, Frame, is_marker
from parapet.transforms.corpora import domain_of
from parapet.transforms.seeding import stable_hash
from parapet.transforms.touching import Used

TRAIN, TEST = "train", "test"


class Rule(msgspec.Struct, frozen=True):
    """What is requested.

    Attributes:
      domains: the domains.
      sizes: the sizes of the training sets, ascending.
      test: dialogues of a test.
      train_split: the split that training dialogues are taken from.
      test_split: the split that tests are taken from.
      multi_domain: whether dialogues that touch other domains, too, may be taken.
      seed: of the random order.
    """

    domains: tuple[str, ...]
    sizes: tuple[int, ...]
    test: int
    train_split: str
    test_split: str
    multi_domain: bool
    seed: str


class Candidate(msgspec.Struct, frozen=True, order=True):
    """A dialogue that a domain may have. Candidates sort in a random order that the seed fixes.

    Attributes:
      draw: 64 bits of seed, domain and dialogue id.
      dialogue_id: its id.
      file: its file, below the root.
      position: its position there.
      digest: of all utterances; dialogues with the same digest are the same.
      services: those that it touches, lists, or has idle frames of: the schema of its set needs them.
      slots: element ids (``Restaurants_1/slot/city``) of the domain's slots that occur in it.
      turns: number of user turns.
      alone: whether it touches no other domain.
    """

    draw: int
    dialogue_id: str
    file: str
    position: int
    digest: str
    services: tuple[str, ...]
    slots: tuple[str, ...]
    turns: int
    alone: bool


class Chosen(msgspec.Struct, frozen=True):
    """The dialogues of a domain.

    Attributes:
      train: those of the largest training set; the first of them make the smaller ones.
      test: those of the test.
      occurring: element ids of the slots that occur in any training candidate.
      candidates: training candidates that differ from each other and from the test.
      test_candidates: test candidates that differ from each other.
      repeated: candidates with the id or the utterances of another candidate of their split.
      same_id: training candidates that are skipped because a dialogue of the test has their id.
      several: training and test dialogues that are skipped because they touch other domains, too.
    """

    train: list[Candidate]
    test: list[Candidate]
    occurring: list[str]
    candidates: int
    test_candidates: int
    repeated: int
    same_id: int
    several: tuple[int, int]


def candidates_of(dialogue: Dialogue, used: Used, rule: Rule, file: str, position: int) -> list[tuple[str, Candidate]]:
    """(domain, candidate) of a dialogue, for each of the requested domains that it touches.

    Args:
      dialogue: the dialogue.
      used: its services.
      rule: what is requested.
      file: its file, below the root.
      position: its position there.
    """
    touched = {domain_of(service) for service in used.touched}
    return [
        (domain, _candidate(dialogue, domain, used, len(touched) == 1, file, position, rule.seed))
        for domain in sorted(touched.intersection(rule.domains))
    ]


def _candidate(
    dialogue: Dialogue, domain: str, used: Used, alone: bool, file: str, position: int, seed: str
) -> Candidate:
    frames = [frame for turn in dialogue.turns for frame in turn.frames if domain_of(frame.service) == domain]
    utterances = "\0".join(turn.utterance for turn in dialogue.turns)
    return Candidate(
        draw=stable_hash(seed, "few_shot", domain, dialogue.dialogue_id),
        dialogue_id=dialogue.dialogue_id,
        file=file,
        position=position,
        digest=hashlib.sha256(utterances.encode("utf-8", "surrogatepass")).hexdigest(),
        services=tuple(used.all),
        slots=tuple(sorted({slot for frame in frames for slot in slots_of(frame)})),
        turns=sum(turn.speaker == "USER" for turn in dialogue.turns),
        alone=alone,
    )


def slots_of(frame: Frame) -> set[str]:
    """Element ids of the slots in a frame: in spans, actions, the state, a service call."""
    names = {span.slot for span in frame.slots}
    names |= {action.slot for action in frame.actions or [] if action.slot and not is_marker(action.act, action.slot)}
    if frame.state:
        names |= {*frame.state.slot_values, *frame.state.requested_slots}
    if frame.service_call:
        names |= set(frame.service_call.parameters)
    return {f"{frame.service}/slot/{name}" for name in names}


def choose(candidates: Iterable[tuple[str, Candidate]], rule: Rule) -> Chosen:
    """Chooses the dialogues of one domain.

    Args:
      candidates: (``train`` or ``test``, candidate): the dialogues that touch the domain.
      rule: what is requested.
    """
    touching = sorted(candidates)
    usable = [(part, one) for part, one in touching if one.alone or rule.multi_domain]
    several = Counter(part == TEST for part, one in touching if not (one.alone or rule.multi_domain))
    tests, repeated_tests = different([one for part, one in usable if part == TEST])
    train, repeated = different([one for part, one in usable if part != TEST])
    # SGD's splits use the same ids. The test takes dialogues whose id training does not have first, so that training
    # loses few; then training, which mostly has more to choose from, gives up dialogues that are in the test.
    train_ids = {one.dialogue_id for one in train}
    test = sorted(tests, key=lambda one: (one.dialogue_id in train_ids, one))[: rule.test]
    digests, ids = {one.digest for one in test}, {one.dialogue_id for one in test}
    other = [one for one in train if one.digest not in digests]
    left = [one for one in other if one.dialogue_id not in ids]
    return Chosen(
        train=ordered(left)[: rule.sizes[-1]],
        test=test,
        occurring=sorted({slot for one in train for slot in one.slots}),
        candidates=len(left),
        test_candidates=len(tests),
        repeated=repeated + repeated_tests + len(train) - len(other),
        same_id=len(other) - len(left),
        several=(several[False], several[True]),
    )


def different(candidates: Sequence[Candidate]) -> tuple[list[Candidate], int]:
    """The candidates without those that have the utterances or the id of an earlier one; and how many those are."""
    kept: list[Candidate] = []
    digests: set[str] = set()
    ids: set[str] = set()
    for one in candidates:
        if one.digest not in digests and one.dialogue_id not in ids:
            kept.append(one)
        digests.add(one.digest)
        ids.add(one.dialogue_id)
    return kept, len(candidates) - len(kept)


def ordered(candidates: Sequence[Candidate]) -> list[Candidate]:
    """First those that cover all slots, then the others in random order.

    Greedy set cover (Chvatal 1979): each of the first has the most slots that are not covered yet; ties go to the first
    in random order. So small sets have about as many slots as sets of their size can have.

    Args:
      candidates: in random order.
    """
    uncovered = {slot for one in candidates for slot in one.slots}
    cover: list[int] = []
    while uncovered:
        best = max(range(len(candidates)), key=lambda i: (len(uncovered.intersection(candidates[i].slots)), -i))
        cover.append(best)
        uncovered.difference_update(candidates[best].slots)
    first = set(cover)
    return [candidates[i] for i in (*cover, *(i for i in range(len(candidates)) if i not in first))]
