#pragma once

#include "data/formats/file_reader.hpp"
#include "data/remote/object_store.hpp"
#include "data/remote/tier_folder.hpp"

namespace trainctl::data {

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
