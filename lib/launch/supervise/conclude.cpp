#include "launch/supervise/conclude.hpp"

#include "base/error.hpp"
#include "launch/process/stacks.hpp"
#include "launch/rendezvous/host.hpp"
#include "launch/supervise/failure_evidence.hpp"

#include <algorithm>
#include <filesystem>
#include <system_error>

namespace trainctl::launch {
namespace {

RankEnd told_end(const JobState& job, const RankState& rank) {
  RankEnd end = rank.end();
  const std::filesystem::path& folder = job.spec.log_folder;
  const bool is_elsewhere = end.rank >= job.spec.first_rank() + job.spec.ranks_here();
  if (rank.is_alive() && is_elsewhere && !end.report)
    end.report = Report{static_cast<int>(ErrorKind::rank_failed),
                        "its node was told to end it and has not said how it ended"};
  const bool speechless = !end.report && is_failure(end);
  const auto written = speechless ? read_error_file(folder, end.rank) : std::nullopt;
  if (written) end.report = Report{written->kind, written->message};
  if (job.asked_for_stacks != end.rank || !end.report) return end;
  std::error_code ignored;
  if (std::filesystem::exists(stacks_path(folder, end.rank), ignored))
    end.report->message += stacks_note(job.spec, end.rank);
  return end;
}

}  // namespace

std::string stacks_note(const LaunchSpec& spec, int rank) {
  const auto file = spec.log_folder.filename() / stacks_path("", rank);
  return "; stacks of its threads: " + file.string();
}

Outcome conclude(const JobState& job) {
  JobEnd end;
  end.stop_signal = job.stop_signal;
  end.host = host_name();
  for (const RankState* rank : job.ranks) {
    if (rank->has_end()) end.ranks.push_back(told_end(job, *rank));
  }
  Outcome outcome = judge(end);
  const auto add_tail = [&](RankFailure& failure) {
    failure.log_tail = log_tail(log_path(job.spec.log_folder, failure.rank));
  };
  if (outcome.first_failure) add_tail(*outcome.first_failure);
  std::ranges::for_each(outcome.consequences, add_tail);
  return outcome;
}

}  // namespace trainctl::launch
