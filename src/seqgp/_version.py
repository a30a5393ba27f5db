"""The version, read by the build and stored in saved models."""

__version__ = "0.1.0"
