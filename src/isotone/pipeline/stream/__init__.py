"""Structured Streaming over the traces that a live group is writing: running verdicts and metrics (`isotone watch`)."""
