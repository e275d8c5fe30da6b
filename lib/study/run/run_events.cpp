#include "study/run/run_events.hpp"

#include "base/clock.hpp"
#include "base/files.hpp"
#include "base/numbers.hpp"
#include "base/strings.hpp"
#include "launch/supervise/failure_evidence.hpp"
#include "log/log.hpp"
#include "report/text/run_summary.hpp"
#include "spec/experiment/monitor.hpp"
#include "study/resume/run_history.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <variant>

namespace trainctl::study {
namespace {

constexpr const char* kBestWeights = "checkpoints/best.safetensors";

}  // namespace

void RunEvents::recall_epochs() {
  for (const events::EpochEnded& epoch : start_.past.epochs) {
    record_.add(0, epoch);
    if (!epoch.improved || !fs::exists(folder_ / kBestWeights)) continue;
    const std::string monitor = spec::checkpoint_monitor(start_.request.loaded.experiment);
    record_.add(0, events::CheckpointSaved{
                       .path = kBestWeights,
                       .epoch = epoch.epoch,
                       .global_step = epoch.global_step,
                       .metric = monitor,
                       .value = events::find_metric(epoch.metrics, monitor).value_or(0)});
  }
  record_.last_step = std::max(record_.last_step, start_.past.origin.manifest.global_step);
}

// A full disk may end neither ranks that train nor what they save elsewhere.
template <class Body>
void RunEvents::write_if_possible(const Body& body) {
  try {
    body();
  } catch (const Error& error) {
    if (error.kind() != ErrorKind::resource) throw;
    on_event(0, events::Warning{error.what(), {}});
  }
}

void RunEvents::on_event(int rank, const events::Event& event) {
  if (const auto* resumed = std::get_if<events::Resumed>(&event)) {
    keep_aside(folder_);
    take(rank, judged(*resumed));
  } else {
    take(rank, event);
  }
}

// A worker knows the config of now alone.
events::Resumed RunEvents::judged(events::Resumed resumed) const {
  if (start_.past.not_bitwise.empty()) return resumed;
  resumed.bitwise = false;
  resumed.why_not += (resumed.why_not.empty() ? "" : "; ") + start_.past.not_bitwise;
  return resumed;
}

void RunEvents::take(int rank, const events::Event& event) {
  record_.add(rank, event);
  write_if_possible([&] { log_.on_event(rank, event); });
  if (const auto* started = std::get_if<events::RunStarted>(&event)) {
    if (!start_.request.task.accepts_data_change)  // else the worker tells
      expect_same_data(start_.past.fingerprints, started->data_fingerprints);
    // Only now are versions and data known; before, the manifest told what was asked for.
    write_if_possible(on_started_);
  }
  for (const auto& sink : sinks_) sink->on_event(rank, event);
  for (const auto& sink : sinks_) {
    if (const auto news = sink->news()) warn(*news);
  }
}

// The log of rank 0 has it too, since the console may be what has failed.
void RunEvents::warn(const std::string& message) {
  write_if_possible([&] { log_.tell(0, "warning: " + message); });
  on_event(0, events::Warning{message, {}});
}

void RunEvents::on_tick(const Clock& clock) {
  for (const auto& sink : sinks_) sink->on_tick(clock.now());
}

namespace {

std::string pairs(const std::map<std::string, std::string>& values) {
  std::string text;
  for (const auto& [name, value] : values) text += fmt::format(" {}={}", name, printable(value));
  return text;
}

std::string line_of(const events::Hello& hello) {
  return fmt::format("pid {} on {} computes on {}, up after {};{}", hello.pid,
                     printable(hello.host), printable(hello.device),
                     human_duration(hello.startup_s), pairs(hello.versions));
}

std::string layout_text(const events::RunStarted& run) {
  if (run.channels_last_why.empty()) return "";
  return fmt::format("; images with the channels {} ({})", run.channels_last ? "last" : "first",
                     printable(run.channels_last_why));
}

std::string line_of(const events::RunStarted& run) {
  return fmt::format(
      "{} CPU thread{} ({}), {} loader worker{} with prefetch factor {} ({}), global batch {}, {} "
      "steps an epoch, {}; {} training and {} validation samples;{}{}{}{}",
      run.num_threads, plural(run.num_threads), printable(run.num_threads_why), run.num_workers,
      plural(run.num_workers), run.prefetch_factor, printable(run.num_workers_why),
      run.global_batch, run.steps_per_epoch, printable(run.precision), run.train_samples,
      run.val_samples, pairs(run.data_fingerprints),
      run.no_data_digest.empty() ? "" : "; no data_digest: " + printable(run.no_data_digest),
      run.recomputes_why.empty() ? "" : "; " + printable(run.recomputes_why), layout_text(run));
}

}  // namespace

void RunLog::starts(const launch::LaunchSpec& launch) const {
  const int ranks = launch.ranks_here();
  log::get().debug("starting {} worker{}: {};{}", ranks, plural(ranks),
                   printable(join(launch.argv, " ")), pairs(launch.environment));
}

void RunLog::on_event(int rank, const events::Event& event) const {
  if (const auto* hello = std::get_if<events::Hello>(&event)) tell(rank, line_of(*hello));
  if (const auto* weights = std::get_if<events::WeightsSet>(&event))
    tell(rank, join(report::weights_lines(*weights), "; "));
  if (const auto* run = std::get_if<events::RunStarted>(&event)) tell(rank, line_of(*run));
}

void RunLog::tell(int rank, const std::string& line) const {
  log::get().debug("rank {}: {}", rank, line);
  AppendFile(launch::log_path(folder_, rank))
      .append_line(fmt::format("{} trainctl: {}", utc_timestamp(), line));
}

}  // namespace trainctl::study
