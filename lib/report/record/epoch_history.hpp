#pragma once

#include "events/records.hpp"

#include <filesystem>
#include <string>
#include <vector>

namespace trainctl::report {

/// The epochs that epochs.csv tells of, each number's last row, ascending; its cells that are
/// neither epoch, step, rate nor timing are metrics. Rows that make no sense are left out; nothing
/// where there is no such file. `improved` and the digest are not in the file. Throws
/// Error(resource) where it cannot be read.
std::vector<events::EpochEnded> read_epochs(const std::filesystem::path& epochs_csv);
/// The same of its text.
std::vector<events::EpochEnded> parse_epochs(const std::string& text);

}  // namespace trainctl::report
