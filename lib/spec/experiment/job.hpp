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

// The job of the workers in a run folder, if it is not training: a small file next to the resolved
// experiment, which the supervisor writes and every rank reads.

namespace trainctl::spec {

/// `measure`: times a step for the plan; `probe`: times steps, too; `replay`: repeats one step of a
/// diverged run; `link`: times all-reduces, without an experiment; `gpu`: tests the devices,
/// without an experiment; `script`: exports the model with the weights as TorchScript; `check`:
/// compares the experiment's settings for parameters with the model.
enum class JobKind { train, evaluate, predict, measure, probe, replay, link, gpu, script, check };
constexpr std::array<const char*, 10> enum_names(JobKind) {
  return {"train",  "evaluate", "predict", "measure", "probe",
          "replay", "link",     "gpu",     "script",  "check"};
}

/// Returns the name of the kind in the file and in the engine's request.
const char* name_of(JobKind kind);
/// Throws Error(config) for an unknown name.
JobKind kind_called(const std::string& name);

/// The labels of dataset.train that the model of a prediction was trained on.
struct LearnedTargets {
  Targets targets = Targets::classes;  // never tokens
  std::int64_t outputs = 0;            // of the model; at least one
  bool labeled = true;                 // the input has labels of the same classes or numbers

  bool operator==(const LearnedTargets&) const = default;
};

/// Which range of an activation the int8 model represents: histogram: the one with the least
/// squared error; min_max: all values that calibration saw.
enum class Observer { histogram, min_max };
constexpr std::array<const char*, 2> enum_names(Observer) { return {"histogram", "min_max"}; }

/// The post-training quantization of the model to int8.
struct Quantization {
  std::int64_t calibrate = 32;  // batches of dataset.train
  Observer observer = Observer::histogram;

  bool operator==(const Quantization&) const = default;
};

/// Returns whether kind, shape and outputs are equal.
bool operator==(const ModelInput& one, const ModelInput& other);

/// The content of task.json.
struct Job {
  JobKind kind = JobKind::train;
  std::string split = "val";                   // "train", "val", "test"
  std::filesystem::path weights = {};          // the checkpoint, as the user wrote it
  std::filesystem::path input = {};            // images without labels that replace the split
  std::optional<LearnedTargets> learned = {};  // nullopt: given by the split itself
  /// For `script` and `check`: the input from the headers of dataset.train; nullopt: the engine
  /// opens the data set.
  std::optional<ModelInput> model_input = {};
  /// From the run that trained the weights: the fingerprint of dataset.train, and the digest of the
  /// division by `dataset.split`. Empty if there is no such record.
  std::string trained_on = {}, division = {};
  std::filesystem::path resume = {};  // for training: the absolute folder of a verified checkpoint
  std::filesystem::path replay = {};  // the dump of the step, for `replay`
  bool accepts_data_change = false;   // with `resume`: changed data restarts the interrupted epoch
  std::optional<std::int64_t> until_epoch = {};  // for training: the end of this part of the run

  /// For `evaluate` and `script`: the model is converted to int8, on a CPU.
  std::optional<Quantization> quantize = {};

  bool operator==(const Job&) const = default;
};

inline constexpr const char* kJobFile = "task.json";
/// The file in the run folder that the job `script` writes.
inline constexpr const char* kScriptFile = "model.pt";
/// The file that the job `check` reads, with the tensors of the weights file, and the file that it
/// writes.
inline constexpr const char* kOfferedFile = "offered.json";
inline constexpr const char* kProblemsFile = "problems.json";

/// Returns the JSON text of the job.
std::string dump_job(const Job& job);
/// Throws Error(config) if the text is not from dump_job().
Job parse_job(std::string_view text);
/// Returns the job of a run folder, or training if the file does not exist.
Job read_job(const std::filesystem::path& run_dir);

/// Returns dataset.train, .val or .test. Throws Error(config) if the experiment has no such split.
const DataSplit& split_called(const Experiment& experiment, const std::string& split);

/// Returns the split for evaluation. The training split gets the transforms of validation, because
/// its own are often random; without a dataset.val it keeps them. Throws like split_called().
DataSplit evaluated_split(const Experiment& experiment, const std::string& split);

/// Returns the transforms for images that are not part of the experiment: those of dataset.val, or
/// else those of dataset.train.
const std::vector<config::Stage>& evaluating_transforms(const Experiment& experiment);

/// The folder in the run folder for the masks that all ranks write while they predict pixels.
inline constexpr const char* kMaskFolder = "masks";

/// Returns the file that each rank writes while it predicts, one row per sample in the order of its
/// share of the split. `what` is "logits" (float32), "targets" (int64 for classes, else float32;
/// only with labels) or "names" (one JSON string per line).
std::filesystem::path part_file(const std::filesystem::path& run_dir, std::string_view what,
                                int rank);

}  // namespace trainctl::spec
