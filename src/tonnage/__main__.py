"""`python -m tonnage` is `tonnage`."""

from tonnage.cli import main

if __name__ == "__main__":
    main()
