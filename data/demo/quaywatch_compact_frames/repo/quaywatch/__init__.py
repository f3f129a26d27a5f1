"""Water levels of small harbours."""

__version__ = "0.7.2"
