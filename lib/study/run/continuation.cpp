#include "study/run/continuation.hpp"

#include "base/strings.hpp"
#include "checkpoint/store.hpp"
#include "report/record/epoch_history.hpp"
#include "report/record/run_record.hpp"
#include "spec/experiment/monitor.hpp"
#include "study/folder/folder_repair.hpp"
#include "study/resume/config_changes.hpp"
#include "study/resume/resolved_value.hpp"
#include "study/resume/run_history.hpp"
#include "study/resume/step_samples.hpp"
#include "study/resume/superseded.hpp"
#include "study/run/history_gap.hpp"
#include "study/run/run_ending.hpp"

#include <map>
#include <optional>
#include <string_view>
#include <system_error>
#include <utility>

namespace trainctl::study {
namespace {

/// The run in which a checkpoint was made: its own, unless it was copied elsewhere.
fs::path source_of(const Origin& origin, const fs::path& run_dir) {
  const fs::path parent = origin.checkpoint.parent_path();
  return parent.filename() == "checkpoints" ? parent.parent_path() : run_dir;
}

std::string fact(const Origin& origin, const char* name) {
  const auto found = origin.manifest.facts.find(name);
  return found == origin.manifest.facts.end() ? std::string() : found->second;
}

/// The resolved config of the checkpoint, or else of its run; empty where neither is there.
std::string config_of(const Origin& origin, const fs::path& run_dir) {
  if (std::string kept = fact(origin, "config"); !kept.empty()) return kept;
  return resolved_config_of(source_of(origin, run_dir)).value_or("");
}

/// What was, and what is to be resumed with.
struct Resumption {
  const spec::Loaded& loaded;
  const Origin& origin;
  std::string config_before;
  int world_size = 0;

  [[nodiscard]] StepSamples samples() const {
    return {.ranks_before = origin.manifest.world_size,
            .ranks_now = world_size,
            .batch_before = resolved_number(config_before, "loader.batch_size").value_or(0),
            .batch_now = loaded.experiment.loader.batch_size};
  }
};

/// Notes what passes; throws for the rest.
void compare(const Resumption& resumption, Continuation& past) {
  if (resumption.config_before.empty()) return;
  const Origin& origin = resumption.origin;
  const StepSamples samples = resumption.samples();
  auto changes =
      config_changes(resumption.config_before, resumption.loaded, fact(origin, "device"));
  accept_same_global_batch(changes, samples);
  refuse_changes(changes, origin.checkpoint.string(), keeping_batch_clause(samples));
  past.not_bitwise = why_not_bitwise(changes);
  for (const std::string& notice : {changes_text(changes), global_batch_notice(samples)}) {
    if (!notice.empty()) past.notices.push_back(notice);
  }
}

/// Of the data that the checkpoint was trained on; manifest.json tells that of a later start.
std::map<std::string, std::string> fingerprints_of(const Origin& origin, const fs::path& run_dir) {
  std::map<std::string, std::string> found = recorded_fingerprints(origin.manifest);
  return found.empty() ? recorded_fingerprints(source_of(origin, run_dir)) : found;
}

/// Only of the start before: what is missing of earlier ones was told when it began.
void tell_gap(const fs::path& run_dir, const Point& point, const std::string& config,
              Continuation& past) {
  const auto from = last_origin(run_dir);
  if (!from) return;
  const auto log_every = resolved_number(config, "trainer.log_every_n_steps");
  std::string missing = missing_history(run_dir, {*from, point, log_every.value_or(0)});
  if (!missing.empty()) past.notices.push_back(std::move(missing));
}

/// epochs.csv does not tell which epochs were the best so far: the values of the monitor do.
void mark_improved(std::vector<events::EpochEnded>& epochs, const spec::Experiment& experiment) {
  const std::string monitor = spec::checkpoint_monitor(experiment);
  const spec::Mode mode = spec::resolve_mode(experiment.checkpoint.mode, monitor);
  std::optional<double> best;
  for (events::EpochEnded& epoch : epochs) {
    const auto value = report::find_metric(epoch.metrics, monitor);
    if (!value) continue;
    epoch.improved = !best || (mode == spec::Mode::min ? *value < *best : *value > *best);
    if (epoch.improved) best = value;
  }
}

}  // namespace

void expect_same_experiment(const spec::Loaded& loaded, const fs::path& run_dir,
                            const Origin& origin, int world_size) {
  Continuation unused;
  compare({loaded, origin, config_of(origin, run_dir), world_size}, unused);
}

Continuation continue_run(const spec::Loaded& loaded, const fs::path& run_dir, Origin origin,
                          int world_size) {
  Continuation past;
  past.wall_s = earlier_wall_s(run_dir);  // before files are rewritten
  past.notices = origin.damaged;
  std::error_code ignored;
  const bool is_own =
      !origin.checkpoint.empty() &&
      fs::equivalent(origin.checkpoint.parent_path(), run_dir / "checkpoints", ignored);
  Point point{.of_this_run = is_own};
  if (!origin.checkpoint.empty()) {
    compare({loaded, origin, config_of(origin, run_dir), world_size}, past);
    past.fingerprints = fingerprints_of(origin, run_dir);
    point.epoch = origin.manifest.epoch;
    point.global_step = origin.manifest.global_step;
  }
  std::vector<std::string> damaged = damaged_history(run_dir);
  if (const auto aside = put_aside(run_dir, point)) {
    past.in_place = true;
    past.epochs = report::read_epochs(run_dir / "epochs.csv");
    mark_improved(past.epochs, loaded.experiment);
  }
  for (std::string& note : damaged) past.notices.push_back(std::move(note));
  if (is_own) tell_gap(run_dir, point, config_of(origin, run_dir), past);
  if (origin.checkpoint.empty()) keep_aside(run_dir);  // no worker can refuse the beginning
  if (is_own)
    checkpoint::Store(run_dir / "checkpoints").point(checkpoint::Link::last, origin.checkpoint);
  past.origin = std::move(origin);
  return past;
}

}  // namespace trainctl::study
