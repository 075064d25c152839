"""The `token` orderer: a moving sequencer with k-resiliency and a core that changes without view changes (paper 001)."""
