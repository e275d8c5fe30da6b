#pragma once

#include "spec/compatibility.hpp"
#include "spec/experiment/experiment.hpp"
#include "spec/sample.hpp"

#include <array>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>

// What the workers of a run folder do where it is not training: a small file beside the resolved
// experiment, written by the supervisor and read by every rank.

namespace trainctl::spec {

/// `measure`: what a step takes, for the plan; `probe` times steps, too; `replay`: one step of a
/// run that has diverged, once more; `link`: what sums over the ranks take, without an experiment;
/// `script`: exports the model with the weights as TorchScript; `check`: compares what the
/// experiment says of parameters with the model.
enum class TaskKind { train, evaluate, predict, measure, probe, replay, link, script, check };
constexpr std::array<const char*, 9> enum_names(TaskKind) {
  return {"train", "evaluate", "predict", "measure", "probe", "replay", "link", "script", "check"};
}

/// The kind as the file and the engine's request call it.
const char* name_of(TaskKind kind);
/// Throws Error(config) where there is none of that name.
TaskKind kind_called(const std::string& name);

/// What the model of a prediction has learnt from dataset.train.
struct Learnt {
  Targets targets = Targets::classes;  // classes or numbers
  std::int64_t outputs = 0;            // of the model: at least one
  bool labeled = true;  // what is predicted has labels of the same classes or numbers

  bool operator==(const Learnt&) const = default;
};

/// Whether a model is asked for the same.
bool operator==(const ModelInput& one, const ModelInput& other);

struct Task {
  TaskKind kind = TaskKind::train;
  std::string split = "val";           // "train", "val", "test"
  std::filesystem::path weights = {};  // the checkpoint, as it was named
  std::filesystem::path input = {};    // pictures without labels, in the place of the split
  std::optional<Learnt> learnt = {};   // absent: as the split itself says
  /// For `script` and `check`, as the headers of dataset.train say; absent: the engine opens it.
  std::optional<ModelInput> model_input = {};
  /// Of the run that made the weights: the fingerprint of dataset.train, and the digest of how
  /// `dataset.split` divides one data set. Empty if there is no such record.
  std::string trained_on = {}, division = {};
  std::filesystem::path resume = {};  // of training: a verified checkpoint's folder, absolute
  std::filesystem::path replay = {};  // the dump of the step, for `replay`
  bool accepts_data_change = false;   // with `resume`: other data restarts the epoch under way
  std::optional<std::int64_t> until_epoch = {};  // of training: it ends there, a longer run's part

  bool operator==(const Task&) const = default;
};

inline constexpr const char* kTaskFile = "task.json";
/// The file of a run folder that the task `script` writes.
inline constexpr const char* kScriptFile = "model.pt";
/// What the task `check` reads, the tensors of the file of weights, and what it writes.
inline constexpr const char* kOfferedFile = "offered.json";
inline constexpr const char* kProblemsFile = "problems.json";

std::string dump_task(const Task& task);
/// Throws Error(config) for what dump_task() does not write.
Task parse_task(std::string_view text);
/// The task of a run folder: training where it has no such file.
Task read_task(const std::filesystem::path& run_dir);

/// dataset.train, .val or .test. Throws Error(config) where the experiment has no such split.
const DataSplit& split_called(const Experiment& experiment, const std::string& split);

/// The split as it is evaluated. That of training has the transforms of validation, since its own
/// are often random; without a dataset.val it keeps them. Throws as split_called().
DataSplit evaluated_split(const Experiment& experiment, const std::string& split);

/// What pictures that are no part of the experiment are given to: the transforms of dataset.val;
/// without one, those of dataset.train.
const std::vector<config::Stage>& evaluating_transforms(const Experiment& experiment);

/// What each rank writes while it predicts, row for row in the order of its share of the split:
/// `what` is "logits" (float32), "targets" (int64 of a class, else float32; only where there are
/// labels) or "names" (a JSON string a line).
std::filesystem::path part_file(const std::filesystem::path& run_dir, std::string_view what,
                                int rank);

}  // namespace trainctl::spec
