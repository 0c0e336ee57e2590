"""`python -m bliss` is the command `bliss`."""

from bliss.cli import main

main()
