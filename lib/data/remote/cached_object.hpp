#pragma once

#include "data/formats/file_reader.hpp"
#include "data/remote/object_store.hpp"
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

/// The local copy of one object. Blocks of 8 MiB are downloaded on demand, each once by one thread
/// of one process, and verified by checksum when a process first uses them. Called from several
/// threads.
class CachedObject {
 public:
  static constexpr std::uint64_t kBlock = std::uint64_t{8} << 20;

  /// The local folder and the remote store of the object.
  struct Storage {
    std::shared_ptr<TierFolder> folder;
    std::shared_ptr<ObjectStore> store;
  };

  /// Opens the copy, or creates it. Returns null when the store has no such object. An incomplete
  /// copy continues with the missing blocks, or restarts if the object has changed.
  static std::shared_ptr<CachedObject> open(const Storage& storage, const Url& url);

  ~CachedObject() = default;
  CachedObject(const CachedObject&) = delete;
  CachedObject& operator=(const CachedObject&) = delete;

  [[nodiscard]] int fd() const { return data_.get(); }
  /// Returns the size and, as modification time, a hash of the etag.
  [[nodiscard]] const FileStamp& stamp() const { return stamp_; }
  [[nodiscard]] std::uint64_t size() const { return stamp_.size; }

  /// Makes those bytes readable through fd(). Throws ChangedFile when the object has changed
  /// meanwhile, and all errors of ObjectStore and TierFolder.
  void need(std::uint64_t offset, std::uint64_t size);
  /// Downloads all blocks, several at a time.
  void fetch();
  /// Removes this copy, so that the next open() starts over.
  void forget() const;

 private:
  struct Metadata;
  CachedObject(const Storage& storage, Url url, Fd data, Fd notes, const Metadata& content);

  static std::shared_ptr<CachedObject> find(const Storage& storage, const Url& url);
  static std::shared_ptr<CachedObject> create(const Storage& storage, const Url& url,
                                              const ObjectPart& first);
  [[nodiscard]] std::size_t blocks() const { return ready_.size(); }
  [[nodiscard]] std::uint64_t block_bytes(std::size_t block) const;
  [[nodiscard]] std::uint64_t mark_of(std::size_t block) const;
  void ensure_block(std::size_t block);
  /// Returns false when the object has changed.
  bool try_ensure_block(std::size_t block);
  void mark_ready(std::size_t block);
  [[nodiscard]] std::uint64_t stored_checksum(std::size_t block) const;
  [[nodiscard]] bool is_valid_block(std::size_t block) const;
  bool download(std::size_t block);
  void store_block(std::size_t block, const std::string& bytes);
  void touch() const;
  /// Requests a missing block from the store, once per process. Returns false when the object has
  /// changed.
  bool can_resume();

  Storage storage_;
  Url url_;
  Fd data_;
  Fd notes_;
  std::string etag_;
  FileStamp stamp_;
  std::uint64_t key_ = 0;    // key of its locks
  std::uint64_t inode_ = 0;  // of this copy
  std::uint64_t checksums_offset_ = 0;
  std::vector<std::atomic<bool>> ready_;
};

/// Returns the modification time that represents an etag.
std::int64_t time_of_etag(const std::string& etag);

}  // namespace trainctl::data
