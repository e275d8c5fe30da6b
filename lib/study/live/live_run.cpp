#include "study/live/live_run.hpp"

#include "base/error.hpp"
#include "base/json.hpp"
#include "base/machine/gpus.hpp"
#include "base/machine/procfs.hpp"
#include "base/numbers.hpp"
#include "checkpoint/store.hpp"
#include "events/pipe.hpp"
#include "launch/process/child.hpp"
#include "report/record/run_files.hpp"
#include "report/text/table.hpp"
#include "study/folder/run_folder.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmath>
#include <ctime>
#include <fstream>
#include <sstream>
#include <system_error>

namespace trainctl::study {

using report::TopState;
using report::TopView;

namespace {

constexpr std::streamoff kTail = 256 * 1024;
constexpr std::size_t kMostLosses = 400;
constexpr std::size_t kMostWarnings = 5;

/// Returns a stream that fails if the path is not a regular file, because opening a FIFO would
/// block.
std::ifstream open_regular(const fs::path& file, std::ios::openmode mode = std::ios::in) {
  return is_file(file) ? std::ifstream(file, mode) : std::ifstream();
}

/// Returns the complete lines at the end of a file.
std::vector<std::string> last_lines(const fs::path& file) {
  std::ifstream in = open_regular(file, std::ios::binary | std::ios::ate);
  if (!in.is_open()) return {};
  const auto size = static_cast<std::streamoff>(in.tellg());
  in.seekg(std::max<std::streamoff>(0, size - kTail));
  std::string line;
  if (size > kTail) std::getline(in, line);  // the rest of a line that started earlier
  std::vector<std::string> lines;
  while (std::getline(in, line)) {
    if (!line.empty()) lines.push_back(line);
  }
  return lines;
}

std::optional<double> number_in(const Json& document, const char* key) {
  const Json& value = report::member(document, key);
  if (value.is_number()) return value.get<double>();
  if (value == "nan") return std::nan("");
  if (value == "inf" || value == "-inf") return HUGE_VAL;
  return std::nullopt;
}

std::int64_t integer_in(const Json& document, const char* key) {
  const double number = number_in(document, key).value_or(0);
  return number > -9e15 && number < 9e15 ? static_cast<std::int64_t>(number) : 0;
}

/// The steps in order; steps that a resumed run repeats replace the earlier ones.
struct History {
  struct Line {
    std::int64_t step = 0;
    double elapsed_s = 0;
    double loss = 0;
  };
  std::vector<Line> steps;
  Json epoch = nullptr;  // the last epoch

  void add(const Json& line) {
    const std::string type = report::text_at(line, "type");
    if (type == "epoch") epoch = line;
    if (type != "step") return;
    const Line read{integer_in(line, "step"), number_in(line, "elapsed_s").value_or(0),
                    number_in(line, "train/loss").value_or(std::nan(""))};
    while (!steps.empty() && steps.back().step >= read.step) steps.pop_back();
    steps.push_back(read);
  }
};

std::optional<double> cell_of(const std::vector<std::string>& header,
                              const std::vector<std::string>& row, const std::string& column) {
  const auto at = std::ranges::find(header, column) - header.begin();
  if (at >= std::min(std::ssize(header), std::ssize(row))) return std::nullopt;
  return parse_number<double>(row[static_cast<std::size_t>(at)]);
}

/// Adds an epoch that is missing in metrics.jsonl, because a run may not use that logger.
void add_newer_epoch(const std::vector<std::string>& names, const std::vector<std::string>& row,
                     TopView& view) {
  constexpr double kMost = 9e15;
  const double epoch = cell_of(names, row, "epoch").value_or(0);
  if (!(epoch > static_cast<double>(view.epoch) && epoch < kMost)) return;
  view.epoch = static_cast<std::int64_t>(epoch);
  const double step = cell_of(names, row, "step").value_or(0);
  if (step > 0 && step < kMost) view.step = std::max(view.step, static_cast<std::int64_t>(step));
  view.lr = cell_of(names, row, "lr");
  view.metrics.clear();
  for (const std::string& name : names) {
    const auto value =
        name.find('/') == std::string::npos ? std::nullopt : cell_of(names, row, name);
    if (value) view.metrics.emplace_back(name, *value);
  }
}

bool has_warning(const std::string& line) {
  return line.find("warning") != std::string::npos || line.find("Warning") != std::string::npos ||
         line.find("WARN") != std::string::npos || line.find("error") != std::string::npos;
}

/// The length of the run according to its manifest.
struct LiveCourse {
  std::int64_t max_epochs = 0;       // 0: unknown
  std::int64_t steps_per_epoch = 0;  // 0: unknown
  std::optional<double> global_batch;
};

LiveCourse course_of(const fs::path& run_dir) {
  const Json manifest = object_if_readable(run_dir / "manifest.json");
  const Json& course = report::member(manifest, "course");
  return {.max_epochs = std::max<std::int64_t>(0, integer_in(course, "max_epochs")),
          .steps_per_epoch = std::max<std::int64_t>(0, integer_in(course, "steps_per_epoch")),
          .global_batch = number_in(course, "global_batch")};
}

/// Adds whether the run is running and how it ended, from its lock and result.json.
void add_state(const fs::path& run_dir, TopView& view) {
  const Json result = object_if_readable(run_dir / "result.json");
  const std::string verdict = report::text_at(result, "verdict");
  const auto holder = lock_holder(run_dir);
  const LockHolder here = this_process();
  if (holder) {
    view.host = holder->host;
    view.pid = holder->pid;
    view.since = holder->since;
  }
  if (holder && is_certainly_alive(*holder, here)) {
    view.state = TopState::running;
  } else if (!verdict.empty() && verdict != "unfinished") {
    view.state = TopState::ended;
    view.verdict = verdict;
    view.message = report::text_at(result, "message");
    if (const auto code = number_in(result, "exit_code"))
      view.exit_code = static_cast<std::int64_t>(*code);
  } else {
    view.state = !holder || why_exited(*holder, here) ? TopState::gone : TopState::elsewhere;
  }
}

void add_metrics(const fs::path& run_dir, TopView& view) {
  History history;
  const std::vector<std::string> lines = last_lines(run_dir / "metrics.jsonl");
  std::size_t damaged = 0;
  for (const std::string& text : lines) {
    const Json line = parse_json(text);
    if (!line.is_object() && &text != &lines.back()) ++damaged;  // the last line may be incomplete
    history.add(line);
  }
  if (damaged > 0)
    view.warnings.push_back(
        fmt::format("metrics.jsonl has {} damaged {}", damaged, damaged == 1 ? "line" : "lines"));
  const auto& steps = history.steps;
  const std::size_t first = steps.size() > kMostLosses ? steps.size() - kMostLosses : 0;
  for (std::size_t i = first; i < steps.size(); ++i) view.losses.push_back(steps[i].loss);
  if (!steps.empty()) view.step = steps.back().step;
  if (steps.size() > 1) {
    const auto& last = steps.back();
    const auto& before = steps[steps.size() - 2];
    if (last.elapsed_s > before.elapsed_s)
      view.steps_per_s =
          static_cast<double>(last.step - before.step) / (last.elapsed_s - before.elapsed_s);
  }
  if (!history.epoch.is_object()) return;
  view.epoch = integer_in(history.epoch, "epoch");
  view.step = std::max(view.step, integer_in(history.epoch, "step"));
  view.lr = number_in(history.epoch, "lr");
  for (const auto& [name, value] : history.epoch.items()) {
    if (name.find('/') == std::string::npos) continue;
    if (const auto number = number_in(history.epoch, name.c_str()))
      view.metrics.emplace_back(name, *number);
  }
}

void add_last_epoch(const fs::path& run_dir, TopView& view) {
  std::ifstream in = open_regular(run_dir / "epochs.csv");
  std::string header;
  const std::vector<std::string> lines = last_lines(run_dir / "epochs.csv");
  if (!std::getline(in, header) || lines.empty() || lines.back() == header) return;
  const auto names = report::csv_cells(header);
  const auto row = report::csv_cells(lines.back());
  add_newer_epoch(names, row, view);
  view.samples_per_s = cell_of(names, row, "samples_per_s");
  const auto wall = cell_of(names, row, "wall_s");
  const auto wait = cell_of(names, row, "data_wait_s");
  if (wall && wait && *wall > 0) view.data_wait_share = *wait / *wall;
  const std::int64_t total = view.max_epochs * view.steps_per_epoch;
  if (wall && total > view.step)
    view.eta_s =
        static_cast<double>(total - view.step) / static_cast<double>(view.steps_per_epoch) * *wall;
}

void add_checkpoint(const fs::path& run_dir, TopView& view) {
  if (!is_folder(run_dir / "checkpoints")) return;
  try {
    for (const checkpoint::StoredCheckpoint& found :
         checkpoint::Store(run_dir / "checkpoints").list()) {
      struct stat info {};
      if (!found.committed || ::stat(found.path.c_str(), &info) != 0) continue;
      view.checkpoint = {found.name, found.moment.global_step,
                         std::max(0.0, std::difftime(std::time(nullptr), info.st_mtime))};
      return;
    }
  } catch (const Error&) {  // an unreadable checkpoint is no error for an observer
  }
}

void add_warnings(const fs::path& run_dir, TopView& view) {
  for (const fs::path& log : paths_in(run_dir / "logs")) {
    if (log.extension() != ".log") continue;
    for (const std::string& line : last_lines(log)) {
      if (has_warning(line)) view.warnings.push_back(log.stem().string() + ": " + line);
    }
  }
  if (view.warnings.size() > kMostWarnings)
    view.warnings.erase(view.warnings.begin(), view.warnings.end() - kMostWarnings);
}

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
  std::optional<Stamp> stamp;  // absent: no heartbeat yet, or the page is unreadable
};

constexpr std::string_view kPage = "/memfd:trainctl-heartbeat";

std::optional<int> rank_in_environment(int pid) {
  std::ifstream file(fmt::format("/proc/{}/environ", pid), std::ios::binary);
  const std::string text(std::istreambuf_iterator<char>(file), {});
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

/// The page is read, not mapped, so that a truncated file cannot cause SIGBUS. The fields are the
/// first fields of events::Heartbeat.
std::optional<Stamp> stamp_in(const fs::path& link) {
  struct FirstFields {
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
  for (const fs::path& link : paths_in(fmt::format("/proc/{}/fd", pid))) {
    std::error_code ignored;
    if (fs::read_symlink(link, ignored).string().starts_with(kPage)) return stamp_in(link);
  }
  return std::nullopt;
}

std::vector<int> rank_processes(int supervisor) {
  std::vector<int> found;
  for (const fs::path& entry : paths_in("/proc")) {
    const auto pid = parse_number<int>(entry.filename().string());
    const auto process = pid ? read_process_stat(*pid) : std::nullopt;
    if (process && process->parent == supervisor && rank_in_environment(*pid))
      found.push_back(*pid);
  }
  return found;
}

/// Returns nullopt for a process that has exited or belongs to another user.
std::optional<RankProcess> read_rank_process(int pid) {
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

report::TopRank LiveRun::rank_of(int pid, double now) {
  report::TopRank rank{.pid = pid};
  const auto process = read_rank_process(pid);
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

TopView LiveRun::snapshot(double now) {
  TopView view;
  view.run_dir = run_dir_.string();
  view.name = fs::absolute(run_dir_).lexically_normal().parent_path().filename().string();
  const LiveCourse course = course_of(run_dir_);
  view.max_epochs = course.max_epochs;
  view.steps_per_epoch = course.steps_per_epoch;
  add_state(run_dir_, view);
  add_warnings(run_dir_, view);
  add_metrics(run_dir_, view);
  if (view.state == TopState::running) add_processes(view, now);
  add_last_epoch(run_dir_, view);
  add_checkpoint(run_dir_, view);
  const std::int64_t total = view.max_epochs * view.steps_per_epoch;
  if (!view.eta_s && view.steps_per_s && *view.steps_per_s > 0 && total > view.step)
    view.eta_s = static_cast<double>(total - view.step) / *view.steps_per_s;
  const bool is_live = view.state == TopState::running;
  if ((is_live || !view.samples_per_s) && view.steps_per_s && course.global_batch)
    view.samples_per_s = *view.steps_per_s * *course.global_batch;
  return view;
}

}  // namespace trainctl::study
