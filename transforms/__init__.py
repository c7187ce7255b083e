"""What is done to records: pure functions, and the thin PTransforms that wire them."""
