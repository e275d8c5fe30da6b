#pragma once

#include "base/json.hpp"
#include "report/compare/baseline.hpp"
#include "report/compare/gate.hpp"
#include "report/compare/statistics.hpp"
#include "report/record/run_files.hpp"
#include "report/text/format.hpp"

namespace trainctl::report {

/// What one run, or one repeat of a bench, has as numbers: "val/loss" of its last epoch,
/// "best/val/loss", "samples_per_s". In their order; those that are NaN are left out.
struct Measures {
  std::string seed;  // empty: not known
  std::vector<std::pair<std::string, double>> values = {};
};

/// Runs that differ in their seed alone, or the repeats of a bench.
struct Group {
  std::string label;
  std::vector<RunFiles> runs = {};  // none of a bench
  std::vector<Measures> members = {};
  Json machine = nullptr;  // of a bench, see machine_key()
};

/// Two or more groups; all are compared with the first.
struct Compared {
  std::string kind = "runs";  // or "benches"
  std::vector<Group> groups;
};

/// All runs of all groups.
std::vector<const RunFiles*> runs_of(const Compared& compared);

Measures measures_of(const RunFiles& run);
/// A group of runs, each with its measures.
Group group_of(std::string label, std::vector<RunFiles> runs);
/// The rows of a bench document: "4 workers: total_s" of each repeat, and medians.
Group group_of_bench(std::string label, const Json& bench);
/// Runs whose configs are the same but for the seed, one group for each config, in their order.
/// The label is what differs from the first: "optimizer.lr=0.01".
std::vector<Group> grouped(std::vector<RunFiles> runs);

/// Names of all measures, in their order.
std::vector<std::string> measure_names(const Compared& compared);
/// The values of one measure: of each group those of its members that have it.
std::vector<std::vector<double>> values_of(const Compared& compared, std::string_view name);
/// Of each group but the first against the first; nothing where one of the two has no value. By
/// pairs where both have the same seeds, each once.
std::vector<std::optional<MeanDifference>> differences_of(const Compared& compared,
                                                          const std::string& name);

/// A key whose value is not the same in all groups; of a group whose runs differ all values.
struct ConfigDifference {
  std::string key;
  std::vector<std::string> values = {};  // of each group; "-" where none has the key
};
std::vector<ConfigDifference> config_differences(const Compared& compared);

/// The first loss that is not the same bit by bit.
struct LossDifference {
  std::string run;     // that is not as the first
  std::string metric;  // "train/loss"
  bool of_epoch = false;
  std::int64_t epoch = 0;  // from 1
  std::int64_t step = 0;
  std::optional<double> wanted = {}, found = {};  // nothing: that run does not tell it
};
/// The losses of every step and epoch that metrics.jsonl tells, else those of epochs.csv, of all
/// runs against the first. NaN is equal to NaN. Throws Error(config) where a run tells no loss.
struct LossComparison {
  std::size_t losses = 0;  // of the first run
  std::optional<LossDifference> difference;
};
LossComparison compare_losses(const Compared& compared);
/// "epoch 2, step 950: train/loss is 0x1.8p-3 (0.1875) in A and ..."
std::string to_text(const LossDifference& difference, const std::string& first);

/// Config, measures with their differences, curves, time budget: what a person reads.
std::string compare_text(const Compared& compared, const Style& style);
/// Schema "trainctl.compare/1".
Json compare_document(const Compared& compared, const std::optional<LossComparison>& losses);

/// Returns a label for each word of the command line, unique: the runs of the word, of which it may
/// name several with commas between, without the folders that all runs have in common. "runs/a/1"
/// and "runs/b/1" become "a/1" and "b/1".
std::vector<std::string> short_labels(const std::vector<std::string>& words);

/// The mean of a metric over the runs of a group, epoch by epoch; NaN where none tells it.
std::vector<double> mean_curve(const Group& group, const std::string& metric);

// Runs and benches that are there already, as the sides of a gate.

/// What conditions may name beside kMeasures.
std::vector<std::string> gate_metrics(const Compared& runs);
std::vector<std::string> gate_metrics(std::span<const Baseline> benches);

/// Each group of runs but the first against the first: by pairs where both have the same seeds,
/// each once, else apart. `wall_s` is `total_s`, too. A number that one run of a group does not
/// tell is left out of that group.
std::vector<Contest> contests_of(const Compared& runs);

/// Each setting of all benches but the first against the row of the first that has it, apart.
/// Settings that the first has not are left out. Throws Error(config) where it has none of them.
std::vector<Contest> contests_of(std::span<const Baseline> benches);

/// Which groups were not made on the machine of the first run, or do not say so, a sentence each.
std::vector<std::string> machines_apart(const Compared& compared);

/// Whether a condition is about time or memory, which are those of a machine.
bool is_of_machine(const Condition& condition);

}  // namespace trainctl::report
