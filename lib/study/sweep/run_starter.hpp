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

/// The part of the machine that one of several concurrent runs may use.
struct Share {
  int slot = 0;
  std::vector<int> cores;         // empty: any core
  std::vector<std::string> gpus;  // CUDA_VISIBLE_DEVICES; empty: unchanged
};

/// Divides the cores and GPUs of this machine among concurrent runs. A single run gets all of them.
class Slots {
 public:
  /// `cores` are the usable cores, `quota` is the CPU quota in cores; if `gpus` is empty, no GPUs
  /// are divided.
  Slots(int jobs, std::vector<int> cores, double quota, std::vector<std::string> gpus);

  /// Reserves a slot for a run that trains on that many GPUs, or on the CPU; chooses the GPUs with
  /// the fewest runs. There must be a free slot.
  Share take(int gpus);
  /// Releases the slot and the GPUs of a share.
  void give_back(const Share& share);

 private:
  [[nodiscard]] std::vector<int> cores_of(int slot) const;

  std::vector<bool> taken_;
  std::vector<int> cores_;
  double quota_;
  std::vector<std::string> gpus_;
  std::vector<int> runs_;  // number of runs on each GPU
};

/// The command line of a run and its environment.
struct JobCommand {
  std::vector<std::string> argv;  // argv[0] is the executable's path
  fs::path log;                   // its output is appended
  Share share;
  fs::path experiment = {};  // the file that the sweep was called with, see source_folder()
};

/// This program as a child process, which is killed when the calling thread exits. The destructor
/// kills it if it is still running.
class ChildProcess final : public JobProcess {
 public:
  /// Throws Error(resource) when it cannot be started.
  ChildProcess(const JobCommand& command, const launch::SignalGuard& guard);
  ~ChildProcess() override;
  ChildProcess(const ChildProcess&) = delete;
  ChildProcess& operator=(const ChildProcess&) = delete;

  std::optional<int> poll_exit_code() override;
  void signal(int number) override;

 private:
  pid_t pid_;
  std::optional<int> exit_code_;
};

/// Waits for a signal, the exit of a child, or at most `seconds`; returns the stop signals that
/// came.
std::vector<int> wait_for_signals(launch::SignalGuard& guard, double seconds);

/// The sweep whose runs are started, and the folder for their output.
struct SweepContext {
  const PlannedSweep& sweep;
  const Invocation& invocation;
  std::filesystem::path folder;
};

/// Starts `trainctl run` for each job, with its share of the machine.
class RunStarter {
 public:
  RunStarter(const SweepContext& context, int jobs, const launch::SignalGuard& guard);

  /// Starts the run of a job with a free slot. Throws Error(resource) when it cannot be started.
  std::unique_ptr<JobProcess> start(const SweepJob& job);
  /// Frees the share of a run for the next one.
  void release(std::int64_t number);

 private:
  RunStarter(const SweepContext& context, int jobs, const launch::SignalGuard& guard,
             const std::vector<std::string>& gpus);

  [[nodiscard]] std::vector<std::string> command(const SweepJob& job) const;
  [[nodiscard]] std::filesystem::path config_of(const std::string& hash) const;
  [[nodiscard]] int gpus_of(const SweepJob& job) const;

  SweepContext context_;
  int jobs_;
  const launch::SignalGuard& guard_;
  int gpus_;
  Slots slots_;
  std::map<std::int64_t, Share> shares_;
};

}  // namespace trainctl::study
