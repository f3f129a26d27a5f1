"""What counts as the target: one module that decides for search results, pages, the proxy and bash alike.

Pure functions over a `Target` and a `Policy`; only the standard library and ``ada_url`` at import, as the egress proxy
loads this package in an environment of its own. docs/blocklist.md has the rules, with an example each.
"""

from beyondswe.blocklist.bash.judge import decide_command
from beyondswe.blocklist.packages import file_distribution, is_index_path, package_of
from beyondswe.blocklist.texts import decide_text
from beyondswe.blocklist.types import DEFAULT, Decision, Policy, Target
from beyondswe.blocklist.urls import decide_url

__all__ = [
    "DEFAULT",
    "Decision",
    "Policy",
    "Target",
    "decide_command",
    "decide_text",
    "decide_url",
    "file_distribution",
    "is_index_path",
    "package_of",
]
