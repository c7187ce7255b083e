"""Speech errors: user turns as a recogniser hears them, through noise, at a stated word error rate."""

# Defaults: signal-to-noise ratios that may be used, dB; texts that are heard first; characters that are still said.
RATIOS, SAMPLE, LONGEST = "20,15,13,11,9,7,5", 24, 1000
