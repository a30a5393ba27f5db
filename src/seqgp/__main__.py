"""The ``seqgp`` command and ``python -m seqgp``, where the extra ``cli`` is installed."""

from importlib import import_module

__all__ = ["main"]


def main() -> None:
    """Run the command line, or say in one sentence what it needs."""
    try:
        for name in ("typer", "rich"):
            import_module(name)
    except ImportError:
        raise SystemExit(
            "Error: the command line needs typer and rich: pip install 'seqgp[cli]'"
        ) from None
    from seqgp.cli.main import main as run

    run()


if __name__ == "__main__":
    main()
