"""Speech errors: user turns as a recogniser hears them, through noise, at a stated word error rate."""
