"""The sans-IO core: one deterministic machine per process. No clock, socket, task, logging or unseeded randomness."""
