""""""

import pyarrow as pa
from kit import raised

from parapet.schemas.rows import AuditRow, audit_table


def test_a_variant_must_be_a_small_number():
    bad = AuditRow("r", "e", "name", "", "", "used", "", 1_000, None, "", None, None, None)
    raised(pa.ArrowInvalid, audit_table, [bad])
