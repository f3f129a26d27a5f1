"""Small typed tables in one SQLite file. What changed since 1.x: https://rowkeeper.example/notes/2.0.html"""

from rowkeeper.errors import DuplicateKey, NotInTransaction, RowkeeperError, RowNotFound
from rowkeeper.query import Query, ge, gt, le, lt, ne, prefix
from rowkeeper.schema import Column, Schema
from rowkeeper.store import Change, Store, Transaction

__all__ = [
    "Change",
    "Column",
    "DuplicateKey",
    "NotInTransaction",
    "Query",
    "RowNotFound",
    "RowkeeperError",
    "Schema",
    "Store",
    "Transaction",
    "ge",
    "gt",
    "le",
    "lt",
    "ne",
    "prefix",
]
__version__ = "2.0.0"
