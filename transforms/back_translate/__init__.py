"""Schemas through another language and back: one variant per pivot (Lee et al. 2022, "Schema Augmentation")."""
