#pragma once

#include "base/json.hpp"
#include "events/records.hpp"

#include <cstddef>
#include <functional>
#include <mutex>

namespace trainctl::events {

/// The longest accepted line; a longer one is an error of the writer.
inline constexpr std::size_t kMaxLineBytes = std::size_t{1} << 20;

/// The worker's side: writes one line per event. Thread-safe. Does not own the descriptor.
class EventWriter {
 public:
  /// Ignores SIGPIPE in this process, so that a lost supervisor does not look like a crash.
  explicit EventWriter(int fd);

  /// Writes the event unless the supervisor has ended. Throws Error(unexpected) for a line above
  /// the limit and Error(resource) for other write errors.
  void write(const Event& event);
  /// Returns whether the supervisor has closed its end; nothing is written then.
  [[nodiscard]] bool is_cut_off() const;

 private:
  int fd_;
  mutable std::mutex mutex_;
  bool cut_off_ = false;
};

/// The supervisor's side: splits data of a non-blocking descriptor into lines, with bounded memory.
class LineReader {
 public:
  explicit LineReader(std::size_t max_line_bytes = kMaxLineBytes)
      : max_line_bytes_(max_line_bytes) {}

  enum class State {
    more,      // bytes were read, and there may be more
    empty,     // nothing to read now
    closed,    // the writer has closed its end (an incomplete last line is dropped)
    too_long,  // a line is above the limit: do not read on
  };
  using LineHandler = std::function<void(std::string_view line)>;

  /// Makes one read of at most 64 KiB and calls `on_line` for each complete line.
  State read_some(int fd, const LineHandler& on_line);

 private:
  std::size_t max_line_bytes_;
  std::string pending_;
};

/// Returns one line of JSON without the newline: {"event": "epoch_ended", ...}. Non-finite numbers
/// become the strings "nan", "inf" and "-inf".
std::string encode(const Event& event);

/// Parses a line. Throws Error(unexpected) if it is not an event: the worker is part of trainctl,
/// so an invalid line is a bug.
Event decode(std::string_view line);

inline constexpr std::array kPhases{Phase::startup,    Phase::train,    Phase::validate,
                                    Phase::checkpoint, Phase::shutdown, Phase::load};
/// Returns "train" etc.; "unknown" for a value outside the enum, which shared memory may contain.
const char* phase_name(Phase phase);

/// These conversions are shared with other documents (result.json, bench.json).
Json to_json(const Timing& timing);
Json to_json(const std::vector<TensorSummary>& summaries);

}  // namespace trainctl::events
