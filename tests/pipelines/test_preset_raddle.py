"""``--preset raddle`` and ``--preset soloist`` of soloist against RADDLE (Peng et al. 2021), section 5."""

from parapet.evaluation.models.configs import SoloistConfig
from parapet.pipelines.config_flags import read_config
from parapet.pipelines.models import family_of

EPOCHS, BATCH_SIZE, RATE = 20, 1, 5e-5  # section 5


EPOCHS, BATCH_SIZE, RATE = 20, 1, 5e-5  # section 5


EPOCHS, BATCH_SIZE, RATE = 20, 1, 5e-5  # section 5


def flags(*argv):
    return family_of("soloist").train_parser().parse(["--checkpoint", "gpt2", "--output", "out", *argv])[0]


def config(*argv):
    return read_config(SoloistConfig, flags(*argv), device="cpu")


def test_pre_training_is_as_in_the_authors_script():
    of = config("--preset", "soloist")
    assert (of.epochs, of.steps, of.batch_size, of.learning_rate) == (None, 500_000, 20, RATE)
    assert (of.weight_decay, of.keep, of.consistency, of.schedule, of.warmup) == (0.0, "last", 0.33, "linear", 0.0)
