#pragma once

#include "report/text/progress_bar.hpp"

#include <cstdint>
#include <string>

namespace trainctl::app {

struct Context;

/// The progress of work that is counted, on stderr: tqdm's line on a terminal, else a plain line
/// every 10 s.
class CounterLine {
 public:
  CounterLine(const Context& context, std::string label);
  /// Takes the line off the terminal.
  ~CounterLine();
  CounterLine(const CounterLine&) = delete;
  CounterLine& operator=(const CounterLine&) = delete;

  void update(std::int64_t done, std::int64_t total);

 private:
  [[nodiscard]] std::string text(std::int64_t done, std::int64_t total, double elapsed) const;

  std::string label_;
  report::ProgressMode mode_;
  report::Style style_;
  report::Write write_;
  double started_;
  double drawn_;
  std::int64_t first_ = -1;  // what was there when the work began
  bool on_terminal_ = false;
};

}  // namespace trainctl::app
