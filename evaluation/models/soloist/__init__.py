"""A sequence model in the manner of SOLOIST: history, belief state, database state, response (Peng et al. 2021)."""
