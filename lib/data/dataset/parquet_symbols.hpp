#pragma once

// The one door of libtrainctl_parquet.so.

namespace trainctl::data {

class TableRows;

constexpr const char* kParquetLibrary = "libtrainctl_parquet.so";
constexpr const char* kParquetSymbol = "trainctl_parquet_open_3";
constexpr const char* kParquetVersionSymbol = "trainctl_parquet_version";

/// The rows of an open file, which the caller owns; `name` is what errors call it. Throws Error.
using ParquetOpen = TableRows* (*)(int fd, const char* name);

}  // namespace trainctl::data
