#pragma once

#include <deque>
#include <functional>
#include <optional>
#include <string>

namespace trainctl::report {

/// Lines on their way into files. One that the disk does not take, as it is full, waits with all
/// behind it, in order, and is tried again with each further one and a few times a second: a run is
/// worth more than its history. Up to 16,384 wait; then the oldest are lost, and that is told.
class Backlog {
 public:
  /// One line into one file: all of it or, where it throws Error(resource), nothing.
  using Write = std::function<void()>;

  /// Writes it now or later. Throws what `write` throws, but for Error(resource).
  void add(Write write);
  /// Tries again; `now` in seconds of one steady clock.
  void on_tick(double now);
  /// Tries for the last time. Throws Error(resource) where something still waits.
  void close();
  /// What people should know: that lines wait, at once and then after 5 s, 10 s ... 10 minutes, and
  /// that they wait no more. Nothing: no news.
  std::optional<std::string> news();

 private:
  void drain();

  std::deque<Write> waiting_;
  std::string failure_;  // of the first of them
  std::size_t lost_ = 0;
  double now_ = 0;
  bool is_told_ = false;
  double pause_ = 0;
  double next_told_ = 0;
};

}  // namespace trainctl::report
