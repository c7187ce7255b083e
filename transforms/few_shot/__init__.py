"""Few-shot splits: small training sets for each domain, with their tests (RADDLE, Peng et al. 2021, section 4)."""
