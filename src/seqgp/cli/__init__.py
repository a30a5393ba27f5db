"""The command line: one function for each command, registered in ``main``."""

__all__: list[str] = []
