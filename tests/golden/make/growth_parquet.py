#!/usr/bin/env python3
"""Writes tables with pyarrow to measure the growth of reading them: growth_large.parquet has 32 times the rows of growth_small.parquet,
and growth_wide.parquet 32 times the columns of growth_narrow.parquet.

usage: growth_parquet.py FOLDER"""

import pathlib
import sys

import pyarrow as pa
import pyarrow.parquet as pq


def write(name, columns, **options):
    pq.write_table(pa.table(columns), pathlib.Path(sys.argv[1]) / f"growth_{name}.parquet", row_group_size=500, compression="zstd",
                   write_statistics=False, **options)


for name, rows in (("small", 1_000), ("large", 32_000)):
    write(name, {
        "a": pa.array([float(row % 16) for row in range(rows)]),
        "kind": pa.array([f"kind{row % 16}" for row in range(rows)]),
        "y": pa.array([row % 4 for row in range(rows)], pa.int64()),
    })
for name, columns in (("narrow", 20), ("wide", 640)):
    write(name, {"y": pa.array([0, 1], pa.int64())} | {f"c{column}": pa.array([0.5, column % 7]) for column in range(columns)}, use_dictionary=False)
