#pragma once

#include "events/records.hpp"

#include <cstddef>
#include <functional>
#include <mutex>
#include <string>
#include <string_view>

namespace trainctl::events {

/// Longest line that passes; a longer one is a fault of the writer.
inline constexpr std::size_t kMaxLineBytes = std::size_t{1} << 20;

/// Worker side: one line an event. Thread-safe. Does not own the descriptor.
class EventWriter {
 public:
  /// Ignores SIGPIPE for the process: a lost supervisor must not look like a crash of the worker.
  explicit EventWriter(int fd);

  /// Writes the event unless the supervisor is gone. Throws Error(unexpected) for a line above the
  /// limit and Error(resource) where writing fails otherwise.
  void write(const Event& event);
  /// The supervisor has closed its end: nothing is written any more.
  [[nodiscard]] bool is_cut_off() const;

 private:
  int fd_;
  mutable std::mutex mutex_;
  bool cut_off_ = false;
};

/// Supervisor side: splits what a non-blocking descriptor brings into lines, with bounded memory
/// and bounded work.
class LineReader {
 public:
  explicit LineReader(std::size_t max_line_bytes = kMaxLineBytes)
      : max_line_bytes_(max_line_bytes) {}

  enum class State {
    more,      // bytes were read, there may be others
    empty,     // nothing to read now
    closed,    // the writer has closed its end (a last line without newline is dropped)
    too_long,  // a line is above the limit: read no further
  };
  using LineHandler = std::function<void(std::string_view line)>;

  /// One read of at most 64 KiB; calls `on_line` for each line that is complete.
  State read_some(int fd, const LineHandler& on_line);

 private:
  std::size_t max_line_bytes_;
  std::string pending_;
};

}  // namespace trainctl::events
