"""The paper's experiments, and parts of its method that the package does not need."""
