#pragma once

#include "base/files.hpp"
#include "data/formats/file_reader.hpp"
#include "data/remote/object_store.hpp"
#include "data/remote/tier_folder.hpp"

#include <atomic>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

namespace trainctl::data {

/// The local copy of one object. It comes in blocks of 8 MiB as they are needed; each is fetched
/// once, by one thread of one process, and checked against its checksum when a process first uses
/// it. Called from several threads.
class CachedObject {
 public:
  static constexpr std::uint64_t kBlock = std::uint64_t{8} << 20;

  /// Where it comes from and where it is kept.
  struct Place {
    std::shared_ptr<TierFolder> folder;
    std::shared_ptr<ObjectStore> store;
  };

  /// The copy, begun if there is none yet; null where the store has no such object. A copy that was
  /// left unfinished goes on with the next block, or begins again where the object has changed.
  static std::shared_ptr<CachedObject> open(const Place& place, const Url& url);

  ~CachedObject() = default;
  CachedObject(const CachedObject&) = delete;
  CachedObject& operator=(const CachedObject&) = delete;

  [[nodiscard]] int fd() const { return data_.get(); }
  /// Its second half stands for the etag.
  [[nodiscard]] const FileStamp& stamp() const { return stamp_; }
  [[nodiscard]] std::uint64_t size() const { return stamp_.size; }

  /// Makes those bytes readable through fd(). Throws ChangedFile where the object has changed
  /// meanwhile, and what stores and TierFolder throw.
  void need(std::uint64_t offset, std::uint64_t size);
  /// All of it, several blocks at a time.
  void fetch();
  /// Takes this copy away, so that the next open() begins again.
  void forget() const;

 private:
  struct Notes;
  CachedObject(const Place& place, Url url, Fd data, Fd notes, const Notes& content);

  static std::shared_ptr<CachedObject> find(const Place& place, const Url& url);
  static std::shared_ptr<CachedObject> create(const Place& place, const Url& url,
                                              const Piece& first);
  [[nodiscard]] std::size_t blocks() const { return ready_.size(); }
  [[nodiscard]] std::uint64_t block_bytes(std::size_t block) const;
  [[nodiscard]] std::uint64_t mark_of(std::size_t block) const;
  void bring(std::size_t block);
  /// False where the object is another by now.
  bool try_to_bring(std::size_t block);
  void note_sound(std::size_t block);
  [[nodiscard]] std::uint64_t noted(std::size_t block) const;
  [[nodiscard]] bool is_sound(std::size_t block) const;
  bool download(std::size_t block);
  void store_block(std::size_t block, const std::string& bytes);
  void note_use() const;
  /// Asks the store for a missing block, once a process; false where the object is another by now.
  bool goes_on();

  Place place_;
  Url url_;
  Fd data_;
  Fd notes_;
  std::string etag_;
  FileStamp stamp_;
  std::uint64_t key_ = 0;    // of its locks
  std::uint64_t inode_ = 0;  // of this copy
  std::uint64_t noted_at_ = 0;
  std::vector<std::atomic<bool>> ready_;
};

/// The time of change that stands for an etag.
std::int64_t time_of_etag(const std::string& etag);

}  // namespace trainctl::data
