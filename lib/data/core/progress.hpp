#pragma once

#include <atomic>
#include <cstdint>

namespace trainctl::data {

/// While it lives, what this process reads and makes of its data is counted, from 1 on, for
/// somebody who tells slow loading from a hang by it. One at a time; the loaders end before it.
class ProgressCount {
 public:
  /// Null: nobody watches.
  explicit ProgressCount(std::atomic<std::int64_t>* counter);
  ~ProgressCount();
  ProgressCount(const ProgressCount&) = delete;
  ProgressCount& operator=(const ProgressCount&) = delete;
};

/// Something was read or made. From any thread.
void note_progress() noexcept;

}  // namespace trainctl::data
