#pragma once

#include "train/debug/numerics_file.hpp"

#include <filesystem>
#include <string>

namespace trainctl::train {

/// What could not be had of a dump; empty where it could.
struct Missing {
  std::string unrepeated;  // why the step could not be repeated at once
  std::string unwritten;   // why there is no file to repeat it from
};

/// What a person reads first: where the step stands, the rows and the tensors that are not finite,
/// and what to do.
std::string report_text(const Numerics& numerics, const Missing& missing);

/// report.txt and report.json; of other ranks than 0 report.rank_N.txt and .json. Throws
/// Error(resource).
void write_report(const std::filesystem::path& folder, const Numerics& numerics,
                  const Missing& missing);

}  // namespace trainctl::train
