#include "study/sweep/run_starter.hpp"

#include "base/error.hpp"
#include "base/machine/machine.hpp"
#include "base/machine/numa.hpp"
#include "base/strings.hpp"
#include "launch/process/child.hpp"
#include "study/run/run_start.hpp"
#include "study/workers/devices.hpp"

#include <poll.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cmath>
#include <cstdlib>
#include <numeric>

namespace trainctl::study {
namespace {

constexpr std::string_view kVisiblePrefix = "CUDA_VISIBLE_DEVICES=";

std::vector<std::string> environment_of(const JobCommand& command) {
  const Share& share = command.share;
  std::vector<std::string> variables;
  for (char** entry = ::environ; entry != nullptr && *entry != nullptr; ++entry) {
    const std::string_view text(*entry);
    const bool is_ours = text.starts_with(kSourceFolder) ||  // set by a sweep that started this one
                         (!share.gpus.empty() && text.starts_with(kVisiblePrefix));
    if (!is_ours) variables.emplace_back(text);
  }
  if (!share.gpus.empty()) variables.push_back(std::string(kVisiblePrefix) + join(share.gpus, ","));
  if (!command.experiment.empty())
    variables.push_back(std::string(kSourceFolder) + "=" +
                        fs::absolute(command.experiment).parent_path().string());
  return variables;
}

pid_t started(const JobCommand& command, const launch::SignalGuard& guard) {
  launch::ChildPlan plan;
  plan.argv = command.argv;
  plan.environment = environment_of(command);
  plan.log_path = command.log.string();
  plan.mask = guard.child_mask();
  plan.cores = command.share.cores;
  return launch::start_child(plan);
}

/// Returns the GPUs as CUDA_VISIBLE_DEVICES names them; empty if no run would use one.
std::vector<std::string> gpus_for(const PlannedSweep& sweep) {
  const bool wants_any =
      std::ranges::any_of(sweep.devices, [](const auto& of_hash) { return of_hash.second != 0; });
  if (!wants_any || read_machine().gpus.empty()) return {};
  const int count = launch::probe_gpus().count;
  const char* listed = std::getenv("CUDA_VISIBLE_DEVICES");
  std::vector<std::string> names =
      listed == nullptr || *listed == '\0' ? std::vector<std::string>() : split(listed, ',');
  const bool is_complete = std::ssize(names) >= count;
  if (is_complete) {
    names.resize(static_cast<std::size_t>(count));
    return names;
  }
  names.clear();
  for (int i = 0; i < count; ++i) names.push_back(std::to_string(i));
  return names;
}

}  // namespace

ChildProcess::ChildProcess(const JobCommand& command, const launch::SignalGuard& guard)
    : pid_(started(command, guard)) {}

ChildProcess::~ChildProcess() {
  if (exit_code_) return;
  ::kill(pid_, SIGKILL);
  ::waitpid(pid_, nullptr, 0);
}

std::optional<int> ChildProcess::poll_exit_code() {
  if (exit_code_) return exit_code_;
  int status = 0;
  const pid_t found = ::waitpid(pid_, &status, WNOHANG);
  if (found == 0 || (found < 0 && errno == EINTR)) return std::nullopt;
  constexpr int kSignalled = 128;
  constexpr int kLost = 1;  // another part of the program has reaped it
  exit_code_ = found < 0             ? kLost
               : WIFSIGNALED(status) ? kSignalled + WTERMSIG(status)
                                     : WEXITSTATUS(status);
  return exit_code_;
}

void ChildProcess::signal(int number) {
  if (!exit_code_) ::kill(pid_, number);
}

std::vector<int> wait_for_signals(launch::SignalGuard& guard, double seconds) {
  constexpr double kMostS = 3600;
  pollfd wait{guard.fd(), POLLIN, 0};
  const double milliseconds = std::ceil(std::clamp(seconds, 0.0, kMostS) * 1000);
  ::poll(&wait, 1, static_cast<int>(milliseconds));
  return guard.take();
}

Slots::Slots(int jobs, std::vector<int> cores, double quota, std::vector<std::string> gpus)
    : taken_(static_cast<std::size_t>(jobs), false),
      cores_(std::move(cores)),
      quota_(quota),
      gpus_(std::move(gpus)),
      runs_(gpus_.size(), 0) {}

/// Returns adjacent cores, so that the threads of a run share caches. A quota below the number of
/// cores is divided as well.
std::vector<int> Slots::cores_of(int slot) const {
  const auto jobs = static_cast<double>(taken_.size());
  const auto all = static_cast<double>(cores_.size());
  if (taken_.size() == 1 || cores_.empty()) return {};
  const double share = std::max(1.0, std::floor(std::min(all, quota_) / jobs));
  const double stride = std::max(1.0, std::floor(all / jobs));
  const auto first = static_cast<std::size_t>(stride * slot) % cores_.size();
  const auto last = std::min(first + static_cast<std::size_t>(share), cores_.size());
  return {cores_.begin() + static_cast<std::ptrdiff_t>(first),
          cores_.begin() + static_cast<std::ptrdiff_t>(last)};
}

Share Slots::take(int gpus) {
  const auto free = std::ranges::find(taken_, false);
  ASSERT(free != taken_.end());
  *free = true;
  Share share{static_cast<int>(free - taken_.begin()), {}, {}};
  share.cores = cores_of(share.slot);
  if (taken_.size() == 1) return share;
  std::vector<std::size_t> order(gpus_.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::ranges::stable_sort(order, {}, [&](std::size_t gpu) { return runs_[gpu]; });
  order.resize(std::min(order.size(), static_cast<std::size_t>(std::max(gpus, 0))));
  std::ranges::sort(order);
  for (const std::size_t gpu : order) {
    ++runs_[gpu];
    share.gpus.push_back(gpus_[gpu]);
  }
  return share;
}

void Slots::give_back(const Share& share) {
  taken_.at(static_cast<std::size_t>(share.slot)) = false;
  for (const std::string& name : share.gpus)
    --runs_[static_cast<std::size_t>(std::ranges::find(gpus_, name) - gpus_.begin())];
}

RunStarter::RunStarter(const SweepContext& context, int jobs, const launch::SignalGuard& guard)
    : RunStarter(context, jobs, guard,
                 jobs > 1 ? gpus_for(context.sweep) : std::vector<std::string>()) {}

RunStarter::RunStarter(const SweepContext& context, int jobs, const launch::SignalGuard& guard,
                       const std::vector<std::string>& gpus)
    : context_(context),
      jobs_(jobs),
      guard_(guard),
      gpus_(static_cast<int>(gpus.size())),
      slots_(jobs, by_physical_core(allowed_cores()), cpu_quota(), gpus) {}

std::vector<std::string> RunStarter::command(const SweepJob& job) const {
  std::vector<std::string> words{context_.invocation.executable.string(), "run",
                                 config_of(job.plan.config).string(),
                                 fmt::format("seed={}", job.plan.seed)};
  if (job.plan.fold) words.push_back(fmt::format("dataset.split.fold={}", *job.plan.fold));
  for (const char* word : {"--resume", "auto", "--quiet", "--progress", "none", "--color", "never"})
    words.emplace_back(word);
  words.insert(words.end(), {"--run-dir", job.run_dir.string()});
  if (job.until_epoch)
    words.insert(words.end(), {"--until-epoch", std::to_string(*job.until_epoch)});
  return words;
}

/// Writes the experiment as it was when the sweep started, so that later changes of the file do not
/// affect its runs.
fs::path RunStarter::config_of(const std::string& hash) const {
  const fs::path file = context_.folder / "configs" / (hash + ".yaml");
  if (!is_file(file)) write_atomically(file, context_.sweep.configs.at(hash));
  return file;
}

int RunStarter::gpus_of(const SweepJob& job) const {
  if (gpus_ == 0) return 0;
  const int wanted = context_.sweep.devices.at(job.plan.config);
  return wanted >= 0 ? wanted : std::max(1, gpus_ / jobs_);
}

std::unique_ptr<JobProcess> RunStarter::start(const SweepJob& job) {
  const Share share = slots_.take(gpus_of(job));
  shares_[job.number] = share;
  const fs::path log = context_.folder / "logs" / (run_id(job.number) + ".log");
  try {
    return std::make_unique<ChildProcess>(
        JobCommand{command(job), log, share, context_.invocation.config_file}, guard_);
  } catch (const Error&) {
    release(job.number);
    throw;
  }
}

void RunStarter::release(std::int64_t number) {
  const auto share = shares_.find(number);
  if (share == shares_.end()) return;
  slots_.give_back(share->second);
  shares_.erase(share);
}

}  // namespace trainctl::study
