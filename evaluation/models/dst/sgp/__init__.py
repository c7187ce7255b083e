"""Four BERT encoders and the rules that combine them: SGP-DST (Ruan, Ling, Gu and Liu 2020, the DSTC8 workshop).

"Fine-Tuning BERT for Schema-Guided Zero-Shot Dialogue State Tracking", with the code that its authors published.
docs/train_dst.md says what differs from theirs.
"""
