"""The page of a training: its loss, the metric on dev and the learning rate by step, and its flags."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence

from parapet.evaluation.models.training import Measurement, TrainedModel
from parapet.transforms.report import Curve, Lines, Report, Table, Tile, page
from parapet.transforms.text import counted, percent

Option = str | int | float | bool | None


def page_of(model: str, options: Mapping[str, Option], trained: TrainedModel) -> str:
    """The page.

    Args:
      model: its name.
      options: the flags of the training.
      trained: the model with its log.
    """
    log, best, metric = trained.log, trained.best, trained.metric
    by_steps = options.get("steps") is not None
    where = f"step {best.step:,}" if by_steps else f"epoch {best.epoch}"
    selected = f"with the highest {metric} on dev were kept, the {'last' if by_steps else 'first'} of equal ones"
    return page(
        Report(
            command="train",
            title=f"Training of {model}",
            headline=f"{model}: {metric} on dev {percent(best.dev)} after {where}",
            lead=f"The weights {'of the last step were kept' if options.get('keep') == 'last' else selected}.",
            tiles=[
                Tile(f"{metric} on dev", percent(best.dev)),
                Tile("steps", f"{log[-1].step:,}"),
                Tile("trained parameters", f"{trained.parameters:,}"),
                Tile("loss at the end", f"{losses_of(log)[-1][1]:.4g}"),
                *(Tile(name.replace("_", " "), f"{value:,.6g}") for name, value in trained.result.items() if value),
            ],
            sections=[*_charts(log, metric), _measurements(log, metric), _flags(options)],
            links={
                "log.jsonl": f"The {counted(len(log), 'measurement')} of the table, with the points of the curves.",
                "run.json": "Flags, hashes of the files, versions.",
            },
        )
    )


def losses_of(log: Sequence[Measurement]) -> list[tuple[float, float]]:
    """The curve of the loss: (step in the middle of a part, mean loss of the part)."""
    points, before = [], 0
    for row in log:
        width = (row.step - before) / len(row.losses)
        points += [(before + width * (part + 0.5), loss) for part, loss in enumerate(row.losses)]
        before = row.step
    return points


def _charts(log: Sequence[Measurement], metric: str) -> Iterator[Lines]:
    dev = [(float(row.step), row.dev) for row in log]
    rates = [(float(row.step), row.learning_rate) for row in log]
    for title, label, points, is_share in (
        ("Loss", "mean loss", losses_of(log), False),
        (f"{metric.capitalize()} on dev", metric, dev, True),
        ("Learning rate", "learning rate", rates, False),
    ):
        highest = max(y for _, y in points)
        # Shares are shown in per cent. Small ones take more digits, so that no two labels of the axis are alike.
        digits = max(1 if is_share else 0, (0 if is_share else 2) - math.floor(math.log10(highest or 1)))
        curve = Curve(label, points)
        yield Lines(title=title, x_label="step", y_label=label, series=[curve], percent=is_share, digits=digits)


def _measurements(log: Sequence[Measurement], metric: str) -> Table:
    rows = [
        [str(row.epoch), f"{row.step:,}", f"{row.learning_rate:.3g}", f"{row.loss:.4g}", percent(row.dev)]
        for row in log
    ]
    best = max(number for number, row in enumerate(log) if row.best)
    columns = ["epoch", "step", "learning rate", "mean loss since the row before", f"{metric} on dev"]
    return Table(
        title="Measurements", columns=columns, rows=rows, text_columns=1, best=[(best, 4)], numbers_in="log.jsonl"
    )


def _flags(options: Mapping[str, Option]) -> Table:
    rows = [[f"--{flag}", str(value)] for flag, value in options.items() if value is not None]
    return Table(title="Flags", columns=["flag", "value"], rows=rows, text_columns=2, numbers_in="run.json")
