#include "study/run/run_start.hpp"

#include "base/error.hpp"
#include "base/json.hpp"
#include "base/machine/machine.hpp"
#include "base/strings.hpp"
#include "checkpoint/store.hpp"
#include "log/log.hpp"
#include "report/record/run_files.hpp"
#include "report/record/run_record.hpp"
#include "spec/experiment/monitor.hpp"
#include "study/folder/folder_repair.hpp"
#include "study/resume/config_changes.hpp"
#include "study/run/run_ending.hpp"
#include "study/workers/devices.hpp"

#include <string_view>
#include <system_error>
#include <utility>

namespace trainctl::study {

int world_size_of(const RunRequest& request) {
  const spec::Trainer& trainer = request.loaded.experiment.trainer;
  const int nodes = request.nodes ? request.nodes->nodes : 1;
  if (request.loaded.experiment.distributed.type == spec::Strategy::data_parallel) return 1;
  if (trainer.devices.value) return nodes * *trainer.devices.value;
  try {
    return nodes *
           choose_devices(trainer, read_machine(), [] { return launch::probe_gpus(); }).ranks;
  } catch (const Error&) {
    return 0;
  }
}

namespace {

Start start_at(RunRequest request, const fs::path& folder, ResumeOrigin origin) {
  request.task.resume = origin.checkpoint;
  request.task.accepts_data_change =
      !origin.checkpoint.empty() && request.resume &&
      request.resume->if_data_changed == IfDataChanged::restart_epoch;
  PriorState past = continue_run(request.loaded, folder, std::move(origin), world_size_of(request));
  return {std::move(request), std::move(past)};
}

/// Returns the run in which a checkpoint was made: its parent run, unless it was copied elsewhere.
fs::path source_of(const ResumeOrigin& origin, const fs::path& run_dir) {
  const fs::path parent = origin.checkpoint.parent_path();
  return parent.filename() == "checkpoints" ? parent.parent_path() : run_dir;
}

std::string fact(const ResumeOrigin& origin, const char* name) {
  const auto found = origin.manifest.facts.find(name);
  return found == origin.manifest.facts.end() ? std::string() : found->second;
}

/// Returns the resolved config of the checkpoint, or else of its run; empty if both are missing.
std::string config_of(const ResumeOrigin& origin, const fs::path& run_dir) {
  if (std::string kept = fact(origin, "config"); !kept.empty()) return kept;
  return resolved_config_of(source_of(origin, run_dir)).value_or("");
}

struct Resumption {
  const spec::Loaded& loaded;
  const ResumeOrigin& origin;
  std::string config_before;
  int world_size = 0;

  [[nodiscard]] StepSamples samples() const {
    return {.ranks_before = origin.manifest.world_size,
            .ranks_now = world_size,
            .batch_before = resolved_number(config_before, "loader.batch_size").value_or(0),
            .batch_now = loaded.experiment.loader.batch_size};
  }
};

/// Records the accepted changes as notices and throws for the others.
void compare(const Resumption& resumption, PriorState& past) {
  if (resumption.config_before.empty()) return;
  const ResumeOrigin& origin = resumption.origin;
  const StepSamples samples = resumption.samples();
  auto changes =
      config_changes(resumption.config_before, resumption.loaded, fact(origin, "device"));
  accept_same_global_batch(changes, samples);
  refuse_changes(changes, origin.checkpoint.string(), same_global_batch_clause(samples));
  past.why_not_bitwise = why_not_bitwise(changes);
  for (const std::string& notice : {changes_text(changes), global_batch_notice(samples)}) {
    if (!notice.empty()) past.notices.push_back(notice);
  }
}

/// Returns the fingerprints of the data that the checkpoint was trained on; manifest.json may
/// belong to a later start.
std::map<std::string, std::string> fingerprints_of(const ResumeOrigin& origin,
                                                   const fs::path& run_dir) {
  std::map<std::string, std::string> found = recorded_fingerprints(origin.manifest);
  return found.empty() ? recorded_fingerprints(source_of(origin, run_dir)) : found;
}

/// Reports only rows that the previous start did not write; gaps of earlier starts were reported
/// when that start began.
void warn_about_gap(const fs::path& run_dir, const ResumePoint& point, const std::string& config,
                    PriorState& past) {
  const auto from = last_origin(run_dir);
  if (!from) return;
  const auto log_every = resolved_number(config, "trainer.log_every_n_steps");
  std::string missing = missing_history(run_dir, {*from, point, log_every.value_or(0)});
  if (!missing.empty()) past.notices.push_back(std::move(missing));
}

/// Marks the epochs that improved the monitor, which epochs.csv does not record.
void mark_improved(std::vector<events::EpochEnded>& epochs, const spec::Experiment& experiment) {
  const std::string monitor = spec::checkpoint_monitor(experiment);
  const spec::Mode mode = spec::resolve_mode(experiment.checkpoint.mode, monitor);
  std::optional<double> best;
  for (events::EpochEnded& epoch : epochs) {
    const auto value = events::find_metric(epoch.metrics, monitor);
    if (!value) continue;
    epoch.improved = !best || (mode == spec::Mode::min ? *value < *best : *value > *best);
    if (epoch.improved) best = value;
  }
}

std::int64_t last_step_in(std::string_view lines) {
  while (!lines.empty()) {
    lines.remove_suffix(lines.ends_with('\n') ? 1 : 0);
    const std::size_t before = lines.rfind('\n');
    const std::size_t start = before == std::string_view::npos ? 0 : before + 1;
    const Json line = Json::parse(lines.substr(start), nullptr, /*allow_exceptions=*/false);
    const bool has_step = line.is_object() && line.contains("step");
    if (has_step && line["step"].is_number_integer()) return line["step"].get<std::int64_t>();
    lines = lines.substr(0, start);
  }
  return 0;
}

std::string ends_with(const char* file, std::string_view what, std::int64_t last) {
  return last > 0 ? fmt::format("{} ends with {} {}", file, what, with_thousands(last))
                  : fmt::format("{} has no {}", file, what);
}

std::string missing_epochs(const fs::path& csv, const HistoryRange& range) {
  if (!is_file(csv) || range.to.epoch <= range.from.epoch) return "";
  const auto epochs = report::read_epochs(csv);
  const std::int64_t last = epochs.empty() ? 0 : epochs.back().epoch + 1;
  return last < range.to.epoch ? ends_with("epochs.csv", "epoch", last) : "";
}

std::string missing_steps(const fs::path& lines, const HistoryRange& range) {
  constexpr std::uint64_t kMostBytes = std::uint64_t{1} << 32;
  if (!is_file(lines) || range.log_every <= 0) return "";
  const std::int64_t logged = range.to.global_step / range.log_every * range.log_every;
  if (logged <= range.from.global_step) return "";
  const std::int64_t last = last_step_in(read_file(lines, kMostBytes, ReadFailure::resource));
  return last < logged ? ends_with("metrics.jsonl", "step", last) : "";
}

}  // namespace

ResumeOrigin first_origin(const RunRequest& request, const fs::path& folder) {
  if (!request.resume) return {};
  if (restore_superseded(folder))
    log::get().warn("{}: restored the checkpoints and files that a failed --resume had moved",
                    printable(folder.string()));
  if (const std::string note = restore_if_possible(folder); !note.empty())
    log::get().warn("{}", note);
  return choose_checkpoint(folder, *request.resume);
}

Start first_start(const RunRequest& request, const fs::path& folder, ResumeOrigin origin) {
  if (!request.resume) return {request, {}};
  return start_at(request, folder, std::move(origin));
}

Start restarted(const RunRequest& request, const fs::path& folder, const Restarts& restarts) {
  Start start = start_at(request, folder, *restarts.next());
  start.past.notices.insert(start.past.notices.begin(), restarts.notice());
  return start;
}

void expect_same_experiment(const spec::Loaded& loaded, const fs::path& run_dir,
                            const ResumeOrigin& origin, int world_size) {
  PriorState unused;
  compare({loaded, origin, config_of(origin, run_dir), world_size}, unused);
}

PriorState continue_run(const spec::Loaded& loaded, const fs::path& run_dir, ResumeOrigin origin,
                        int world_size) {
  PriorState past;
  past.wall_s = earlier_wall_s(run_dir);  // must be read before files are rewritten
  past.notices = origin.damaged;
  std::error_code ignored;
  const bool is_own =
      !origin.checkpoint.empty() &&
      fs::equivalent(origin.checkpoint.parent_path(), run_dir / "checkpoints", ignored);
  ResumePoint point{.of_this_run = is_own};
  if (!origin.checkpoint.empty()) {
    compare({loaded, origin, config_of(origin, run_dir), world_size}, past);
    past.fingerprints = fingerprints_of(origin, run_dir);
    point.epoch = origin.manifest.epoch;
    point.global_step = origin.manifest.global_step;
  }
  std::vector<std::string> damaged = damaged_history(run_dir);
  if (const auto superseded = supersede_history(run_dir, point)) {
    past.in_place = true;
    past.epochs = report::read_epochs(run_dir / "epochs.csv");
    mark_improved(past.epochs, loaded.experiment);
  }
  for (std::string& note : damaged) past.notices.push_back(std::move(note));
  if (is_own) warn_about_gap(run_dir, point, config_of(origin, run_dir), past);
  if (origin.checkpoint.empty()) commit_superseded(run_dir);  // no worker can reject the first step
  if (is_own)
    checkpoint::Store(run_dir / "checkpoints").point(checkpoint::Link::last, origin.checkpoint);
  past.origin = std::move(origin);
  return past;
}

std::optional<checkpoint::Moment> last_origin(const fs::path& run_dir) {
  const Json result = read_object(run_dir / "result.json");
  if (result.is_null() || !result.contains("resumed_from")) return std::nullopt;
  const Json& from = result["resumed_from"];
  if (from.is_null()) return checkpoint::Moment{};
  if (!from.is_object() || !from.contains("path") || !from["path"].is_string()) return std::nullopt;
  return checkpoint::parse_folder_name(
      fs::path(from["path"].get<std::string>()).filename().string());
}

std::string missing_history(const fs::path& run_dir, const HistoryRange& range) {
  std::string text = missing_epochs(run_dir / "epochs.csv", range);
  const std::string steps = missing_steps(run_dir / "metrics.jsonl", range);
  if (!text.empty() && !steps.empty()) text += ", ";
  text += steps;
  if (text.empty()) return text;
  return fmt::format(
      "{}, and the checkpoint is at step {} (epoch {}): the entries in between are lost", text,
      with_thousands(range.to.global_step), range.to.epoch + 1);
}

}  // namespace trainctl::study
