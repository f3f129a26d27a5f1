"""The target of an instance: what its record says, for the blocklist.

Apart from the rest of this package, which the egress proxy loads where instances cannot be imported.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from beyondswe.blocklist.types import Target

if TYPE_CHECKING:
    from beyondswe.instances import Instance


def target_of(instance: Instance) -> Target:
    """What an instance's repository is called; fields that the record lacks are guessed by rules on names."""
    return Target(
        repo=instance.repo,
        distributions=instance.distributions,
        aliases=instance.aliases,
        docs_hosts=instance.docs_hosts,
    )
