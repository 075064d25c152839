"""The orderers: each decides, within one view, in which order its messages are delivered."""
