"""``python -m beyondswe``."""

from beyondswe.cli import main

main()
