#include "study/run/run_events.hpp"

#include "base/error.hpp"
#include "base/numbers.hpp"
#include "base/strings.hpp"
#include "launch/supervise/verdict.hpp"
#include "log/log.hpp"
#include "report/text/run_summary.hpp"
#include "spec/experiment/experiment.hpp"
#include "study/resume/run_history.hpp"

namespace trainctl::study {

std::string pairs(const std::map<std::string, std::string>& values) {
  std::string text;
  for (const auto& [name, value] : values) text += fmt::format(" {}={}", name, printable(value));
  return text;
}

void log_line(const fs::path& run_dir, int rank, const std::string& message) {
  const std::string line = one_line(message);
  log::get().debug("rank {}: {}", rank, line);
  AppendFile(launch::log_path(run_dir / "logs", rank))
      .append_line(fmt::format("{} trainctl: {}", utc_timestamp(), line));
}

namespace {

std::string line_of(const events::Hello& hello) {
  return fmt::format("pid {} on {} uses {}, started in {};{}", hello.pid, printable(hello.host),
                     printable(hello.device), human_duration(hello.startup_s),
                     pairs(hello.versions));
}

std::string layout_text(const events::RunStarted& run) {
  if (run.channels_last_why.empty()) return "";
  return fmt::format("; memory format {} ({})", run.channels_last ? "channels_last" : "contiguous",
                     printable(run.channels_last_why));
}

std::string precision_text(const events::RunStarted& run) {
  if (run.fp32_precision.empty() || run.fp32_precision == "ieee") return printable(run.precision);
  return fmt::format("{} with {} in float32 products ({})", printable(run.precision),
                     printable(run.fp32_precision), printable(run.fp32_precision_why));
}

std::string line_of(const events::RunStarted& run) {
  return fmt::format(
      "{} CPU thread{} ({}), {} loader worker{} with prefetch factor {} ({}), global batch {}, {} "
      "steps per epoch, precision {}; {} training and {} validation samples;{}{}{}{}",
      run.num_threads, plural(run.num_threads), printable(run.num_threads_why), run.num_workers,
      plural(run.num_workers), run.prefetch_factor, printable(run.num_workers_why),
      with_thousands(run.global_batch), with_thousands(run.steps_per_epoch), precision_text(run),
      with_thousands(run.train_samples), with_thousands(run.val_samples),
      pairs(run.data_fingerprints),
      run.no_data_digest.empty() ? "" : "; no data_digest: " + printable(run.no_data_digest),
      run.recomputes_why.empty() ? "" : "; " + printable(run.recomputes_why), layout_text(run));
}

/// Logs the choices of a run: device, weights, threads, data. Throws as log_line() does.
void log_choices(const fs::path& run_dir, int rank, const events::Event& event) {
  if (const auto* hello = std::get_if<events::Hello>(&event))
    log_line(run_dir, rank, line_of(*hello));
  if (const auto* weights = std::get_if<events::WeightsSet>(&event))
    log_line(run_dir, rank, join(report::weights_lines(*weights), "; "));
  if (const auto* run = std::get_if<events::RunStarted>(&event))
    log_line(run_dir, rank, line_of(*run));
}

}  // namespace

// A full disk must not end ranks that train or save to another disk.
template <class Body>
void RunEvents::write_if_possible(const Body& body) {
  try {
    body();
  } catch (const Error& error) {
    if (error.kind() != ErrorKind::resource) throw;
    on_event(0, events::Warning{error.what(), {}});
  }
}

void RunEvents::recall_epochs() {
  constexpr const char* kBestWeights = "checkpoints/best.safetensors";
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

void RunEvents::on_event(int rank, const events::Event& event) {
  const auto* resumed = std::get_if<events::Resumed>(&event);
  if (resumed == nullptr) return take(rank, event);
  commit_superseded(folder_);
  events::Resumed adjusted = *resumed;
  if (const std::string& why = start_.past.why_not_bitwise; !why.empty()) {
    adjusted.bitwise = false;  // a worker only knows the current config
    adjusted.why_not += (adjusted.why_not.empty() ? "" : "; ") + why;
  }
  take(rank, adjusted);
}

void RunEvents::on_tick(const Clock& clock) {
  for (const auto& sink : sinks_) sink->on_tick(clock.now());
}

void RunEvents::take(int rank, const events::Event& event) {
  record_.add(rank, event);
  write_if_possible([&] { log_choices(folder_, rank, event); });
  if (const auto* started = std::get_if<events::RunStarted>(&event)) {
    if (!start_.request.job.accepts_data_change)  // otherwise the worker reports it
      expect_same_data(start_.past.fingerprints, started->data_fingerprints);
    // Versions and data are known from here on; before, the manifest contained only the request.
    write_if_possible(on_started_);
  }
  for (const auto& sink : sinks_) sink->on_event(rank, event);
  for (const auto& sink : sinks_) {
    if (const auto news = sink->take_warning()) warn(*news);
  }
}

// Also writes to the log of rank 0, because the console may be the sink that failed.
void RunEvents::warn(const std::string& message) {
  write_if_possible([&] { log_line(folder_, 0, "warning: " + message); });
  on_event(0, events::Warning{message, {}});
}

}  // namespace trainctl::study
