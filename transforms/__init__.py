"""Operations on records: pure functions, and thin PTransforms that connect them."""
