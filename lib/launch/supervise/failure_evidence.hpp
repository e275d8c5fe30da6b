#pragma once

#include "base/error.hpp"
#include "events/records.hpp"

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>

// What is known about a rank that failed, beside its exit status.

namespace trainctl::launch {

/// logs/rank_N.error.json.
std::filesystem::path error_path(const std::filesystem::path& log_folder, int rank);
/// Writes logs/rank_N.error.json: the worker's last word, for when the event pipe is gone. Throws
/// Error(resource).
void write_error_file(const std::filesystem::path& log_folder, int rank, const Error& error);
/// Reads it back; nothing where there is none or it makes no sense.
std::optional<events::Failed> read_error_file(const std::filesystem::path& log_folder, int rank);
/// Removes the one of an earlier run in the same folder.
void remove_error_file(const std::filesystem::path& log_folder, int rank);

std::filesystem::path log_path(const std::filesystem::path& log_folder, int rank);
/// The last lines of a log, safe to print; empty where there is none.
std::string log_tail(const std::filesystem::path& log);

}  // namespace trainctl::launch
