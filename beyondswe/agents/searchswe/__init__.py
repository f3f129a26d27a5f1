"""SearchSWE: the loop agent, on the host side of the sandbox, with or without its two web tools."""
