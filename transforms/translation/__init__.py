"""Texts into other languages: engines, batches within their limits, a memory that pays for each text once."""
