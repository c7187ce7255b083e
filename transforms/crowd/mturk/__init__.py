"""MTurk for real: one process, every call that changes something journalled before and after. No Beam in here."""
