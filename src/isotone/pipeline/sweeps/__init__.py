"""Sweeps: an experiment's cells (scenario × grid × seed) as Spark tasks that simulate, check and measure."""
