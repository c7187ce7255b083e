"""The translation memory: read from Parquet and folders, merged, written; and the engine ``embedded``."""

import io
import threading

import pyarrow as pa
import pyarrow.parquet as pq
from hypothesis import given
from hypothesis import strategies as st
from kit import cases, raised, write

from parapet.schemas.errors import InputError
from parapet.schemas.rows import MEMORY, Translation
from parapet.transforms.core.fence import Refused
from parapet.transforms.translate.embedded import Embedded
from parapet.transforms.translate.memory import Limits, make_batches, memory_bytes, merge, read_memory

NAME = Translation("google", "general/nmt", "en", "ko", "account name", "계정 이름")
DATE = Translation("google", "general/nmt", "en", "ko", "date, or day", "날짜")

rows = st.lists(st.builds(Translation, *[st.text(st.characters(codec="utf-8"), min_size=1)] * 6), max_size=8)


def parquet(path, columns):
    pq.write_table(pa.table(columns), path)
    return path


def columns_of(*given):
    return {name: [getattr(row, name) for row in given] for name in MEMORY.names}


@cases(
    "change where reason",
    ({"translation": ["y", None]}, "row 1", "translation is not a text"),
    ({"text": [5, 6]}, "row 0", "text is not a text"),
    ({"translation": ["y", ""]}, "row 1", "lacks a text or translation"),
)
def test_a_bad_parquet_row_is_told(tmp_path, change, where, reason):
    path = parquet(tmp_path / "m.parquet", {**columns_of(NAME, DATE), **change})
    error = raised(InputError, read_memory, path, match=reason)
    assert (error.path, error.where) == (str(path), where)


def test_files_that_are_no_memory(tmp_path):
    (tmp_path / "m.parquet").write_bytes(b"PAR1 or not")
    raised(InputError, read_memory, tmp_path, match="cannot be read as Parquet")
    columns = columns_of(NAME)
    del columns["target"]
    raised(InputError, read_memory, parquet(tmp_path / "m.parquet", columns), match="has no column 'target'")
    raised(InputError, read_memory, tmp_path / "none", match="there is no such file or folder")


@given(rows, st.randoms(use_true_random=False))
def test_the_same_rows_give_the_same_bytes(given, order):
    merged = merge(given)
    data = memory_bytes(merged)
    order.shuffle(merged)
    assert memory_bytes(merged) == data
    back = pq.read_table(io.BytesIO(data))
    assert back.schema.equals(MEMORY)
    assert [Translation(**row) for row in back.to_pylist()] == sorted(merged)


limits_of_all_kinds = st.builds(Limits, texts=st.integers(1, 10), codepoints=st.integers(1, 60))


def count_greedily(lengths, limits):
    """How many batches it takes to fill one after the other, by lengths alone."""
    batches, texts, codepoints = 0, 0, 0
    for length in lengths:
        texts, codepoints = texts + 1, codepoints + length
        if batches == 0 or texts > limits.texts or codepoints > limits.codepoints:
            batches, texts, codepoints = batches + 1, 1, length
    return batches


@given(st.sets(st.text(max_size=30), max_size=60), limits_of_all_kinds)
def test_each_text_is_in_one_batch_within_the_limits(texts, limits):
    batches, too_long = make_batches(texts, "en", "ko", limits)
    assert [text for batch in batches for text in batch.texts] == sorted(texts - set(too_long))
    assert too_long == sorted(text for text in texts if len(text) > limits.codepoints)
    for batch in batches:
        assert (batch.source, batch.target) == ("en", "ko")
        assert 1 <= len(batch.texts) <= limits.texts
        assert sum(map(len, batch.texts)) <= limits.codepoints
    assert len(batches) == count_greedily([len(text) for text in sorted(texts - set(too_long))], limits)


HUMAN = Translation("human", "", "en", "ko", "account name", "계좌 이름")


def test_a_folder_is_all_its_files_by_name(tmp_path):
    parquet(tmp_path / "b.parquet", {"note": ["x"], **dict(reversed(columns_of(NAME).items()))})
    parquet(tmp_path / "a.parquet", columns_of(HUMAN))
    write(tmp_path / "notes.txt", "nothing of it")
    write(tmp_path / "d.parquet", memory_bytes([]))
    assert (read_memory(tmp_path), read_memory(tmp_path / "a.parquet")) == ([HUMAN, NAME], [HUMAN])
    assert read_memory(str(tmp_path / "b.parquet")) == [NAME]


def test_the_embedded_engine_in_any_thread():
    """Its library crashes once the thread that loaded it has ended: each text here has a thread of its own."""
    answers = []
    for text in ("Good morning", "I need a taxi", "Good morning"):
        task = threading.Thread(target=lambda text=text: answers.extend(Embedded().translate([text, " "], "en", "pt")))
        task.start()
        task.join()
    assert answers == ["Bom dia", "", "Eu preciso de um táxi", "", "Bom dia", ""]
    told = "pair: en to de: the engine only translates between en and pt"
    raised(Refused, Embedded().translate, ["x"], "en", "de", match=told)
