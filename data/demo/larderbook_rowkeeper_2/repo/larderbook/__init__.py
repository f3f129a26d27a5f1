"""What is in the larder, what must be eaten, what must be bought."""

__version__ = "1.3.0"
