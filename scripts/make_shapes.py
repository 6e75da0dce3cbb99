"""Pack a joint histogram of frames and tokens into the table that stopwav ships: python scripts/make_shapes.py CSV.

The CSV has the columns t_low, t_high, u_low, u_high (both inclusive) and count. Only the counts are shipped, with the
number of the bin along each axis.
"""

import csv
import sys
from pathlib import Path

import numpy as np

TABLE = Path(__file__).parent.parent / "src" / "stopwav" / "speech" / "data" / "librispeech_shapes.npz"


def pack(source: Path, table: Path = TABLE) -> None:
    """Write the counts of the non-empty bins, and the width of a bin."""
    with source.open(newline="") as file:
        rows = [{name: int(value) for name, value in row.items()} for row in csv.DictReader(file)]
    frames_width = rows[0]["t_high"] - rows[0]["t_low"] + 1
    tokens_width = rows[0]["u_high"] - rows[0]["u_low"] + 1
    np.savez_compressed(
        table,
        frames_bin=np.array([row["t_low"] // frames_width for row in rows], np.uint8),
        tokens_bin=np.array([row["u_low"] // tokens_width for row in rows], np.uint8),
        count=np.array([row["count"] for row in rows], np.uint16),
        widths=np.array([frames_width, tokens_width], np.uint8),
    )
    print(f"{len(rows)} bins, {sum(row['count'] for row in rows)} utterances: {table.stat().st_size} bytes")


if __name__ == "__main__":
    pack(Path(sys.argv[1]))
