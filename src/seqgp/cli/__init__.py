"""The command line: one function for each command, registered in ``main``."""
