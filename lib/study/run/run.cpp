#include "study/run/run.hpp"

#include "base/error.hpp"
#include "base/numbers.hpp"
#include "base/strings.hpp"
#include "checkpoint/contents.hpp"
#include "checkpoint/folder.hpp"
#include "launch/process/signals.hpp"
#include "log/log.hpp"
#include "report/record/run_files.hpp"
#include "spec/experiment/value_types.hpp"
#include "study/resume/run_history.hpp"
#include "study/run/supervised_run.hpp"
#include "study/workers/devices.hpp"

#include <chrono>
#include <thread>

namespace trainctl::study {

RunRequest make_request(const Invocation& invocation, spec::Loaded loaded) {
  RunRequest request;
  static_cast<Invocation&>(request) = invocation;
  request.folder.name = loaded.experiment.name;
  request.loaded = std::move(loaded);
  return request;
}

RunRequest make_request(const Invocation& invocation, const std::vector<std::string>& added,
                        config::Diagnostics& diagnostics, Purpose purpose) {
  Invocation call = invocation;
  call.overrides.insert(call.overrides.end(), added.begin(), added.end());
  TrainingSamples samples;
  RunRequest request =
      make_request(call, spec::load_experiment(call.config_file, call.overrides, diagnostics,
                                               checks_for(purpose, samples)));
  request.samples = std::move(samples);
  return request;
}

namespace {

/// Returns the value to raise if a limit of the request is reached; else empty.
std::string reached_limit(const RunRequest& request, const checkpoint::Manifest& manifest) {
  const spec::Trainer& trainer = request.loaded.experiment.trainer;
  const std::int64_t done = manifest.epoch;
  if (const auto epochs = trainer.epoch_limit(); epochs && done >= *epochs)
    return fmt::format("raise trainer.max_epochs ({} of {} epochs are done)", done, *epochs);
  if (trainer.max_steps && manifest.global_step >= *trainer.max_steps)
    return fmt::format("raise trainer.max_steps ({} of {} steps are done)",
                       with_thousands(manifest.global_step), with_thousands(*trainer.max_steps));
  if (request.job.until_epoch && done >= *request.job.until_epoch)
    return fmt::format("raise --until-epoch ({} of {} epochs are done)", done,
                       *request.job.until_epoch);
  return "";
}

std::string reached_end(const RunRequest& request, const Json& values) {
  const std::string early = report::text_at(values, "early_reason");
  if (!early.empty())
    return fmt::format("early stopping ended the run ({}); start a new run to train longer",
                       printable(early));
  const auto& max_time = request.loaded.experiment.trainer.max_time;
  const auto most_s = max_time ? spec::parse_duration(*max_time) : std::nullopt;
  const auto elapsed_s = exact_double(report::text_at(values, "elapsed_s"));
  if (!most_s || !elapsed_s || *elapsed_s < *most_s) return "";
  return fmt::format("raise trainer.max_time ({} is used up)", *max_time);
}

/// Returns the outcome of a successful run whose checkpoint is at its end: by trainer.max_epochs,
/// max_steps, max_time, early stopping or --until-epoch. `result` is its result.json. Returns
/// nullopt if there is something left to train.
std::optional<RunOutcome> complete_run(const RunRequest& request, const fs::path& run_dir,
                                       const ResumeOrigin& origin) {
  if (origin.checkpoint.empty()) return std::nullopt;
  Json result = read_object(run_dir / "result.json");
  if (report::member(result, "verdict") != "ok") return std::nullopt;
  std::string why = reached_limit(request, origin.manifest);
  if (why.empty()) {
    const fs::path part = origin.checkpoint / checkpoint::part_name(0);
    why = reached_end(request, checkpoint::contents_of_file(part).training);
  }
  if (why.empty()) return std::nullopt;
  expect_same_experiment(request.loaded, run_dir, origin, world_size_of(request));
  RunOutcome outcome;
  outcome.folder = run_dir;
  outcome.ending.run_dir = run_dir.string();
  outcome.result = std::move(result);
  outcome.complete = "already complete: " + why;
  return outcome;
}

// Returns false if a signal came.
bool wait_for_memory(const FreeMemory& before, launch::SignalGuard& guard, const Clock& clock) {
  constexpr auto kPause = std::chrono::milliseconds(250);
  const bool is_back =
      wait_for_free_memory(before, {.probe = [] { return free_device_memory(); },
                                    .is_stopped = [&] { return guard.received_stop(); },
                                    .pause = [&] { std::this_thread::sleep_for(kPause); },
                                    .clock = clock});
  if (guard.received_stop()) return false;
  if (!is_back)
    log::get().warn(
        "a GPU still has less free memory than before the first start; the run restarts anyway");
  return true;
}

void check_nodes(const RunRequest& request) {
  const int nodes = request.loaded.experiment.trainer.num_nodes;
  const bool trains = request.job.kind == spec::JobKind::train;
  ENSURE(config, !trains || request.nodes || nodes == 1,
         "trainer.num_nodes is {}, but only 'trainctl run' with --rdzv-endpoint and --node-rank "
         "starts ranks on several nodes\nhint: add these flags to 'trainctl run', or set "
         "trainer.num_nodes=1",
         nodes);
}

class AttemptLoop {
 public:
  AttemptLoop(const RunRequest& request, FolderRequest folder_request, const RunFolder& folder,
              launch::SignalGuard& guard)
      : folder_request_(std::move(folder_request)),
        folder_(folder.path),
        guard_(guard),
        attempts_(request, folder.path) {
    if (request.nodes && !request.nodes->is_alone()) nodes_.emplace(request, folder.path, guard);
  }

  RunOutcome execute(const MakeSinks& make_sinks, const Clock& clock) {
    try {
      RunOutcome outcome = run(make_sinks, clock);
      if (nodes_) nodes_->end(outcome.ending);
      return outcome;
    } catch (const Error& error) {
      if (nodes_ && !nodes_->has_ended())
        nodes_->end({.verdict = "failed", .exit_code = error.exit_code(), .message = error.what()});
      throw;
    }
  }

 private:
  RunOutcome run(const MakeSinks& make_sinks, const Clock& clock) {
    const RunRequest first = attempts_.current();
    ResumeOrigin origin = first_origin(first, folder_);
    if (first.resume) {
      if (auto complete = complete_run(first, folder_, origin)) {
        for (const std::string& note : damaged_files(folder_)) log::get().warn("{}", note);
        return std::move(*complete);
      }
      log::get().info("{}", resume_notice(folder_request_, folder_, origin));
    }
    Start start = first_start(first, folder_, std::move(origin));
    const spec::Trainer& trainer = start.request.loaded.experiment.trainer;
    Restarts restarts(trainer.max_restarts, folder_, start.past.origin);
    const FreeMemory free_before = memory_before(trainer);
    const RunContext context{folder_, attempts_, restarts, nodes_ ? &*nodes_ : nullptr};
    for (;;) {
      RunOutcome outcome = run_once(start, context, make_sinks, clock);
      if (guard_.received_stop())
        return outcome;  // also a signal that came while the workers exited
      const bool is_over = !restarts.next() && !attempts_.has_next(outcome.ending);
      if (is_over || !wait_for_memory(free_before, guard_, clock)) return outcome;
      try {
        if (auto again = attempts_.after(outcome.ending)) {
          start = {std::move(*again), {}};
          restarts.reset_progress();
        } else {
          start = restarted(start.request, folder_, restarts);
        }
      } catch (const Error& error) {
        log::get().warn("cannot start another attempt: {}", error.what());
        return outcome;
      }
    }
  }

  FolderRequest folder_request_;
  fs::path folder_;
  launch::SignalGuard& guard_;
  Attempts attempts_;
  std::optional<CoordinatorRun> nodes_;
};

}  // namespace

std::vector<std::string> metric_columns(const spec::Experiment& experiment) {
  std::vector<std::string> names = spec::monitored_values(experiment);
  std::ranges::stable_partition(names,
                                [](const std::string& name) { return name.starts_with("train/"); });
  return names;
}

RunOutcome run_experiment(const RunRequest& request, const MakeSinks& make_sinks,
                          const Clock& clock) {
  ENSURE(config, !request.loaded.experiment.loader.batch_size.automatic,
         "loader.batch_size is auto, which only 'trainctl run' can determine\nhint: set a number, "
         "as in loader.batch_size=64");
  check_nodes(request);
  launch::SignalGuard guard;  // a signal after the workers have exited must not lose the result
  std::optional<RunFolder> folder;
  std::optional<AttemptLoop> attempt_loop;
  try {
    FolderRequest folder_request =
        request.resume ? resumed_folder(request.folder, *request.resume) : request.folder;
    folder.emplace(make_run_folder(folder_request));
    attempt_loop.emplace(request, std::move(folder_request), *folder, guard);
  } catch (const Error& error) {
    if (request.nodes && !request.nodes->is_alone()) report_failure(request, error, guard);
    throw;
  }
  return attempt_loop->execute(make_sinks, clock);
}

}  // namespace trainctl::study
