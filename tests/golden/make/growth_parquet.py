#!/usr/bin/env python3
"""Writes tests/golden/data/growth_small.parquet and growth_large.parquet with pyarrow: the large table has 32 times as many rows.

usage: growth_parquet.py FOLDER"""

import pathlib
import sys

import pyarrow as pa
import pyarrow.parquet as pq

for name, rows in (("small", 1_000), ("large", 32_000)):
    table = pa.table({
        "a": pa.array([float(row % 16) for row in range(rows)]),
        "kind": pa.array([f"kind{row % 16}" for row in range(rows)]),
        "y": pa.array([row % 4 for row in range(rows)], pa.int64()),
    })
    pq.write_table(table, pathlib.Path(sys.argv[1]) / f"growth_{name}.parquet", row_group_size=500, compression="zstd",
                   write_statistics=False)
