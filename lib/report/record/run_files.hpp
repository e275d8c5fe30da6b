#pragma once

#include "base/files.hpp"
#include "base/json.hpp"
#include "events/records.hpp"
#include "report/diagnosis/ranks.hpp"
#include "report/record/run_record.hpp"

// What a run has left in its folder, read by those who were not there. Nothing of it is trusted: a
// file that is missing or damaged costs its part only, and is named.

namespace trainctl::report {

/// A "step" line of metrics.jsonl; what it does not tell is NaN.
struct StepLine {
  std::int64_t epoch = 0;  // from 1
  std::int64_t step = 0;
  double elapsed_s = 0;
  double lr = 0;
  double loss = 0;
  double grad_norm = 0;
  double param_norm = 0;
};

/// Steps in their order, about 50,000 at most: where there are more, every second one goes.
class StepLines {
 public:
  void add(const StepLine& line);
  [[nodiscard]] const std::vector<StepLine>& lines() const { return lines_; }
  /// Each of so many was kept.
  [[nodiscard]] std::int64_t kept_every() const { return every_; }

 private:
  std::vector<StepLine> lines_;
  std::int64_t every_ = 1;
  std::int64_t seen_ = 0;
};

/// A metric that is a table, as it was last: val/confusion_matrix.
struct CountTable {
  std::string metric;
  std::string split;
  std::int64_t epoch = 0;  // from 1
  std::vector<std::vector<std::int64_t>> counts;
};

/// A checkpoint as it lies in the folder.
struct CheckpointName {
  std::string name;  // "epoch=3-step=938", "best.safetensors"
  std::uint64_t bytes = 0;
};

struct RunFiles {
  fs::path folder;
  std::string name;  // of the experiment; else of the folder
  std::vector<events::EpochEnded> epochs;
  StepLines steps;
  std::vector<CountTable> tables;
  std::vector<RankRow> ranks;
  std::vector<CheckpointName> checkpoints;
  Json result;         // null where there is none
  Json manifest;       // the same
  std::string config;  // config.resolved.yaml; empty where there is none
  std::vector<std::pair<std::string, std::string>> values;  // of it: "optimizer.lr" -> "0.001"
  std::vector<std::string> notes;  // what is missing or damaged, a sentence each

  [[nodiscard]] std::optional<std::string> value(std::string_view key) const;
};

/// Whether something that a run leaves lies there.
bool is_run_folder(const fs::path& folder);

enum class Histories { read, leave_out };
/// Never throws for what the files hold; without the histories only config, manifest, result and
/// checkpoints. Throws Error(config) where that is no run folder.
RunFiles read_run(const fs::path& folder, Histories histories = Histories::read);

/// A JSON document with its schema, as "trainctl.bench/1"; at most 64 MiB, nested 64 deep. Throws
/// Error(config) that names the file.
Json read_document(const fs::path& file);
/// Its schema; empty where it has none.
std::string schema_of(const Json& document);

/// A member of an object as text, a number, or an object; empty, NaN, null where it is none.
/// Numbers that are not finite are the texts that json_number() makes.
std::string text_at(const Json& object, std::string_view key);
double number_at(const Json& object, std::string_view key);
const Json& member(const Json& object, std::string_view key);

/// "a.b.0.c" -> text of each value of a YAML document; lists of scalars are one value. Nothing of
/// what cannot be read.
std::vector<std::pair<std::string, std::string>> flat_values(const std::string& yaml);

// Timing::h2d_s is the time of copies to a GPU; on a CPU nothing is copied to a device, and it is
// the time in which a batch is converted to the model's number format. Tables and texts say which;
// the keys of CSV and JSON files are `h2d_s` in both cases.

/// "convert" for the device "cpu", else "h2d".
const char* transfer_name(std::string_view device);
/// The same by the device of rank 0; "h2d" where no rank has reported it.
const char* transfer_name(const RunRecord& record);

/// "convert batches" where all runs trained on CPUs, "copy to device" where all had GPUs, else
/// both.
const char* transfer_name(std::span<const RunFiles* const> runs);

}  // namespace trainctl::report
