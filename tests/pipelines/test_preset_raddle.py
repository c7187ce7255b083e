"""``--preset raddle`` and ``--preset soloist`` of soloist against RADDLE (Peng et al. 2021), section 5."""

from parapet.evaluation.models.configs import SoloistConfig
from parapet.pipelines.config_flags import read_config
from parapet.pipelines.models import family_of

EPOCHS, BATCH_SIZE, RATE = 20, 1, 5e-5  # section 5


def flags(*argv):
    given = ["--checkpoint", "gpt2", "--output", "out", *argv]
    return family_of("soloist").train_parser().parse(given)[0]


def config(*argv):
    return read_config(SoloistConfig, flags(*argv), device="cpu")


def test_raddles_baselines_are_trained_as_the_paper_says():
    """Adam from 5e-5, batches of one turn, 20 epochs, nothing chosen on dev."""
    of = config("--preset", "raddle")
    assert (of.epochs, of.steps, of.batch_size, of.learning_rate) == (EPOCHS, None, BATCH_SIZE, RATE)
    assert (of.weight_decay, of.keep, of.consistency, of.clip) == (0.0, "last", 0.33, 1.0)
    total = 1000
    assert [of.rate(step, total) for step in (0, 250, 500, 999)] == [1.0, 0.75, 0.5, 0.001]
    assert config("--preset", "raddle", "--consistency", "0").consistency == 0.0
