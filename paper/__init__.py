"""The experiments of the paper and of this project, run from the project's root: ``python -m paper``."""
