"""What can go wrong."""


class RowkeeperError(Exception):
    """Base of all."""


class RowNotFound(RowkeeperError, LookupError):
    """No row has that key."""


class DuplicateKey(RowkeeperError, ValueError):
    """A row with that key is there already."""


class NotInTransaction(RowkeeperError, RuntimeError):
    """A transaction was used after it ended."""
