#pragma once

#include "cli/verb.hpp"

namespace trainctl::app {

/// Progress of a counted task on stderr: one line that is redrawn on a terminal, as tqdm does, else
/// one line every 10 s.
class CounterLine {
 public:
  CounterLine(const Context& context, std::string label);
  /// Clears the line on the terminal.
  ~CounterLine();
  CounterLine(const CounterLine&) = delete;
  CounterLine& operator=(const CounterLine&) = delete;

  void update(std::int64_t done, std::int64_t total);
  /// Returns a function that updates the line, and throws Error(interrupted) if a signal has
  /// arrived during run_until_signal().
  [[nodiscard]] std::function<void(std::int64_t done, std::int64_t total)> progress();

 private:
  [[nodiscard]] std::string text(std::int64_t done, std::int64_t total, double elapsed) const;

  std::string label_;
  report::ProgressMode mode_;
  report::Style style_;
  report::Write write_;
  double started_;
  double drawn_;
  std::int64_t first_ = -1;  // count when the work began
  bool on_terminal_ = false;
};

/// Runs a task that calls CounterLine::progress(). After SIGINT or SIGTERM the task ends with an
/// exception; then `note` is printed and the signal ends the program. A second signal ends it
/// immediately.
void run_until_signal(const std::function<void()>& task, const char* note);

}  // namespace trainctl::app
