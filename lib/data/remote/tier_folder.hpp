#pragma once

#include "base/error.hpp"
#include "base/files.hpp"
#include "spec/experiment/value_types.hpp"

#include <atomic>
#include <cstdint>
#include <mutex>
#include <string>
#include <unordered_set>
#include <utility>

namespace trainctl::data {

/// The two files of one cached object: its content, with holes where nothing was fetched yet, and
/// beside it what it is a copy of and a checksum for each block.
struct ObjectFiles {
  fs::path data;
  fs::path notes;
};

/// What is being read just now takes so much of the budget that there is no room. Error(resource).
class BudgetInUse final : public Error {
 public:
  explicit BudgetInUse(std::string message) : Error(ErrorKind::resource, std::move(message)) {}
};

/// What a file that is being made has behind its name until it is whole.
constexpr const char* kUnfinished = ".new";

/// What so many bytes take on a disk of 4 KiB blocks; small files would be counted too low else.
constexpr std::uint64_t on_disk(std::uint64_t bytes) { return (bytes + 4095) / 4096 * 4096; }

/// flock() that no signal cuts short; false where the lock is not to be had.
bool lock_file(int fd, int operation);

/// The folder of a local tier: where each object lies, the locks that threads and processes share,
/// and the budget, which the objects used longest ago make room for. Called from several threads;
/// throws Error(resource).
class TierFolder {
 public:
  /// A budget in per cent counts from what the folder holds and what is free beside it.
  TierFolder(fs::path folder, const spec::Budget& budget);

  [[nodiscard]] const fs::path& path() const { return folder_; }
  [[nodiscard]] std::uint64_t budget() const { return budget_; }
  [[nodiscard]] ObjectFiles files(const std::string& url) const;

  /// Waits until nobody else, in any thread or process, holds the same key; the Fd is the lock.
  [[nodiscard]] Fd lock(std::uint64_t key) const;

  /// Counts bytes that are about to be written, after what it takes to stay within the budget.
  /// Throws BudgetInUse where that may go better later.
  void take(std::uint64_t bytes);
  /// They were written.
  void settle(std::uint64_t bytes) { pending_ -= on_disk(bytes); }
  /// They were not written after all.
  void give_back(std::uint64_t bytes);
  /// Removes objects, the one used longest ago first, until `bytes` are freed.
  void make_room(std::uint64_t bytes);

  /// What this process has found sound need not be read and hashed again. Of very many marks all
  /// may be forgotten at once.
  [[nodiscard]] bool is_known(std::uint64_t mark) const;
  void remember(std::uint64_t mark);

  /// Blocks that this process had to fetch.
  [[nodiscard]] std::uint64_t fetches() const { return fetches_; }
  void note_fetch() { ++fetches_; }

 private:
  [[nodiscard]] std::uint64_t counted() const;
  void count(std::uint64_t bytes) const;
  [[nodiscard]] std::uint64_t evict_to(std::uint64_t most) const;

  fs::path folder_;
  std::uint64_t budget_ = 0;
  mutable std::mutex mutex_;
  std::unordered_set<std::uint64_t> known_;
  std::atomic<std::uint64_t> fetches_ = 0;
  std::atomic<std::uint64_t> pending_ = 0;  // bytes that were taken and do not lie on the disk yet
};

}  // namespace trainctl::data
