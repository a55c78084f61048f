"""Training: one loop for any device and any number of processes, and when to stop it."""
