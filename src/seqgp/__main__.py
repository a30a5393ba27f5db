"""``python -m seqgp``: the command line."""

from seqgp.cli.main import main

if __name__ == "__main__":
    main()
