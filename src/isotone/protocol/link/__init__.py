"""Per-peer FIFO links over packets that may be lost, repeated, reordered or cut off for a while."""
