#include "study/run/run_log.hpp"

#include "base/clock.hpp"
#include "base/files.hpp"
#include "base/strings.hpp"
#include "launch/supervise/failure_evidence.hpp"
#include "log/log.hpp"
#include "report/text/weights.hpp"

#include <fmt/format.h>

namespace trainctl::study {
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
      run.num_threads, run.num_threads == 1 ? "" : "s", printable(run.num_threads_why),
      run.num_workers, run.num_workers == 1 ? "" : "s", run.prefetch_factor,
      printable(run.num_workers_why), run.global_batch, run.steps_per_epoch,
      printable(run.precision), run.train_samples, run.val_samples, pairs(run.data_fingerprints),
      run.no_data_digest.empty() ? "" : "; no data_digest: " + printable(run.no_data_digest),
      run.recomputes_why.empty() ? "" : "; " + printable(run.recomputes_why), layout_text(run));
}

}  // namespace

void RunLog::starts(const launch::LaunchSpec& launch) const {
  const int ranks = launch.ranks_here();
  log::get().debug("starting {} worker{}: {};{}", ranks, ranks == 1 ? "" : "s",
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
