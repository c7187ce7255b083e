"""A T5 that is asked for one slot at a time, as "Schema-Driven Prompting" does (Lee, Cheng and Ostendorf 2021)."""
