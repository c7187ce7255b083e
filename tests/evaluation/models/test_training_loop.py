"""The training loop: it goes on where it was stopped, keeps the best, stops early, and says what is wrong."""

import json
import sys
from pathlib import Path

import pytest
import torch
from kit import raised
from torch import nn

from parapet.evaluation.models.configs import TrainingConfig
from parapet.evaluation.models.saving import check_installed, device_of, enough_memory, seed_all
from parapet.evaluation.models.training import STATE, Learner, fit
from parapet.schemas.errors import InputError

HEADER = {"pipeline": "train_line", "options": {"epochs": 6, "seed": "0"}, "inputs": []}


class Line(Learner):
    """Fits a line with dropout, so that the generators matter; ``devs`` is what dev gives, epoch by epoch."""

    metric = "fit"

    def __init__(self, devs, examples=20):
        seed_all("0", "parameters")
        self.module = nn.Sequential(nn.Linear(3, 4), nn.Dropout(0.5), nn.Linear(4, 1))
        self.optimiser = torch.optim.Adam(self.module.parameters(), lr=0.01)
        self.devs, self.steps = iter(devs), 0
        self.x = torch.arange(3.0 * examples).reshape(examples, 3) / (3 * examples)
        self.batches_seen: list[list[int]] = []

    def batches(self, generator):
        yield from torch.randperm(len(self.x), generator=generator).split(8)

    def loss(self, batch):
        self.steps += 1
        self.batches_seen.append(batch.tolist())
        return (self.module(self.x[batch]).squeeze(1) - self.x[batch].sum(1)).square().mean()

    def dev(self):
        return next(self.devs)

    def files(self):
        return {}


def config_of(**length):
    return TrainingConfig(batch_size=8, learning_rate=0.01, seed="0", threads=1, device="cpu", **length)


def run(out, line, patience=9, header=HEADER, **length):
    return fit(line, config_of(**(length or {"epochs": 6, "patience": patience})), str(out), header)[1]


@pytest.mark.parametrize("length", [{"epochs": 4, "patience": 1}, {"steps": 12, "eval_steps": 3}])
def test_the_last_weights_are_kept_where_requested(tmp_path, caplog, length):
    caplog.set_level("INFO")
    line = Line([0.2, 1.0, 0.1, 0.0])
    weights, log = fit(line, config_of(keep="last", **length), str(tmp_path), HEADER)
    assert "on dev 100.00%" in caplog.text
    assert "(best)" not in caplog.text
    assert (log[-1].best, [row.dev for row in log]) == (True, [0.2, 1.0, 0.1, 0.0])
    assert all(torch.equal(weights[name], value) for name, value in line.module.state_dict().items())


def test_an_epoch_is_gone_through_once_before_the_next_begins(tmp_path):
    line = Line([0.0] * 3)
    run(tmp_path, line, steps=9, eval_steps=4)
    seen = [int(number) for batch in line.batches_seen for number in batch]
    assert not [epoch for epoch in range(3) if sorted(seen[20 * epoch : 20 * (epoch + 1)]) != list(range(20))]


def test_stops_when_it_is_no_better_or_cannot_be(tmp_path):
    assert [row.best for row in run(tmp_path / "a", Line([0.5, 0.4, 0.5]), patience=2)] == [True, False, False]
    assert len(run(tmp_path / "c", Line([0.0, 0.0, 0.0, 0.2, 0.1, 0.2]), patience=2)) == 6  # slow to begin
    assert len(run(tmp_path / "b", Line([0.5, 1.0]))) == 2
    assert len(run(tmp_path / "b", Line([]))) == 2  # what was done is not done again


def test_another_training_is_not_mixed_in(tmp_path):
    run(tmp_path, Line([0.1] * 6))
    other = {**HEADER, "options": {"epochs": 7, "seed": "0"}, "torch": "9"}
    raised(InputError, run, tmp_path, Line([]), header=other, match=r"other --epochs, torch.*delete .*\.training")


def test_a_damaged_state_is_told_and_none_runs_code(tmp_path):
    run(tmp_path, Line([1.0]))
    place, damaged = tmp_path / STATE, r"is damaged .*delete .*\.training to start again"
    whole = place.read_bytes()
    for keep in (0, 10, 2000, -30):
        place.write_bytes(whole[:keep])
        raised(InputError, run, tmp_path, Line([1.0]), match=damaged)
    torch.save({"header": json.dumps(HEADER), "module": Path("x")}, place)
    raised(InputError, run, tmp_path, Line([1.0]), match=damaged)


def test_a_loss_that_is_no_number_ends_it(tmp_path):
    line = Line([0.5])
    line.x[3] = torch.nan
    reason = "--learning_rate: the loss is not a finite number in epoch 1: lower it"
    raised(InputError, run, tmp_path, line, match=reason)
    assert not (tmp_path / STATE).exists()


def test_memory_that_is_used_up_is_told():
    with pytest.raises(InputError, match="out of memory: lower --batch_size"), enough_memory(8):
        torch.empty(2**60)
    with pytest.raises(RuntimeError, match="shape"), enough_memory(8):
        torch.zeros(2, 3) @ torch.zeros(2, 3)


def test_what_is_not_there_is_told(monkeypatch):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    assert device_of("auto").type == "cpu"
    raised(InputError, device_of, "cuda", match="--device: torch finds no GPU on this machine")
    monkeypatch.setitem(sys.modules, "safetensors", None)
    missing = r"safetensors is not installed: pip install .*\[models\]'"
    raised(InputError, check_installed, "json", "safetensors", match=missing)


@pytest.mark.parametrize("examples", [1, 7, 20, 400])
def test_steps_are_as_many_whatever_the_size_of_the_corpus(tmp_path, examples):
    line = Line([0.0] * 4, examples=examples)
    log = run(tmp_path, line, steps=11, eval_steps=3)
    assert (line.steps, [row.step for row in log]) == (11, [3, 6, 9, 11])
    assert log[-1].best  # of equal ones that which has learned most
