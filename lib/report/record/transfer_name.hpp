#pragma once

#include "report/record/run_files.hpp"
#include "report/record/run_record.hpp"

#include <span>
#include <string_view>

// Timing::h2d_s is the time of copies to a GPU; on a CPU nothing is copied to a device, and it is
// the time in which a batch is converted to the model's number format. Tables and texts say which;
// the keys of CSV and JSON files are `h2d_s` in both cases.

namespace trainctl::report {

/// "convert" for the device "cpu", else "h2d".
const char* transfer_name(std::string_view device);
/// The same by the device of rank 0; "h2d" where no rank has reported it.
const char* transfer_name(const RunRecord& record);

/// "convert batches" where all runs trained on CPUs, "copy to device" where all had GPUs, else
/// both.
const char* transfer_name(std::span<const RunFiles* const> runs);

}  // namespace trainctl::report
