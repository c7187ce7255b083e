"""Language models for other tasks: out-of-domain turns, utterances from acts, bAbI dialogues, entailment.

Each class has the interface that a job expects of a trained model, so that inputs, outputs and scores are the same.
"""

from collections.abc import Iterable, Sequence
from functools import partial

import msgspec

from parapet.evaluation.endpoint.asking import Asker, Prompt, Question, in_json
from parapet.evaluation.generation import corpus, scoring
from parapet.evaluation.models import generation, turns
from parapet.evaluation.ood import IN_DOMAIN, OOD
from parapet.schemas.service import Service
from parapet.transforms.core.chat import Chat
from parapet.transforms.core.replies import Reply, Unreadable, object_in
from parapet.transforms.simulators.formats import BabiDialogue, Exchange, Unanswered

_LEAST_SURE, _SUREST = 51, 100  # percent; below, the score would mean the opposite decision
_LONGEST = 300  # tokens of a turn


class Router(Asker):
    """Decides whether turns are out of domain; its stated confidence is the score.

    Args:
      chat: an open client.
      services: the services of the domain.
      prompt: the prompt.
    """

    task = "ood"

    def __init__(self, chat: Chat, services: Sequence[Service], prompt: Prompt | None = None) -> None:
        super().__init__(chat, prompt)
        self.services = services

    def answers(self, texts: Sequence[str]) -> tuple[list[turns.Answer], int]:
        """Answers like a classifier; equal texts are asked once."""
        different = list(dict.fromkeys(texts))
        scores = dict(zip(different, self.each([self._question(text) for text in different]), strict=True))
        return [scores[text] for text in texts], 0

    def _question(self, utterance: str) -> Question:
        messages = self.prompt.messages(services=self.services, utterance=utterance)
        schema = {"out_of_domain": {"type": "boolean"}, "confidence": {"type": "integer"}}
        wrong, refused = turns.Answer(turns.UNREAD, 0.0), turns.Answer(turns.REFUSED, 0.0)
        return Question({"utterance": utterance}, messages, in_json(schema, "domain"), _domain, wrong, refused)


def _domain(reply: Reply) -> turns.Answer:
    parsed = object_in(reply.text, ("out_of_domain", "confidence"))
    is_ood, sure = parsed.get("out_of_domain"), parsed.get("confidence")
    if not isinstance(is_ood, bool):
        raise Unreadable("no_answer")
    percent = sure if isinstance(sure, int | float) and not isinstance(sure, bool) else _SUREST
    score = min(max(percent, _LEAST_SURE), _SUREST) / 100
    return turns.Answer(OOD, score) if is_ood else turns.Answer(IN_DOMAIN, round(1 - score, 9))


class Speaker(Asker):
    """Generates utterances for the acts of system turns."""

    task = "utterances"

    def generate(self, texts: Sequence[str]) -> list[generation.Generated]:
        """Generates an utterance for each turn's sentences. It is empty if the answer is, which counts as wrong."""
        return self.each([self._question(text) for text in texts])

    def _question(self, acts: str) -> Question:
        wrong = generation.Generated((corpus.Candidate("", 0.0),), cut=False, unfinished=False)
        refused = msgspec.structs.replace(wrong, refused=True)
        messages = self.prompt.messages(acts=acts)
        return Question({"acts": acts}, messages, {"max_tokens": _LONGEST}, _utterance, wrong, refused)


def _utterance(reply: Reply) -> generation.Generated:
    return generation.Generated((corpus.Candidate(_one_line(reply.text), 0.0),), cut=False, unfinished=False)


def _one_line(text: str) -> str:
    """Removes line breaks and enclosing quotation marks. Raises Unreadable if nothing is left."""
    line = " ".join(text.split())
    if len(line) > 1 and line[0] == line[-1] and line[0] in "\"'":
        line = line[1:-1].strip()
    if not line:
        raise Unreadable("empty")
    return line


class Bot(Asker):
    """Continues dialogues in the bAbI format.

    Args:
      chat: an open client.
      examples: whole dialogues to show in the prompt.
      candidates: the allowed answers; the most similar ones by Levenshtein's ratio are used. Empty for free answers.
      prompt: the prompt.
    """

    task = "babi"

    def __init__(
        self,
        chat: Chat,
        examples: Iterable[BabiDialogue] = (),
        candidates: Sequence[str] = (),
        prompt: Prompt | None = None,
    ) -> None:
        super().__init__(chat, prompt)
        self.examples = ["\n".join(_lines(dialogue)) for dialogue in examples]
        self.candidates = candidates

    def ranked(self, dialogues: Sequence[BabiDialogue], top: int) -> list[list[list[str]]]:
        """Returns the best answers at each turn of each dialogue, based on the reference's preceding turns.

        A refused request has none.
        """
        questions = [list(self._questions(dialogue, top)) for dialogue in dialogues]
        answers = iter(self.each([question for of_dialogue in questions for question in of_dialogue]))
        return [[next(answers) for _ in of_dialogue] for of_dialogue in questions]

    def _questions(self, dialogue: BabiDialogue, top: int) -> Iterable[Question]:
        before: list[str] = []
        for line in dialogue.lines:
            lines = list(_lines(BabiDialogue((line,))))
            if isinstance(line, Exchange):
                messages = self.prompt.messages(examples=self.examples, history="\n".join([*before, lines[0]]))
                read = partial(self._read, top=top)
                yield Question({"user": line.user}, messages, {"max_tokens": _LONGEST}, read, [""], [])
            before += lines

    def _read(self, reply: Reply, top: int) -> list[str]:
        answer = _one_line(reply.text.strip().partition("\n")[0].removeprefix("Bot:"))
        if not self.candidates:
            return [answer]
        from Levenshtein import ratio

        small = answer.casefold()
        order = sorted(range(len(self.candidates)), key=lambda i: (-ratio(small, self.candidates[i].casefold()), i))
        return [self.candidates[i] for i in order[:top]]


def _lines(dialogue: BabiDialogue) -> Iterable[str]:
    for line in dialogue.lines:
        if isinstance(line, Exchange):
            yield f"User: {line.user}"
            yield f"Bot: {line.bot}"
        elif isinstance(line, Unanswered):
            yield f"User: {line.user}"
        else:
            yield f"Fact: {line.entity} {line.relation} {line.value}"


class Judge(Asker):
    """A judge of textual entailment, for use without an NLI model. Its scores are not comparable to SGSAcc's.

    Args:
      chat: an open client.
      prompt: the prompt.

    Attributes:
      unread: the number of unreadable answers, which count as "neutral".
    """

    task = "entailment"
    name = "llm"
    joint = " "

    def __init__(self, chat: Chat, prompt: Prompt | None = None) -> None:
        super().__init__(chat, prompt)
        self.model = f"{chat.endpoint.model}, prompt {self.prompt.about['sha256'][:12]}"
        self.unread = 0

    def entailment(self, pairs: Sequence[scoring.Pair]) -> list[scoring.Judgement]:
        """Judges each pair, in order; the label in the answer gets probability 1."""
        self.asked.clear()
        judged: list[scoring.Judgement] = self.each([self._question(pair) for pair in pairs])
        self.unread += sum(bool(question.unread) for question in self.asked)
        return judged

    def _question(self, pair: scoring.Pair) -> Question:
        messages = self.prompt.messages(premise=pair[0], hypothesis=pair[1])
        schema = {"label": {"type": "string", "enum": list(scoring.LABELS)}}
        return Question({}, messages, in_json(schema, "judgement"), _label, (0.0, 1.0, 0.0))


def _label(reply: Reply) -> scoring.Judgement:
    label = str(object_in(reply.text, ("label",)).get("label")).strip().lower()
    if label not in scoring.LABELS:
        raise Unreadable("no_label")
    return (float(label == scoring.LABELS[0]), float(label == scoring.LABELS[1]), float(label == scoring.LABELS[2]))
