#pragma once

#include "base/files.hpp"
#include "launch/process/signals.hpp"
#include "study/sweep/planned_sweep.hpp"
#include "study/sweep/sweep.hpp"

#include <sys/types.h>

#include <cstdint>
#include <filesystem>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace trainctl::study {

/// What one of the runs that train side by side may use.
struct Share {
  int slot = 0;
  std::vector<int> cores;         // empty: any
  std::vector<std::string> gpus;  // as CUDA_VISIBLE_DEVICES names them; empty: as they are
};

/// The cores and GPUs of this machine among runs that train side by side. One at a time has all.
class Slots {
 public:
  /// `cores` are those that may be used, `quota` how many of them there is time for; `gpus` empty:
  /// none is to be shared out.
  Slots(int jobs, std::vector<int> cores, double quota, std::vector<std::string> gpus);

  /// For a run that trains on so many GPUs, or on none: those with the fewest runs. There has to be
  /// a slot that is free.
  Share take(int gpus);
  void give_back(const Share& share);

 private:
  [[nodiscard]] std::vector<int> cores_of(int slot) const;

  std::vector<bool> taken_;
  std::vector<int> cores_;
  double quota_;
  std::vector<std::string> gpus_;
  std::vector<int> runs_;  // of each GPU
};

/// What is started.
struct JobCommand {
  std::vector<std::string> argv;  // argv[0] is the executable's path
  fs::path log;                   // what it prints is appended
  Share share;
  fs::path experiment = {};  // the file that the sweep was called with, see source_folder()
};

/// This program as a child, which dies with the calling thread. Killed with this object where it
/// has not ended.
class ChildProcess final : public JobProcess {
 public:
  /// Throws Error(resource) where it cannot be started.
  ChildProcess(const JobCommand& command, const launch::SignalGuard& guard);
  ~ChildProcess() override;
  ChildProcess(const ChildProcess&) = delete;
  ChildProcess& operator=(const ChildProcess&) = delete;

  std::optional<int> ended() override;
  void signal(int number) override;

 private:
  pid_t pid_;
  std::optional<int> exit_code_;
};

/// Waits until a signal comes, a child ends, or so many seconds are over; the stop signals that
/// came.
std::vector<int> wait_for_signals(launch::SignalGuard& guard, double seconds);

/// Whose runs are started, and where they leave what they write.
struct SweepPlace {
  const PlannedSweep& sweep;
  const Invocation& invocation;
  std::filesystem::path folder;
};

/// Starts `trainctl run`, with its share of the machine.
class RunStarter {
 public:
  RunStarter(const SweepPlace& place, int jobs, const launch::SignalGuard& guard);

  std::unique_ptr<JobProcess> start(const SweepJob& job);
  /// What a run had is free for the next.
  void release(std::int64_t number);

 private:
  RunStarter(const SweepPlace& place, int jobs, const launch::SignalGuard& guard,
             const std::vector<std::string>& gpus);

  [[nodiscard]] std::vector<std::string> command(const SweepJob& job) const;
  [[nodiscard]] std::filesystem::path config_of(const std::string& hash) const;
  [[nodiscard]] const PlannedRun& run_of(const SweepJob& job) const;
  [[nodiscard]] int gpus_of(const SweepJob& job) const;

  SweepPlace place_;
  int jobs_;
  const launch::SignalGuard& guard_;
  int gpus_;
  Slots slots_;
  std::map<std::int64_t, Share> shares_;
};

}  // namespace trainctl::study
