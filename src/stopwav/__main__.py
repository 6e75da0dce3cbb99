"""`python -m stopwav`."""

from stopwav.cli import main

if __name__ == "__main__":
    main()
