"""Orders that let messages pass each other which commute (paper 002)."""
