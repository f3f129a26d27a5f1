"""quaywatch --stations FILE CAPTURE: draw the board from a captured stream."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from gaugewire import FrameError, read_frames

from quaywatch.board import board
from quaywatch.decode import decode_all
from quaywatch.stations import StationError, parse_stations


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="quaywatch", description="Water levels of small harbours.")
    parser.add_argument("--stations", type=Path, required=True)
    parser.add_argument("capture", type=Path)
    options = parser.parse_args(arguments)
    try:
        stations = parse_stations(options.stations.read_text(encoding="utf-8"))
        decoded = decode_all(read_frames(options.capture.read_bytes()))
    except (OSError, StationError, FrameError) as error:
        print(f"quaywatch: {error}", file=sys.stderr)
        return 2
    print(board(stations, decoded.readings))
    for reason, count in decoded.skipped.items():
        print(f"skipped {count}: {reason}", file=sys.stderr)
    return 0


if __name__ == "__main__":
    sys.exit(main())
