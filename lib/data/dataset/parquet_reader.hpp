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

}  // namespace trainctl::data
