#pragma once

#include "base/files.hpp"
#include "spec/experiment/value_types.hpp"

#include <atomic>
#include <mutex>
#include <unordered_set>

namespace trainctl::data {

/// The two files of a cached object: its content, a sparse file with holes for missing blocks, and
/// notes with its URL, etag and one checksum per block.
struct ObjectFiles {
  fs::path data;
  fs::path notes;
};

/// Objects in use take so much of the budget that there is no room. This is an Error(resource).
class BudgetInUse final : public Error {
 public:
  explicit BudgetInUse(std::string message) : Error(ErrorKind::resource, std::move(message)) {}
};

/// The suffix of a file that is not complete yet.
constexpr const char* kUnfinished = ".new";

/// Returns the disk usage of a file with 4 KiB blocks; otherwise small files would be
/// underestimated.
constexpr std::uint64_t on_disk(std::uint64_t bytes) { return (bytes + 4095) / 4096 * 4096; }

/// Calls flock() and restarts it after signals. Returns false when the lock cannot be taken.
bool lock_file(int fd, int operation);

/// The folder of a local tier: paths of objects, locks shared by threads and processes, and a
/// budget that evicts the least recently used objects. Called from several threads; throws
/// Error(resource).
class TierFolder {
 public:
  /// A budget in percent is relative to the size of the folder plus the free space of its disk.
  TierFolder(fs::path folder, const spec::Budget& budget);

  [[nodiscard]] const fs::path& path() const { return folder_; }
  [[nodiscard]] std::uint64_t budget() const { return budget_; }
  [[nodiscard]] ObjectFiles files(const std::string& url) const;

  /// Waits until no other thread or process holds the same key. The returned Fd is the lock.
  [[nodiscard]] Fd lock(std::uint64_t key) const;

  /// Reserves bytes for a write, after evicting objects to stay within the budget. Throws
  /// BudgetInUse when a later retry may succeed.
  void reserve(std::uint64_t bytes);
  /// Reports that reserved bytes were written.
  void commit(std::uint64_t bytes) { pending_ -= on_disk(bytes); }
  /// Releases reserved bytes that were not written.
  void release(std::uint64_t bytes);
  /// Evicts the least recently used objects until `bytes` are freed.
  void evict(std::uint64_t bytes);

  /// Remembers data that this process has verified, so that it is not read and hashed again. When
  /// there are very many marks, all may be dropped at once.
  [[nodiscard]] bool is_verified(std::uint64_t mark) const;
  void mark_verified(std::uint64_t mark);

  /// Blocks downloaded by this process.
  [[nodiscard]] std::uint64_t fetches() const { return fetches_; }
  void count_fetch() { ++fetches_; }

 private:
  [[nodiscard]] std::uint64_t used_bytes() const;
  void set_used_bytes(std::uint64_t bytes) const;
  [[nodiscard]] std::uint64_t evict_down_to(std::uint64_t most) const;

  fs::path folder_;
  std::uint64_t budget_ = 0;
  mutable std::mutex mutex_;
  std::unordered_set<std::uint64_t> verified_;
  std::atomic<std::uint64_t> fetches_ = 0;
  std::atomic<std::uint64_t> pending_ = 0;  // bytes reserved but not on disk yet
};

}  // namespace trainctl::data
