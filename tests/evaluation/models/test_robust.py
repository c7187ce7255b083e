"""Robust training: what is drawn, the worst of several versions, shifted embeddings, and the loop."""

import json

import msgspec
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from inn_toy import texts as inn_texts
from inn_toy import write_corpus as write_inns
from kit import SEED, raised
from tiny_checkpoints import save_gpt2, save_t5
from tiny_dialogues import dialogues, texts, write_corpus
from torch import nn

from parapet.evaluation.models.batches import laid_out, of_parts
from parapet.evaluation.models.configs import TrainingConfig
from parapet.evaluation.models.dst.data import Labelled
from parapet.evaluation.models.examples import Readable, Versions, perturbations_of, readable
from parapet.evaluation.models.saving import seed_all
from parapet.evaluation.models.training import Learner, Position, Shift, Stretch, along, divergence, regularised, worst
from parapet.pipelines.models import family_of
from parapet.schemas.errors import InputError


def said(raw):
    return [turn["utterance"] for turn in raw["turns"] if turn["speaker"] == "USER"]


def versions(share, count=1, names="typos,verbose", seed="0"):
    return Versions(
        [Readable(json.dumps(one).encode(), said(one), said) for one in dialogues()], names, share, count, seed
    )


# What is drawn.


def test_a_draw_depends_on_seed_and_epoch_alone():
    first = versions(0.5).draw(3)
    assert first == versions(0.5).draw(3)
    assert first not in [versions(0.5).draw(4), versions(0.5, seed="1").draw(3)]
    later = versions(0.5)
    for epoch in (1, 2):
        later.draw(epoch)
    assert later.draw(3) == first


def test_a_dialogue_that_cannot_be_read_is_named_with_its_file(tmp_path):
    root = write_corpus(tmp_path)
    (root / "train" / "dialogues_001.json").write_text(json.dumps(dialogues()[:1] * 2))
    raised(InputError, list, readable(str(root), "train", said), match=r"train/dialogues_001\.json: duplicate_id")


def test_what_cannot_run_in_the_loop_is_refused():
    for names, reason in (
        ("", "must be names of perturbations"),
        ("typos,ood", "ood requires the whole corpus"),
        ("unseen_entities", "'parapet perturb unseen_entities'"),
    ):
        assert reason in str(raised(InputError, perturbations_of, names, "0", match="--perturb"))


def test_a_dialogue_that_cannot_be_perturbed_stays_as_it_is(caplog):
    """Its frames lack what a perturbation reads: one warning."""
    odd = {"dialogue_id": "1", "services": [], "turns": [{"speaker": "USER", "utterance": "so long", "frames": None}]}
    one = Versions([Readable(json.dumps(odd).encode(), said(odd), said)] * 2, "typos", 1.0, 1, "0")
    assert one.draw(1) == one.draw(2) == [[["so long"]]] * 2
    assert caplog.text.count("typos cannot perturb a dialogue") == 1


def test_a_perturbation_that_adds_turns_is_refused():
    """Its examples would be numbered otherwise than those of the original."""
    one = dialogues()[0]

    def parts(raw):  # as many as there are words
        return " ".join(said(raw)).split()

    found = Versions([Readable(json.dumps(one).encode(), parts(one), parts)], "verbose", 1.0, 1, "0")
    raised(InputError, found.draw, 1, match=f"verbose made .* examples from a dialogue that has {len(parts(one))}")


# How versions are laid out.


@settings(max_examples=50)
@given(st.lists(st.tuples(st.integers(1, 3), st.booleans()), min_size=1, max_size=6), st.integers(1, 3))
def test_versions_are_found_by_their_numbers(shapes, count):
    """Each example has a name: dialogue, version, place. Then each is cut into parts."""
    drawn = [
        [[f"{n}.{v}.{i}" for i in range(size)] for v in range(count if several else 1)]
        for n, (size, several) in enumerate(shapes)
    ]
    names, table = laid_out(drawn, lambda _, rows: rows)
    assert names[: len(table)] == [name for versions in drawn for name in versions[0]]
    rows = iter(table.tolist())
    for versions in drawn:
        for i in range(len(versions[0])):
            found = [names[number] for number in next(rows)]
            assert found[: len(versions)] == [version[i] for version in versions]
            assert set(found[len(versions) :]) <= {versions[0][i]}
    sizes = [1 + int(name.split(".")[0]) % 3 for name in names]
    parts = [f"{name}/{part}" for name, size in zip(names, sizes, strict=True) for part in range(size)]
    for row in of_parts(table, sizes).tolist():
        assert len({(dialogue, place) for dialogue, _, place in [parts[number].split(".") for number in row]}) == 1


def test_a_version_with_another_number_of_examples_is_refused():
    with pytest.raises(InputError, match="2 examples in one version and 1 in another"):
        laid_out([[["a"], ["b", "c"]]], lambda _, rows: rows)


# The worst version.


class Chosen(Learner):
    """Whose losses are given."""

    def __init__(self, losses, table):
        self.module, self.given, self.versions = nn.Linear(1, 1), torch.tensor(losses), torch.tensor(table)
        self.asked: list[int] = []

    def batches(self, generator):
        return []

    def loss(self, batch):
        assert not self.module.training
        self.asked += batch.tolist()
        return self.given[batch].mean()

    def dev(self):
        return 0.0

    def files(self):
        return {}


@settings(max_examples=50)
@given(st.data())
def test_the_worst_is_that_of_a_plain_loop(data):
    count, examples = data.draw(st.integers(1, 3)), data.draw(st.integers(1, 5))
    losses = data.draw(st.lists(st.integers(0, 3).map(float), min_size=count * examples, max_size=count * examples))
    table = [
        [i if data.draw(st.booleans()) else i + version * examples for version in range(count)] for i in range(examples)
    ]
    table = [[i, *row[1:]] for i, row in enumerate(table)]
    learner = Chosen(losses, table)
    batch = torch.tensor(data.draw(st.permutations(range(examples))))
    found = worst(learner, batch).tolist()
    assert [losses[number] for number in found] == [max(losses[number] for number in table[i]) for i in batch.tolist()]
    assert found == [max(table[i], key=lambda number: losses[number]) for i in batch.tolist()]
    assert learner.module.training
    assert all(len(set(table[number % examples])) > 1 for number in learner.asked)  # nothing is scored in vain


FEW = ["--epochs", "1", "--batch_size", "4", "--device", "cpu", "--output", "out", "--quiet"]


@pytest.fixture(scope="module")
def toy(tmp_path_factory):
    folder = tmp_path_factory.mktemp("toy")
    write_corpus(folder / "corpus", turns=3)
    save_t5(folder / "t5", texts())
    write_inns(folder / "inns")
    save_gpt2(folder / "gpt2", inn_texts())
    return folder


def learner_of(toy, model, *flags):
    corpus = toy / ("inns" if model == "soloist" else "corpus")
    checkpoint = {"t5dst": ["--checkpoint", str(toy / "t5")], "soloist": ["--checkpoint", str(toy / "gpt2")]}
    argv = ["--train", str(corpus), *checkpoint.get(model, []), *FEW, *flags]
    if model == "soloist":
        argv += ["--max_length", "100"]
    family = family_of(model)
    training = family.training(family.train_parser().parse(argv)[0])
    seed_all(str(SEED), "parameters")
    assert training.learner is not None
    return training.learner()


MODELS = ("tiny_dst", "t5dst", "soloist")


@pytest.mark.parametrize("model", MODELS)
def test_each_example_has_the_loss_of_a_batch_of_its_own(toy, model):
    learner = learner_of(toy, model)
    learner.module.eval()
    batch = torch.tensor([5, 0, 3])
    with torch.no_grad():
        alone = torch.stack([learner.loss(one[None]) for one in batch])
        assert torch.allclose(learner.example_losses(batch), alone, rtol=1e-4)


@pytest.mark.parametrize("model", MODELS)
def test_the_worst_version_of_a_model_is_trained_on(toy, model):
    """Against the losses of all versions, computed one by one."""
    learner = learner_of(toy, model, "--perturb", "typos,verbose", "--perturb_share", "0.7", "--adversarial", "3")
    learner.prepare(1)
    assert learner.versions is not None
    batch = next(iter(learner.batches(torch.Generator())))
    chosen = worst(learner, batch).tolist()
    learner.module.eval()
    with torch.no_grad():
        for number, version in zip(batch.tolist(), chosen, strict=True):
            losses = {one: float(learner.loss(torch.tensor([one]))) for one in learner.versions[number].tolist()}
            assert losses[version] >= max(losses.values()) - 1e-3
    learner.module.train()
    seed_all("step")
    assert torch.isfinite(learner.loss(batch))


# Shifted embeddings.


@pytest.mark.parametrize("model", MODELS)
def test_a_shift_changes_predictions_more_than_a_random_one(toy, model):
    """The divergence that is added, beside that of random shifts of the same length."""
    learner, batch, epsilon = learner_of(toy, model), torch.tensor([5, 0, 3]), 0.3
    learner.module.eval()
    plain = float(learner.loss(batch).detach())
    added = float(regularised(learner, batch, 1.0, epsilon).detach()) - plain
    shift = Shift(learner.embeddings())
    with torch.no_grad():
        with shift.hooked():
            clean = learner.outcome(batch)[1]
        seen, random = shift.seen, []
        for seed in range(5):
            torch.manual_seed(seed)
            shift.added = {number: along(torch.randn_like(of), of, epsilon) for number, of in seen.items()}
            with shift.hooked():
                random.append(float(divergence(clean, learner.outcome(batch)[1])))
    assert added > 1.5 * max(random) > 0


# The loop.


class Epochs(Chosen):
    """Six examples; keeps the numbers of the epochs that it was prepared for."""

    def __init__(self):
        super().__init__([0.0] * 6, [[i] for i in range(6)])
        self.epochs: list[int] = []

    def prepare(self, epoch):
        self.epochs.append(epoch)

    def batches(self, generator):
        yield from torch.randperm(6, generator=generator).split(2)


def config(**length):
    return TrainingConfig(batch_size=2, learning_rate=0.05, seed="0", threads=1, device="cpu", keep="last", **length)


def test_batches_are_those_of_the_epoch_they_are_in():
    """Drawn one by one, also where a stretch begins and ends within epochs."""
    learner = Epochs()
    stretch = Stretch(learner, config(steps=20, eval_steps=8), Position(2, 1, 2))
    seen = [(learner.epochs[-1], tuple(batch.tolist())) for batch in stretch]
    assert ([epoch for epoch, _ in seen], stretch.end) == ([1, 2, 2, 2, 3, 3, 3, 4], Position(10, 4, 1))
    for epoch in (2, 3):
        assert sorted(i for number, batch in seen for i in batch if number == epoch) == list(range(6))


@pytest.mark.parametrize("model", MODELS)
def test_the_regularisation_leaves_the_loss_and_trains_on_the_divergence(toy, model):
    learner, batch = learner_of(toy, model), torch.tensor([5, 0, 3])
    learner.module.train()
    found = {}
    for weight in (0.0, 100.0, 200.0):
        seed_all("step")
        found[weight] = regularised(learner, batch, weight, 0.3)
    seed_all("step")
    torch.randint(2**62, ())  # the seed of the shift
    assert torch.allclose(found[0.0], learner.loss(batch))
    first, second = (float((found[weight] - found[0.0]).detach()) for weight in (100.0, 200.0))
    assert second == pytest.approx(2 * first, rel=0.01)
    assert first > 0
    learner.module.zero_grad()
    (found[100.0] - found[0.0]).backward()
    gradients = [one.grad for one in learner.module.parameters() if one.grad is not None]
    assert sum(float(one.abs().sum()) for one in gradients) > 0
    assert all(torch.isfinite(one).all() for one in gradients)


def test_frames_are_labelled_as_those_of_the_original(toy):
    """Dialogues that are read again have the frames of the corpus, in its order."""
    from parapet.evaluation.models.dst.data import read_labels, reader_of

    root = str(toy / "corpus")
    found: list[Labelled] = [row for one in readable(root, "train", reader_of(root, "train")) for row in one.rows]
    assert found == read_labels(root, "train").rows


def test_versions_of_a_dialogue_are_held_out_together(toy):
    """Perturbed ones, which share the id, and those under other ids, which share the first utterance."""
    from parapet.evaluation.models.dst.data import Openings, read_labels
    from parapet.evaluation.models.examples import held_out

    rows = read_labels(str(toy / "corpus"), "train").rows

    def version(row, mark, said):
        asked = row.asked
        history = (("USER", said + asked.history[0][1]), *asked.history[1:])
        new = msgspec.structs.replace(asked, dialogue_id=asked.dialogue_id + mark, history=history)
        return msgspec.structs.replace(row, asked=new)

    more = [version(row, "", "well, ") for row in rows] + [version(row, "_v1", "") for row in rows]
    parts = held_out([*rows, *more], 0.5, "0", Openings())
    ids = [{row.asked.dialogue_id.removesuffix("_v1") for row in part} for part in parts]
    assert all(ids)
    assert not ids[0] & ids[1]


def test_passes_drop_the_same():
    """With dropout and without a shift, nothing diverges: so only the shift counts."""

    class Dropping(Chosen):
        def __init__(self):
            super().__init__([0.0], [[0]])
            self.versions = None
            self.table, self.dropout = nn.Embedding(9, 8), nn.Dropout(0.5)
            self.module = nn.ModuleList([self.table, self.dropout])

        def embeddings(self):
            return [self.table]

        def outcome(self, batch):
            logits = self.dropout(self.table(batch))
            return logits.sum(), [logits]

    one, batch = Dropping(), torch.arange(9)
    torch.manual_seed(SEED)
    plain = regularised(one, batch, 0.0, 0.0)
    torch.manual_seed(SEED)
    assert float((regularised(one, batch, 1.0, 0.0) - plain).detach()) == pytest.approx(0.0, abs=1e-6)
