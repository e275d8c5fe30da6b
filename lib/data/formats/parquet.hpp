#pragma once

#include "data/formats/table.hpp"

#include <filesystem>
#include <memory>

namespace trainctl::data {

/// Whether Parquet can be read: libtrainctl_parquet.so, which builds with Arrow have, loads. Arrow
/// is loaded with it when it is first asked for: linked, it would make every start some 10 ms
/// longer.
bool has_parquet();

/// A Parquet file, row group by row group. Throws Error(data); where Parquet cannot be read,
/// Error(config) that says what to do.
std::unique_ptr<TableRows> open_parquet(const std::filesystem::path& path);

// The one door of libtrainctl_parquet.so.

class TableRows;

constexpr const char* kParquetLibrary = "libtrainctl_parquet.so";
constexpr const char* kParquetSymbol = "trainctl_parquet_open_3";
constexpr const char* kParquetVersionSymbol = "trainctl_parquet_version";

/// The rows of an open file, which the caller owns; `name` is what errors call it. Throws Error.
using ParquetOpen = TableRows* (*)(int fd, const char* name);

}  // namespace trainctl::data
