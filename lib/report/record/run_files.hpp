#pragma once

#include "report/diagnosis/ranks.hpp"

// Reads the files of a run folder. No file is trusted: a missing or damaged file only loses its own
// data, and is named in the notes.

namespace trainctl::report {

/// The logged steps in order, at most about 50,000; beyond that, every second step is dropped.
/// Values that metrics.jsonl lacks are NaN.
class StepLines {
 public:
  void add(const events::StepLogged& line);
  [[nodiscard]] const std::vector<events::StepLogged>& lines() const { return lines_; }
  /// Returns N if one in N steps was kept.
  [[nodiscard]] std::int64_t kept_every() const { return every_; }

 private:
  std::vector<events::StepLogged> lines_;
  std::int64_t every_ = 1;
  std::int64_t seen_ = 0;
};

/// A metric that is a table, in its last state: val/confusion_matrix.
struct CountTable {
  std::string metric;
  std::string split;
  std::int64_t epoch = 0;  // counted from 1
  std::vector<std::vector<std::int64_t>> counts;
};

/// A checkpoint in the folder.
struct CheckpointName {
  std::string name;  // "epoch=3-step=938", "best.safetensors"
  std::uint64_t bytes = 0;
};

/// The contents of a run folder.
struct RunFiles {
  fs::path folder;
  std::string name;  // of the experiment, or else of the folder
  std::vector<events::EpochEnded> epochs;
  StepLines steps;
  std::vector<CountTable> tables;
  std::vector<RankRow> ranks;
  std::vector<CheckpointName> checkpoints;
  std::string samples;  // the newest file of samples/, a PNG picture; empty: no samples
  Json result;          // null if there is no such file
  Json manifest;        // null if there is no such file
  std::string config;   // config.resolved.yaml; empty if there is no such file
  std::vector<std::pair<std::string, std::string>> values;  // "optimizer.lr" -> "0.001"
  std::vector<std::string> notes;  // about missing or damaged files, one sentence each

  /// Returns the value of a config key; nullopt if the config lacks it.
  [[nodiscard]] std::optional<std::string> value(std::string_view key) const;
};

/// Returns whether the folder contains any file of a run.
bool is_run_folder(const fs::path& folder);

enum class Histories { read, leave_out };
/// Reads a run folder. Never throws for the contents of files; with `leave_out` it only reads
/// config, manifest, result and checkpoints. Throws Error(config) when the folder is not a run
/// folder.
RunFiles read_run(const fs::path& folder, Histories histories = Histories::read);

/// Reads a JSON document with a schema such as "trainctl.bench/2", at most 64 MiB and nested 64
/// deep. Throws Error(config) that names the file.
Json read_document(const fs::path& file);
/// Returns the schema; empty if the document has none.
std::string schema_of(const Json& document);

/// Return a member of an object as text, number or object; empty, NaN or null if it is missing or
/// has another type. Numbers that are not finite are stored as the texts of json_number().
std::string text_at(const Json& object, std::string_view key);
double number_at(const Json& object, std::string_view key);
const Json& member(const Json& object, std::string_view key);
/// Returns a number; nullopt if it is missing or not finite.
std::optional<double> finite_at(const Json& object, std::string_view key);
/// Returns a list of numbers, with NaN for each other entry; empty if it is missing.
std::vector<double> numbers_at(const Json& object, std::string_view key);

// Timing::h2d_s is the time of copies to a GPU. On a CPU no copy is needed, and it is the time of
// converting a batch to the model's number format. Tables and texts distinguish the two; the key in
// CSV and JSON files is `h2d_s` in both cases.

/// Returns "convert" for the device "cpu", else "h2d".
const char* transfer_name(std::string_view device);
/// Returns the same for the device of rank 0; "h2d" if no rank has reported its device.
const char* transfer_name(const RunRecord& record);

/// Returns "convert batches" if all runs trained on CPUs, "copy to device" if all used GPUs, else
/// both.
const char* transfer_name(std::span<const RunFiles* const> runs);

/// Sentences, one about each damaged part of a file.
using Notes = std::vector<std::string>;

/// Notes the damaged lines of a CSV file: lines with another number of cells than the header or
/// without an epoch, which are left out, and lines with a cell that should be a number.
void note_damage(const std::string& name, std::string_view text, Notes& notes);

/// Parses the "step" lines of metrics.jsonl.
StepLines steps_of(std::string_view metrics_jsonl, Notes& notes);

/// Returns the sorted names in a folder with this ending; empty if it cannot be read.
std::vector<std::string> names_in(const fs::path& folder, std::string_view ending);

/// Returns the epochs in epochs.csv in ascending order, the last row of each epoch; cells that are
/// neither epoch, step, rate nor timing are metrics. Invalid rows are left out; empty if there is
/// no such file. `improved` and the digest are not in the file. Throws Error(resource) when it
/// cannot be read.
std::vector<events::EpochEnded> read_epochs(const std::filesystem::path& epochs_csv);

}  // namespace trainctl::report
