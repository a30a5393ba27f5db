"""The paper's experiments, by command: ``seqgp reproduce``."""
