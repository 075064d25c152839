"""The metrics of one short run, in NumPy and plain Python over its Arrow table: the definitions, without Spark.

Spark runs these inside tasks (`isotone.pipeline.metrics.short`); the queries over long histories are tested against them.
"""
