"""Judges recorded histories: the PySpark checks and metrics, and the oracle in plain Python. Importing it loads no Spark."""
