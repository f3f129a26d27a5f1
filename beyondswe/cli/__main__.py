"""``python -m beyondswe.cli``."""

from beyondswe.cli import main

main()
