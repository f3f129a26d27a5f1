"""Instances and where they come from: what the rest of the product uses of this room.

model       the record; `families` makes it from a row, `writing` makes a row of it
dataset     load_dataset: rows found (`sources`, `huggingface`), checked (`row`, `fields`, `patches`),
            chosen (`selection`)
problems    what is wrong with a row, and where
seen        what was loaded from Hugging Face before
"""

from beyondswe.instances.dataset import Dataset, load_dataset
from beyondswe.instances.model import Family, Instance
from beyondswe.instances.problems import BadRow
from beyondswe.instances.writing import to_row, write_instances

__all__ = ["BadRow", "Dataset", "Family", "Instance", "load_dataset", "to_row", "write_instances"]
