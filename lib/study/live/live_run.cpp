#include "study/live/live_run.hpp"

#include "base/files.hpp"
#include "base/machine/gpus.hpp"
#include "base/machine/procfs.hpp"
#include "base/numbers.hpp"
#include "events/codec.hpp"
#include "launch/process/worker_environment.hpp"
#include "study/live/live_files.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <ctime>
#include <fstream>
#include <optional>
#include <sstream>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

namespace trainctl::study {
namespace {

// Workers of a run as another process of the same user sees them.

/// What the page of a rank says.
struct Stamp {
  std::int64_t step = 0;
  std::string phase;  // "train"
  double age_s = 0;
};

struct RankProcess {
  int rank = 0;
  double cpu_s = 0;  // since its start
  double age_s = 0;  // since its start
  std::uint64_t rss_bytes = 0;
  std::optional<Stamp> stamp;  // nothing: it has not stamped, or its page cannot be read
};

/// The children of the process that are ranks of a run, by pid.
std::vector<int> rank_processes(int supervisor);

/// Nothing: it has gone, or is of another user.
std::optional<RankProcess> look_at_rank(int pid);

constexpr std::string_view kPage = "/memfd:trainctl-heartbeat";

std::string content_of(const fs::path& file) {
  std::ifstream in(file, std::ios::binary);
  std::ostringstream text;
  text << in.rdbuf();
  return text.str();
}

/// Its number among the ranks; nothing for a process that is none.
std::optional<int> rank_in_environment(int pid) {
  const std::string text = content_of(fmt::format("/proc/{}/environ", pid));
  if (text.find(launch::kHeartbeatFd) == std::string::npos) return std::nullopt;
  const std::string key = std::string(launch::kRank) + "=";
  std::istringstream in(text);
  for (std::string entry; std::getline(in, entry, '\0');) {
    if (!entry.starts_with(key)) continue;
    const auto rank = parse_number<int>(std::string_view(entry).substr(key.size()));
    if (rank && *rank >= 0) return rank;
  }
  return std::nullopt;
}

/// Read, not mapped: a file that shrinks could not kill us. The first fields of events::Heartbeat.
std::optional<Stamp> stamp_in(const fs::path& link) {
  struct First {
    std::int64_t step;
    std::int32_t phase;
    std::int32_t padding;
    std::int64_t monotonic_ns;
  } first{};
  const Fd fd(::open(link.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  if (!fd.valid() || ::pread(fd.get(), &first, sizeof first, 0) != ssize_t{sizeof first})
    return std::nullopt;
  if (first.monotonic_ns <= 0) return std::nullopt;
  timespec now{};
  ::clock_gettime(CLOCK_MONOTONIC, &now);
  const std::int64_t now_ns = std::int64_t{now.tv_sec} * 1'000'000'000 + now.tv_nsec;
  return Stamp{first.step, events::phase_name(static_cast<events::Phase>(first.phase)),
               static_cast<double>(now_ns - first.monotonic_ns) / 1e9};
}

std::optional<Stamp> stamp_of(int pid) {
  std::error_code failure;
  for (fs::directory_iterator at(fmt::format("/proc/{}/fd", pid), failure), end;
       !failure && at != end; at.increment(failure)) {
    std::error_code ignored;
    if (fs::read_symlink(at->path(), ignored).string().starts_with(kPage))
      return stamp_in(at->path());
  }
  return std::nullopt;
}

std::vector<int> rank_processes(int supervisor) {
  std::vector<int> found;
  for_each_entry("/proc", [&](const fs::path& entry) {
    const auto pid = parse_number<int>(entry.filename().string());
    if (!pid) return;
    const auto process = read_process_stat(*pid);
    if (process && process->parent == supervisor && rank_in_environment(*pid))
      found.push_back(*pid);
  });
  return found;
}

std::optional<RankProcess> look_at_rank(int pid) {
  const auto rank = rank_in_environment(pid);
  const auto stat = read_process_stat(pid);
  if (!rank || !stat || stat->state == 'Z' || stat->state == 'X') return std::nullopt;
  RankProcess process;
  process.rank = *rank;
  process.cpu_s = stat->cpu_s;
  process.age_s = stat->age_s();
  process.rss_bytes = stat->rss_bytes;
  process.stamp = stamp_of(pid);
  return process;
}

}  // namespace

using report::TopState;
using report::TopView;

LiveRun::LiveRun(fs::path run_dir) : run_dir_(std::move(run_dir)) {}
LiveRun::~LiveRun() = default;

report::TopRank LiveRun::rank_of(int pid, double now) {
  report::TopRank rank{.pid = pid};
  const auto process = look_at_rank(pid);
  if (!process) return rank;
  rank.rank = process->rank;
  rank.rss_bytes = process->rss_bytes;
  Sample sample{.at = now, .cpu_s = process->cpu_s};
  if (const auto& stamp = process->stamp) {
    rank.phase = stamp->phase;
    rank.step = sample.step = stamp->step;
    rank.idle_s = std::max(0.0, stamp->age_s);
  }
  const auto before = samples_.find(pid);
  if (before != samples_.end() && now > before->second.at) {
    const double elapsed = now - before->second.at;
    rank.cpu_percent = 100 * (sample.cpu_s - before->second.cpu_s) / elapsed;
    if (sample.step >= 0 && before->second.step >= 0)
      rank.steps_per_s = static_cast<double>(sample.step - before->second.step) / elapsed;
  } else if (process->age_s > 0) {
    rank.cpu_percent = 100 * process->cpu_s / process->age_s;
  }
  samples_[pid] = sample;
  return rank;
}

void LiveRun::add_processes(TopView& view, double now) {
  const std::vector<int> pids = rank_processes(static_cast<int>(view.pid));
  std::erase_if(samples_, [&](const auto& one) { return !std::ranges::count(pids, one.first); });
  for (const int pid : pids) view.ranks.push_back(rank_of(pid, now));
  std::ranges::sort(view.ranks, {}, &report::TopRank::rank);
  for (const report::TopRank& rank : view.ranks) {
    view.step = std::max(view.step, rank.step);
    if (rank.rank == 0 && rank.steps_per_s) view.steps_per_s = rank.steps_per_s;
  }
  if (!nvml_ && !view.ranks.empty() && !present_gpus().empty()) nvml_ = std::make_unique<Nvml>();
  if (!nvml_) return;
  for (const GpuState& gpu : nvml_->gpus())
    view.gpus.push_back({gpu.index, gpu.name, gpu.percent, gpu.used_bytes, gpu.total_bytes});
}

TopView LiveRun::look(double now) {
  TopView view;
  view.run_dir = run_dir_.string();
  view.name = fs::absolute(run_dir_).lexically_normal().parent_path().filename().string();
  const LiveCourse course = course_of(run_dir_);
  view.max_epochs = course.max_epochs;
  view.steps_per_epoch = course.steps_per_epoch;
  add_state(run_dir_, view);
  add_metrics(run_dir_, view);
  if (view.state == TopState::running) add_processes(view, now);
  add_last_epoch(run_dir_, view);
  add_checkpoint(run_dir_, view);
  add_warnings(run_dir_, view);
  const std::int64_t total = view.max_epochs * view.steps_per_epoch;
  if (!view.eta_s && view.steps_per_s && *view.steps_per_s > 0 && total > view.step)
    view.eta_s = static_cast<double>(total - view.step) / *view.steps_per_s;
  const bool is_live = view.state == TopState::running;
  if ((is_live || !view.samples_per_s) && view.steps_per_s && course.global_batch)
    view.samples_per_s = *view.steps_per_s * *course.global_batch;
  return view;
}

}  // namespace trainctl::study
