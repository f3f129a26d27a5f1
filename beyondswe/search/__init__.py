"""The two web tools of the loop agent: `search` over interchangeable backends, `link_summary` over readers."""
