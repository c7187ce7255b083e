"""What is installed and set up on this machine: found without a network, and without importing what is large."""
