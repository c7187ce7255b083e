"""Mutated input for every reader, every pipeline and every function of one record: ``make fuzz``, and a minute of it
in ``make test``. Whatever comes in, there is an output, a dead letter or an InputError, in bounded time and memory.
"""
