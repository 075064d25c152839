"""What a worker does with one piece of a trace: NumPy and Arrow, no Spark, so that the same code serves everywhere."""
