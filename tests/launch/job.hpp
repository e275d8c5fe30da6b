#pragma once

#include "base/clock.hpp"
#include "launch/process/stacks.hpp"
#include "launch/supervise/supervisor.hpp"
#include "support/temp_folder.hpp"

#include <unistd.h>

#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <functional>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

namespace trainctl::launch {

inline std::string contents(const std::filesystem::path& path) {
  std::ifstream file(path);
  std::string bytes;
  for (std::string part; std::getline(file, part, '\0');)
    bytes += part + '\0';  // does not throw when a process ends
  if (!bytes.empty()) bytes.pop_back();
  return bytes;
}

/// A job of fake workers in a temporary folder, marked so that its processes can be counted.
class Job {
 public:
  explicit Job(std::vector<std::string> words, int world_size = 1) {
    spec.argv = {TRAINCTL_FAKE_WORKER};
    spec.argv.insert(spec.argv.end(), words.begin(), words.end());
    spec.world_size = world_size;
    spec.log_folder = folder / "logs";
    spec.environment["TRAINCTL_TEST_MARK"] = folder.path().string();
    spec.grace_s = 30;  // time to stop on a busy machine; other jobs set less
    spec.stop_grace_s = 60;
    spec.init_timeout_s = 60;
  }

  Outcome run(const EventHandler& on_event = {}, const Clock& clock = steady_clock()) {
    const EventHandler keep = [&](int rank, const events::Event& event) {
      events.emplace_back(rank, event);
      if (on_event) on_event(rank, event);
    };
    return supervise(
        spec, keep, [this] { ++ticks; }, clock);
  }

  /// Returns the pids of running processes that have the mark.
  [[nodiscard]] std::vector<int> processes() const {
    const std::string mark = "TRAINCTL_TEST_MARK=" + folder.path().string();
    std::vector<int> found;
    std::error_code ignored;
    for (const auto& entry : std::filesystem::directory_iterator("/proc", ignored)) {
      const std::string name = entry.path().filename().string();
      if (name.find_first_not_of("0123456789") != std::string::npos) continue;
      if (contents(entry.path() / "environ").find(mark) != std::string::npos)
        found.push_back(std::stoi(name));
    }
    return found;
  }

  /// Returns the number of processes that are still running after a generous time.
  [[nodiscard]] std::size_t survivors(double within_s = 60) const {
    for (int i = 0; i < static_cast<int>(within_s * 100); ++i) {
      if (processes().empty()) return 0;
      std::this_thread::sleep_for(std::chrono::milliseconds(10));
    }
    return processes().size();
  }

  [[nodiscard]] std::string log(int rank) const {
    return contents(spec.log_folder / ("rank_" + std::to_string(rank) + ".log"));
  }

  template <class Record>
  [[nodiscard]] int count() const {
    int number = 0;
    for (const auto& [rank, event] : events)
      number += std::holds_alternative<Record>(event) ? 1 : 0;
    return number;
  }

  /// Returns whether a signal has stopped the process of a rank.
  [[nodiscard]] bool is_stopped(int rank) const {
    for (const auto& [sender, event] : events) {
      const auto* hello = std::get_if<events::Hello>(&event);
      if (hello == nullptr || sender != rank) continue;
      const ThreadList threads = list_threads(static_cast<pid_t>(hello->pid), 1);
      return !threads.states.empty() && threads.states.front().state.starts_with('T');
    }
    return false;
  }

  TempFolder folder;
  LaunchSpec spec;
  std::vector<std::pair<int, events::Event>> events;
  int ticks = 0;
};

/// Returns the number of random trials: the value of the variable, or else `often` with
/// TRAINCTL_LONG=1, or `few`.
inline int repetitions(const char* variable, int few, int often) {
  if (const char* text = std::getenv(variable)) return std::atoi(text);
  const char* text = std::getenv("TRAINCTL_LONG");
  return text != nullptr && std::string(text) == "1" ? often : few;
}

inline std::size_t open_descriptors() {
  std::size_t number = 0;
  for ([[maybe_unused]] const auto& entry : std::filesystem::directory_iterator("/proc/self/fd"))
    ++number;
  return number;
}

/// A clock that advances by an hour as soon as `ranks` ranks of the job have reported.
class LeapingClock final : public Clock {
 public:
  LeapingClock(const Job& job, int ranks) : job_(job), ranks_(ranks) {}
  [[nodiscard]] double now() const override {
    const bool all = job_.count<events::Hello>() >= ranks_;
    return steady_clock().now() + (all ? 3600 : 0);
  }

 private:
  const Job& job_;
  int ranks_;
};

/// A clock for hangs, which is the steady one until `settled`. Then it advances by `per_event`
/// seconds with each event, so that a rank that sends an event after each step never seems to
/// stall, however long it waits for a core. Without `per_event` it advances by an hour once the
/// supervisor has seen the last heartbeats.
class HangClock final : public Clock {
 public:
  HangClock(const Job& job, std::function<bool()> settled, double per_event = 0)
      : job_(job), settled_(std::move(settled)), per_event_(per_event) {}
  [[nodiscard]] double now() const override {
    if (!begin_ && settled_()) begin_ = {job_.events.size(), job_.ticks};
    double ahead = 0;
    if (begin_ && per_event_ > 0)
      ahead = per_event_ * static_cast<double>(job_.events.size() - begin_->first);
    else if (begin_ && job_.ticks >= begin_->second + 2)
      ahead = 3600;
    return steady_clock().now() + ahead;
  }

 private:
  const Job& job_;
  std::function<bool()> settled_;
  double per_event_;
  mutable std::optional<std::pair<std::size_t, int>> begin_;  // numbers of events and ticks
};

}  // namespace trainctl::launch
