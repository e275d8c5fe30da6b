#pragma once

#include "events/records.hpp"
#include "report/record/run_files.hpp"

// The files of a run folder, each from its text. What is damaged gets a sentence in `notes`.

namespace trainctl::report {

using Notes = std::vector<std::string>;

/// Discarded where it is no JSON or nested deeper than 64.
Json parse_bounded(std::string_view text);

/// Notes the damaged lines of a CSV file: those of another number of cells than the header or
/// without an epoch, which are left out, and those with a cell that should be a number.
void note_damage(const std::string& name, std::string_view text, Notes& notes);

StepLines steps_of(std::string_view metrics_jsonl, Notes& notes);
/// The last epoch of each split.
std::vector<CountTable> tables_of(const std::string& metric, std::string_view text, Notes& notes);
/// `result` tells their hosts and devices.
std::vector<RankRow> ranks_of(std::string_view ranks_csv, const Json& result, Notes& notes);

/// Names in a folder that end so, sorted; none where it cannot be read.
std::vector<std::string> names_in(const fs::path& folder, std::string_view ending);
/// Of a file, or of the files right in a folder.
std::uint64_t bytes_in(const fs::path& path);
/// "; it holds runs: take FOLDER/latest" where it does.
std::string latest_hint(const fs::path& folder);

/// The epochs that epochs.csv tells of, each number's last row, ascending; its cells that are
/// neither epoch, step, rate nor timing are metrics. Rows that make no sense are left out; nothing
/// where there is no such file. `improved` and the digest are not in the file. Throws
/// Error(resource) where it cannot be read.
std::vector<events::EpochEnded> read_epochs(const std::filesystem::path& epochs_csv);
/// The same of its text.
std::vector<events::EpochEnded> parse_epochs(const std::string& text);

}  // namespace trainctl::report
