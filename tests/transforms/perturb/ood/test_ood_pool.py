"""What becomes of the texts of sources."""

from importlib.resources import files

from kit import cases

from parapet.transforms.perturb import ood
from parapet.transforms.perturb.ood.utterances import Topics, key_of, merged, pool_numbers, pool_of, utterance_of

TOPICS = Topics({"bus": frozenset({"Buses"})}, {})


def pool(*texts, origin="x.txt"):
    return pool_of([utterance_of(text, f"{origin}:{i}", origin) for i, text in enumerate(texts)], TOPICS)


@cases(
    "text status",
    ("🙂 ...", "empty"),
    ("many words " * 50, "too_long"),
    ("Okay, thanks.", "generic"),
    ("At five, please.", "generic"),
    ("Why do wolves howl?", "kept"),
)
def test_what_becomes_of_a_text(text, status):
    kept, counts = pool(text, "Foxes bark.", "Owls hoot.")
    numbers = pool_numbers(counts)
    assert (numbers["different"], numbers[status]) == (3, 1 + 2 * (status == "kept"))
    assert (text in [one.text for one in kept]) == (status == "kept")


def test_who_understands_it():
    (wolf, bus), _ = pool("A wolf howls.", "The bus is late.")
    assert (wolf.about, bus.about) == ((), ("Buses",))


def test_our_own_lines_are_taken_as_they_are():
    assert len(pool("Yes.", "No.", "Why do wolves howl?", origin="chat")[0]) == 3


def test_the_same_words_are_one_utterance():
    same = [utterance_of("stop", "a:2", "own", ("A",)), utterance_of("STOP", "a:1", "own", ("A",))]
    same.insert(0, utterance_of("Stop!", "b:1", "own", ("B",), ("train",)))
    (one,) = merged(same)
    assert (one.text, one.source, one.about, one.splits) == ("STOP", "a:1", ("A", "B"), ("train",))
    assert merged(reversed(same)) == [one]


def test_our_small_talk():
    lines = files(ood).joinpath("small_talk.txt").read_text("utf-8").splitlines()
    assert len({key_of(line) for line in lines}) == len(lines) >= 300
    assert all(line.strip() == line and line[-1] in ".?!" and 3 <= len(line.split()) <= 20 for line in lines)
    assert 0.4 < sum(line.endswith("?") for line in lines) / len(lines) < 0.8
