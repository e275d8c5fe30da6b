#include "study/live/live_run.hpp"

#include "base/machine/gpus.hpp"
#include "study/live/live_files.hpp"
#include "study/live/rank_process.hpp"

#include <algorithm>
#include <utility>
#include <vector>

namespace trainctl::study {

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
