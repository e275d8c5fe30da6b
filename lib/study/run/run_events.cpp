#include "study/run/run_events.hpp"

#include "spec/experiment/monitor.hpp"
#include "study/resume/run_history.hpp"
#include "study/resume/superseded.hpp"

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
                       .value = report::find_metric(epoch.metrics, monitor).value_or(0)});
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

}  // namespace trainctl::study
