from hypothesis import given, settings
from hypothesis import strategies as st

from parapet.transforms.crowd.hits.markup import MAX_NAME, page_name
from parapet.transforms.storage.files import join

IDS = st.one_of(
    st.text(),
    st.text(st.sampled_from("./\\%~aA2f:\0\n")),
    st.text(st.sampled_from("\U0001f600\u00e9x"), min_size=100, max_size=250),
)


@settings(deadline=None, max_examples=300)  # other tests may hold the machine
@given(IDS, IDS)
def test_no_name_leaves_its_folder_and_no_two_ids_share_one(one, other):
    for name in (page_name(one), page_name(other)):
        assert len(name) <= MAX_NAME
        assert name.isascii()
        path = join("out", f"pages/{name}.0.rewrites.html")
        assert path == f"out/pages/{name}.0.rewrites.html"
    assert (page_name(one) == page_name(other)) == (one == other)
