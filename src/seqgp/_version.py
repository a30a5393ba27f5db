"""The version, read by the build and stored in saved models."""

__all__ = ["__version__"]

__version__ = "0.1.0"
