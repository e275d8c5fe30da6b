#pragma once

#include "report/sinks/sink.hpp"

#include <cstddef>
#include <filesystem>
#include <functional>
#include <memory>
#include <set>
#include <string>
#include <vector>

namespace trainctl::report {

struct ExecOptions {
  std::vector<std::string> command;
  std::set<std::string> on;          // "start", "step", "epoch", "warning", "end", "failed"
  double stop_after_s = 10;          // how long it may take to end after its input has
  double stopped_after_s = 2;        // the same at most, where somebody stops the run
  double kill_after_s = 2;           // and after SIGTERM
  std::filesystem::path log;         // gets its stdout and stderr
  Json start;                        // what the line `start` has besides its type
  std::size_t most_bytes = 4 << 20;  // that wait for it
  std::function<double()> now;       // seconds of a steady clock
  /// Whether somebody asked trainctl to stop; empty: nobody does.
  std::function<bool()> stop_is_asked = {};
};

/// Starts a command and writes a line of JSON to its standard input for each thing that happens:
/// {"type": "start"|"step"|"epoch"|"warning"|"end"|"failed", ...}. The run never waits for it:
/// lines that it does not read wait in memory, the oldest are dropped beyond a bound, and their
/// number is told at the end. A command that ends early is told once with its exit code and the
/// last lines of its log, and not started again. At the end its input is closed; finish() waits for
/// it, then it is stopped with its group by SIGTERM and SIGKILL: at once where a stop is asked for
/// meanwhile. Throws Error(config) where it cannot be
/// started.
std::unique_ptr<Sink> make_exec_sink(ExecOptions options);

}  // namespace trainctl::report
