"""`python -m flyball` is the program `flyball`."""

from flyball._command import main

main()
