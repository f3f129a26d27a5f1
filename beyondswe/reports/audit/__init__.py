"""Who looked at the answer: the audit of a run from its trajectories and egress logs.

`events` reads them, `answers` knows where the answer lies, `judge` decides, `regrade` writes a run without the cheats.
"""
