#pragma once

// The one door of libtrainctl_parquet.so.

namespace trainctl::data {

class TableRows;

constexpr const char* kParquetLibrary = "libtrainctl_parquet.so";
constexpr const char* kParquetSymbol = "trainctl_parquet_open_1";

/// The file's rows, which the caller owns. Throws Error.
using ParquetOpen = TableRows* (*)(const char* path);

}  // namespace trainctl::data
