"""Run-time switching between orderers within a view (paper 004)."""
