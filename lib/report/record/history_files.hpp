#pragma once

#include "events/records.hpp"
#include "report/record/run_files.hpp"

// Parsers for the files of a run folder. Each damaged part adds a sentence to `notes`.

namespace trainctl::report {

using Notes = std::vector<std::string>;

/// Parses JSON; returns a discarded value for invalid JSON and for nesting deeper than 64.
Json parse_bounded(std::string_view text);

/// Notes the damaged lines of a CSV file: lines with another number of cells than the header or
/// without an epoch, which are left out, and lines with a cell that should be a number.
void note_damage(const std::string& name, std::string_view text, Notes& notes);

/// Parses the "step" lines of metrics.jsonl.
StepLines steps_of(std::string_view metrics_jsonl, Notes& notes);
/// Returns the last epoch of each split.
std::vector<CountTable> tables_of(const std::string& metric, std::string_view text, Notes& notes);
/// Returns the rows of ranks.csv with hosts and devices from `result`.
std::vector<RankRow> ranks_of(std::string_view ranks_csv, const Json& result, Notes& notes);

/// Returns the sorted names in a folder with this ending; empty if it cannot be read.
std::vector<std::string> names_in(const fs::path& folder, std::string_view ending);
/// Returns the size of a file, or of the files directly in a folder, in bytes.
std::uint64_t bytes_in(const fs::path& path);
/// Returns "; it holds runs: take FOLDER/latest" if the folder contains runs; else empty.
std::string latest_hint(const fs::path& folder);

/// Returns the epochs in epochs.csv in ascending order, the last row of each epoch; cells that are
/// neither epoch, step, rate nor timing are metrics. Invalid rows are left out; empty if there is
/// no such file. `improved` and the digest are not in the file. Throws Error(resource) when it
/// cannot be read.
std::vector<events::EpochEnded> read_epochs(const std::filesystem::path& epochs_csv);
/// Returns the same from the text of the file.
std::vector<events::EpochEnded> parse_epochs(const std::string& text);

}  // namespace trainctl::report
