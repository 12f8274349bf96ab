"""`python -m levyscreen`: the command where its script is not on the path."""

from levyscreen.cli.entry import main

if __name__ == "__main__":
    main()
