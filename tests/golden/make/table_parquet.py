#!/usr/bin/env python3
"""Writes tests/golden/data/table.parquet with pyarrow: two row groups with numbers, nulls, names and a list column.

usage: table_parquet.py FILE"""

import sys

import pyarrow as pa
import pyarrow.parquet as pq

table = pa.table({
    "a": pa.array([1, 2, None, 4, 5], pa.int32()),
    "b": pa.array([0.5, float("nan"), 1.5, 2.5, 3.5], pa.float64()),
    "kind": pa.array(["owl", "crow", "owl", None, "emu"]),
    "list": pa.array([[1], [2], [], [3], [4]]),
    "y": pa.array([0, 1, 2, 1, 0], pa.int64()),
})
pq.write_table(table, sys.argv[1], row_group_size=3)
