"""Every pipeline's output as the value of every flag that reads a file or folder."""
