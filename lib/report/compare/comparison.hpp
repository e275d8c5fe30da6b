#pragma once

#include "report/compare/baseline.hpp"
#include "report/compare/gate.hpp"
#include "report/record/run_files.hpp"

namespace trainctl::report {

/// The numbers of one run, or of one repeat of a bench, in order: "val/loss" of its last epoch,
/// "best/val/loss", "samples_per_s". NaN values are left out.
struct Measures {
  std::string seed;  // empty: unknown
  std::vector<std::pair<std::string, double>> values = {};
};

/// Runs that differ only in their seed, or the repeats of a bench.
struct Group {
  std::string label;
  std::vector<RunFiles> runs = {};  // empty for a bench
  std::vector<Measures> members = {};
  Json machine = nullptr;  // for a bench, see machine_key()
};

/// Two or more groups; all others are compared with the first.
struct RunComparison {
  std::string kind = "runs";  // or "benches"
  std::vector<Group> groups;
};

/// Returns all runs of all groups.
std::vector<const RunFiles*> runs_of(const RunComparison& compared);

/// Returns the measures of one run.
Measures measures_of(const RunFiles& run);
/// Returns a group of runs, each with its measures.
Group group_of(std::string label, std::vector<RunFiles> runs);
/// Returns the rows of a bench document: "4 workers: total_s" of each repeat, and medians.
Group group_of_bench(std::string label, const Json& bench);
/// Groups runs whose configs differ only in the seed, in order of appearance. The label is the
/// difference from the first group: "optimizer.lr=0.01".
std::vector<Group> grouped(std::vector<RunFiles> runs);

/// Returns the names of all measures, in order of appearance.
std::vector<std::string> measure_names(const RunComparison& compared);
/// Returns the values of one measure by group, for the members that have it.
std::vector<std::vector<double>> values_of(const RunComparison& compared, std::string_view name);
/// Compares each group except the first with the first; nullopt if one of the two has no value.
/// Compares pairs of runs if both groups have the same seeds, each once.
std::vector<std::optional<MeanDifference>> differences_of(const RunComparison& compared,
                                                          const std::string& name);

/// A key whose value differs between groups; for a group whose runs differ, the values of all runs.
struct ConfigDifference {
  std::string key;
  std::vector<std::string> values = {};  // by group; "-" if the key is missing
};
/// Returns the keys of the configs whose values differ.
std::vector<ConfigDifference> config_differences(const RunComparison& compared);

/// A loss of a step, or of an epoch.
struct LossPlace {
  std::string metric;  // "train/loss"
  bool of_epoch = false;
  std::int64_t epoch = 0;  // counted from 1
  std::int64_t step = 0;

  bool operator==(const LossPlace&) const = default;
};

/// The first loss that is not bitwise equal.
struct LossDifference : LossPlace {
  std::string run;                                // the run that differs from the first
  std::optional<double> wanted = {}, found = {};  // absent: the run has no such loss
  std::string hint = {};  // empty unless the runs used other threads, memory formats or precisions
};
/// Compares the losses of every step and epoch in metrics.jsonl, or else those of epochs.csv, of
/// all runs with the first. NaN equals NaN. Throws Error(config) when a run has no losses.
struct LossComparison {
  std::size_t losses = 0;  // number of losses of the first run
  std::optional<LossDifference> difference;
};
LossComparison compare_losses(const RunComparison& compared);
/// Returns a text such as "epoch 2, step 950: train/loss is 0x1.8p-3 (0.1875) in A and ...", with
/// the hint on its own line.
std::string to_text(const LossDifference& difference, const std::string& first);

/// Returns the config differences, measures with their differences, curves and time budget as text.
std::string compare_text(const RunComparison& compared, const Style& style);
/// Returns a document with schema "trainctl.compare/2".
Json compare_document(const RunComparison& compared, const std::optional<LossComparison>& losses);

/// Returns a unique label for each word of the command line, which names one run or several
/// separated by commas: the paths without the folders that all runs share. "runs/a/1" and
/// "runs/b/1" become "a/1" and "b/1".
std::vector<std::string> short_labels(const std::vector<std::string>& words);

/// Returns the mean of a metric over the runs of a group by epoch; NaN for epochs without a value.
std::vector<double> mean_curve(const Group& group, const std::string& metric);

// Existing runs and benches as the two sides of a gate.

/// Return the metrics that conditions may name in addition to kMeasures.
std::vector<std::string> gate_metrics(const RunComparison& runs);
std::vector<std::string> gate_metrics(std::span<const Baseline> benches);

/// Compares each group of runs except the first with the first: in pairs if both have the same
/// seeds, each once, otherwise unpaired. `wall_s` is also available as `total_s`. A number that one
/// run of a group lacks is left out of that group.
std::vector<GateComparison> gate_comparisons(const RunComparison& runs);

/// Compares each setting of all benches except the first with the row of the first bench that has
/// the same setting, unpaired. Settings that the first bench lacks are left out. Throws
/// Error(config) when the first bench has none of a bench's settings.
std::vector<GateComparison> gate_comparisons(std::span<const Baseline> benches);

/// Returns one sentence for each group that was run on another machine than the first run, or does
/// not record its machine.
std::vector<std::string> machine_warnings(const RunComparison& compared);

/// Returns whether a condition is about time or memory, which depend on the machine.
bool is_of_machine(const Condition& condition);

}  // namespace trainctl::report
