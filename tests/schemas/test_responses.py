""""""

import pyarrow as pa
import pytest

from parapet.schemas.rows import AuditRow, audit_table


def test_a_variant_must_be_a_small_number():
    bad = AuditRow("r", "e", "name", "", "", "used", "", 1_000, None, "", None, None, None)
    with pytest.raises(pa.ArrowInvalid):
        audit_table([bad])
