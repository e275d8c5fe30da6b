#pragma once

#include "data/table.hpp"

#include <filesystem>
#include <memory>

namespace trainctl::data {

/// Whether this build reads Parquet.
bool has_parquet();

/// A Parquet file, row group by row group. Throws Error(data); in a build without Arrow
/// Error(config) that says so.
std::unique_ptr<TableRows> open_parquet(const std::filesystem::path& path);

}  // namespace trainctl::data
