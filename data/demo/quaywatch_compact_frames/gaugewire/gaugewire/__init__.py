"""Frames of the gaugewire protocol."""

from gaugewire.frames import Frame, FrameError, Kind, pack, read_frames

__all__ = ["Frame", "FrameError", "Kind", "pack", "read_frames"]
__version__ = "1.4.0"
