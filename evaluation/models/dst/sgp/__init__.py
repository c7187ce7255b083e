"""SGP-DST (Ruan, Ling, Gu and Liu 2020, the DSTC8 workshop): four BERT encoders and the rules that combine them.

"Fine-Tuning BERT for Schema-Guided Zero-Shot Dialogue State Tracking", with the code that its authors published,
trained as Lee et al. 2022 did for SGD-X. docs/train_dst.md says what differs from theirs.
"""
