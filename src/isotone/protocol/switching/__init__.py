"""Run-time switching between orderers within a view (paper 004), and the decision when to switch."""
