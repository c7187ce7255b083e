import codecs
import csv
import io

from hypothesis import assume, given
from hypothesis import strategies as st
from kit import cases

from parapet.transforms.crowd.answer_files import read_lines, read_records

CELL = st.text(st.sampled_from('ab,;"\n\r\t é\u2028\x85\x0b\x00中😀')) | st.text(
    st.characters(exclude_categories=["Cs"])
)
FLAT = st.text(st.sampled_from("ab;' é中"), max_size=6)  # no quotes, commas or line breaks
QUOTING = st.sampled_from([csv.QUOTE_ALL, csv.QUOTE_MINIMAL])
END = st.sampled_from(["\n", "\r\n"])


@st.composite
def tables(draw, cell=CELL, rows=6):
    width = draw(st.integers(2, 5))
    return draw(st.lists(st.lists(cell, min_size=width, max_size=width), min_size=1, max_size=rows))


@st.composite
def exports(draw):
    """Tables as the requester site has them: every cell quoted, the first one an id."""
    return [[f"k{i}", *row] for i, row in enumerate(draw(tables()))]


def written(table, quoting=csv.QUOTE_ALL, end="\r\n"):
    out = io.StringIO(newline="")
    csv.writer(out, quoting=quoting, lineterminator=end).writerows(table)
    return out.getvalue()


def records(data, encoding="utf-8"):
    if isinstance(data, str):
        data = data.encode()
    return list(read_records(read_lines(io.BufferedReader(io.BytesIO(data)), encoding)))


def good(found):
    return [record.cells for record in found if not record.problem]


def problems(found):
    return [(record.number, record.problem) for record in found if record.problem]


# --- whole tables ----------------------------------------------------------------------------------------------------


@given(tables(), QUOTING, END)
def test_valid_tables_are_read_as_pythons_csv_reads_them(table, quoting, end):
    text = written(table, quoting, end)
    plain = list(csv.reader(io.StringIO(text, newline=""), strict=True))
    assume(plain == table)  # the writer does not quote a \r where lines end with \n
    found = records(text)
    assert (problems(found), good(found)) == ([], table)


@given(tables(), st.sampled_from([("utf-8-sig", b""), ("utf-16", b""), ("utf-16-be", codecs.BOM_UTF16_BE)]))
def test_a_byte_order_mark_decides(table, written_as):
    encoding, mark = written_as
    # The reader tells undecodable places of wide encodings by U+FFFD.
    assume(not any("\ufffd" in cell for row in table for cell in row))
    found = records(mark + written(table).encode(encoding), encoding="ascii")
    assert (problems(found), good(found)) == ([], table)


@given(tables(st.text(st.characters(codec="latin-1"))))
def test_a_named_encoding(table):
    assert good(records(written(table).encode("latin-1"), encoding="latin-1")) == table


@given(tables(FLAT), st.integers(0, 6))
def test_numbers_are_those_of_lines(table, blank):
    numbers = [record.number for record in records(written(table[:1]) + "\r\n" * blank + written(table[1:]))]
    assert numbers == [1, *range(2 + blank, 1 + blank + len(table))]


@cases("data", b"", b"\n", b"\r\n\r\n  \n", codecs.BOM_UTF8, codecs.BOM_UTF16_LE, b"\n\n\n\n\n")
def test_nothing_in_it(data):
    assert records(data) == []


# --- one broken row --------------------------------------------------------------------------------------------------


def broken_apart(table, broken, text):
    """The table with the text in the place of one row. Returns records, and the other rows."""
    before, after = written(table[: broken + 1]), written(table[broken + 1 :])
    raw = text if isinstance(text, bytes) else text.encode()
    return records(before.encode() + raw + after.encode()), table


@given(exports(), st.data())
def test_one_stray_quote_costs_its_own_row_only(table, data):
    broken = data.draw(st.integers(0, len(table) - 1))
    row = written([[f"x{i}" for i in range(len(table[0]))]], data.draw(QUOTING))
    at = data.draw(st.integers(0, len(row) - 2))
    row = row[:at] + '"' + row[at:]
    found, others = broken_apart(table, broken, row)
    lines = row.count("\n")
    # A quote may stand inside an unquoted cell, where it is a quote and nothing else.
    plain = list(csv.reader(io.StringIO(row, newline="")))
    taken = [cells for cells in good(found) if cells not in others]
    assert good([record for record in found if record.cells not in taken]) == others
    assert problems(found) or taken == plain
    assert len(problems(found)) + len(taken) == lines


@given(exports(), st.data())
def test_a_row_of_another_width_costs_itself_only(table, data):
    broken = data.draw(st.integers(0, len(table) - 1))
    width = len(table[0])
    cells = data.draw(st.lists(FLAT, min_size=1, max_size=width + 3).filter(lambda row: len(row) != width))
    found, others = broken_apart(table, broken, written([cells]))
    assert good(found) == others
    told = f"broken_row: the row has {len(cells)} cells, but the header has {width}"
    assert [problem for _, problem in problems(found)] == [told]


@given(exports(), st.data())
def test_a_byte_of_another_encoding_costs_its_own_row_only(table, data):
    broken = data.draw(st.integers(0, len(table) - 1))
    row = written([[f"x{i}" for i in range(len(table[0]))]]).encode()
    at = data.draw(st.integers(0, len(row) - 2))
    odd = data.draw(st.sampled_from([b"\xe9", b"\xff", b"\xc3"]))
    found, others = broken_apart(table, broken, row[:at] + odd + row[at:])
    assert good(found) == others
    (broken_record,) = [record for record in found if record.problem]
    assert broken_record.problem == "encoding: the row is not UTF-8; save the file as UTF-8"
    assert "x0" in broken_record.raw or at <= 3


@given(exports(), st.data())
def test_a_broken_row_of_several_lines_costs_no_other_row(table, data):
    broken = data.draw(st.integers(0, len(table) - 1))
    # The text begins with letters that no other row has, so that what comes of it can be told.
    cells = ["zz" + data.draw(FLAT) + "\nzz" + data.draw(FLAT) for _ in table[0]]
    row = written([cells])
    at = data.draw(st.integers(1, len(row) - 3))
    found, others = broken_apart(table, broken, row[:at] + '"' + row[at:])
    rest = [cells for cells in good(found) if not any("zz" in cell for cell in cells)]
    assert rest == [row for row in others if not any("zz" in cell for cell in row)]


def test_a_latin_1_byte_inside_quoted_lines():
    found = records(b'a,b\n"1\n\xe9\n2",3\n4,5\n')
    assert good(found) == [["a", "b"], ["4", "5"]]
    assert problems(found)[0] == (2, "encoding: the row is not UTF-8; save the file as UTF-8")


# --- lines -----------------------------------------------------------------------------------------------------------


@cases("name", "utf-16-le", "UTF-16-LE", "utf_16_le", "UTF-16LE")
def test_a_wide_encoding_without_a_mark_may_be_named_in_any_spelling(name):
    assert good(records("a,b\r\né,😀\r\n".encode("utf-16-le"), encoding=name)) == [["a", "b"], ["é", "😀"]]
