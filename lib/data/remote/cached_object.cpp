#include "data/remote/cached_object.hpp"

#include "base/hash.hpp"
#include "data/core/parallel.hpp"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

namespace trainctl::data {
namespace {

constexpr std::uint64_t kMagic = 0x0131'7265'6974'6374;  // "tctier1" and the version
constexpr std::uint64_t kMaxMetadata = std::uint64_t{1} << 16;
constexpr std::int64_t kConnections = 4;
constexpr std::size_t kHashedAtOnce = 1 << 16;

std::uint64_t hash_of(std::string_view text, std::uint64_t seed = 0) {
  return hash_bytes(std::as_bytes(std::span(text)), seed);
}

/// Never returns 0, which marks a missing block.
std::uint64_t checksum_of(std::uint64_t hash) { return std::max<std::uint64_t>(hash, 1); }

bool write_at(int fd, std::string_view bytes, std::uint64_t offset) {
  while (!bytes.empty()) {
    const ssize_t written = ::pwrite(fd, bytes.data(), bytes.size(), static_cast<off_t>(offset));
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) return false;
    bytes.remove_prefix(static_cast<std::size_t>(written));
    offset += static_cast<std::uint64_t>(written);
  }
  return true;
}

bool read_at(int fd, void* out, std::size_t size, std::uint64_t offset) {
  std::size_t done = 0;
  while (done < size) {
    const ssize_t count =
        ::pread(fd, static_cast<char*>(out) + done, size - done, static_cast<off_t>(offset + done));
    if (count < 0 && errno == EINTR) continue;
    if (count <= 0) return false;
    done += static_cast<std::size_t>(count);
  }
  return true;
}

/// A file that is removed by the destructor unless it is published.
class NewFile {
 public:
  explicit NewFile(const fs::path& path)
      : path_(path),
        unfinished_(path.string() + kUnfinished),
        fd_(::open(unfinished_.path().c_str(), O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0666)) {
    ENSURE(resource, fd_.valid(), "cannot write {}: {}", shown(path_), std::strerror(errno));
  }

  [[nodiscard]] Fd take_fd() { return std::move(fd_); }
  void publish() {
    ENSURE(resource, ::rename(unfinished_.path().c_str(), path_.c_str()) == 0,
           "cannot write {}: {}", shown(path_), std::strerror(errno));
    unfinished_.keep();
  }

 private:
  fs::path path_;
  FileGuard unfinished_;
  Fd fd_;
};

/// Bytes reserved in the budget, which are released unless they are written.
class Reservation {
 public:
  Reservation(TierFolder& folder, std::uint64_t bytes) : folder_(folder), bytes_(bytes) {
    folder_.reserve(bytes_);
  }
  ~Reservation() {
    try {
      written_ ? folder_.commit(bytes_) : folder_.release(bytes_);
    } catch (const Error&) {  // the count stays too high until the next eviction
    }
  }
  Reservation(const Reservation&) = delete;
  Reservation& operator=(const Reservation&) = delete;

  void written() { written_ = true; }

 private:
  TierFolder& folder_;
  std::uint64_t bytes_;
  bool written_ = false;
};

void remove_files(const ObjectFiles& files) {
  ::unlink(files.data.c_str());
  ::unlink(files.notes.c_str());
}

constexpr std::uint64_t kUsedBytesLock = 0;  // keys of objects are hashes, never this small
constexpr std::size_t kMostName = 100;       // bytes of the readable part of a file name
constexpr std::uint64_t kEvictedShare = 10;  // an eviction frees a tenth of the budget
constexpr const char* kData = ".data";       // objects may have other suffixes before it
constexpr const char* kNotes = ".notes";
constexpr std::int64_t kAbandonedAfter = 3600;  // seconds
constexpr std::size_t kMaxVerified = 1 << 19;   // marks: 16 MB

struct CachedFile {
  fs::path data;
  std::int64_t used_ns = 0;
  std::uint64_t bytes = 0;
};

std::uint64_t disk_bytes(const struct stat& info) {
  return static_cast<std::uint64_t>(info.st_blocks) * 512;
}

/// Lists the objects of the folder and removes unfinished files of killed processes.
std::vector<CachedFile> list_cached_files(const fs::path& folder) {
  std::vector<CachedFile> found;
  std::error_code failure;
  fs::recursive_directory_iterator entry(folder / "objects", failure);
  for (; !failure && entry != fs::recursive_directory_iterator(); entry.increment(failure)) {
    struct stat info {};
    const fs::path& path = entry->path();
    if (::stat(path.c_str(), &info) != 0 || !S_ISREG(info.st_mode)) continue;
    if (path.extension() == kUnfinished) {
      if (info.st_mtim.tv_sec + kAbandonedAfter < std::time(nullptr)) ::unlink(path.c_str());
      continue;
    }
    if (path.extension() != kData) continue;
    CachedFile& kept = found.emplace_back();
    kept = {path, info.st_mtim.tv_sec * 1'000'000'000 + info.st_mtim.tv_nsec, disk_bytes(info)};
    if (::stat((path.string() + kNotes).c_str(), &info) == 0) kept.bytes += disk_bytes(info);
  }
  ENSURE(resource, !failure, "cannot read folder {}: {}", shown(folder / "objects"),
         failure.message());
  return found;
}

/// Returns false if a reader has the file open.
bool remove_unused(const fs::path& data) {
  const Fd fd(::open(data.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  if (!fd.valid()) return errno == ENOENT;
  if (!lock_file(fd.get(), LOCK_EX | LOCK_NB)) return false;
  struct stat info {};
  if (::fstat(fd.get(), &info) == 0 && info.st_nlink == 0)
    return true;  // removed by another process
  ::unlink(data.c_str());
  ::unlink((data.string() + kNotes).c_str());
  return true;
}

std::uint64_t total_bytes(const std::vector<CachedFile>& kept) {
  std::uint64_t total = 0;
  for (const CachedFile& one : kept) total += one.bytes;
  return total;
}

}  // namespace

/// The header of the notes file; the URL, the etag and one checksum per block follow.
struct CachedObject::Metadata {
  std::uint64_t size = 0;
  std::string url;
  std::string etag;

  struct Header {
    std::uint64_t magic = kMagic;
    std::uint64_t size = 0;
    std::uint64_t url_bytes = 0;
    std::uint64_t etag_bytes = 0;
    std::uint64_t check = 0;
  };

  [[nodiscard]] std::uint64_t check() const { return hash_of(etag, hash_of(url, size)); }
  [[nodiscard]] std::uint64_t end() const { return sizeof(Header) + url.size() + etag.size(); }
  [[nodiscard]] std::uint64_t bytes() const {
    return end() + (size + kBlock - 1) / kBlock * sizeof(std::uint64_t);
  }

  [[nodiscard]] std::string encoded() const {
    const Header head{kMagic, size, url.size(), etag.size(), check()};
    return std::string(reinterpret_cast<const char*>(&head), sizeof head) + url + etag;
  }

  static std::optional<Metadata> read(int fd) {
    Header head;
    if (!read_at(fd, &head, sizeof head, 0) || head.magic != kMagic ||
        head.url_bytes > kMaxMetadata || head.etag_bytes > kMaxMetadata)
      return std::nullopt;
    Metadata notes{head.size, std::string(head.url_bytes, '\0'),
                   std::string(head.etag_bytes, '\0')};
    if (!read_at(fd, notes.url.data(), head.url_bytes, sizeof head) ||
        !read_at(fd, notes.etag.data(), head.etag_bytes, sizeof head + head.url_bytes) ||
        notes.check() != head.check)
      return std::nullopt;
    return notes;
  }
};

std::int64_t time_of_etag(const std::string& etag) {
  return static_cast<std::int64_t>(hash_of(etag) >> 4U);  // in the past, as is_settled() asks
}

CachedObject::CachedObject(const Storage& storage, Url url, Fd data, Fd notes,
                           const Metadata& content)
    : storage_(storage),
      url_(std::move(url)),
      data_(std::move(data)),
      notes_(std::move(notes)),
      etag_(content.etag),
      stamp_{content.size, time_of_etag(content.etag)},
      key_(hash_of(content.url)),
      checksums_offset_(content.end()),
      ready_((content.size + kBlock - 1) / kBlock) {
  struct stat info {};
  if (::fstat(data_.get(), &info) == 0) inode_ = info.st_ino;
  touch();
}

/// Sets the time of last use for the eviction. The kernel's clock ticks in milliseconds, in which
/// many objects may be used; only the owner of a file may set a more precise time.
void CachedObject::touch() const {
  std::array<timespec, 2> times{};
  ::clock_gettime(CLOCK_REALTIME, times.data());
  times[1] = times[0];
  if (::futimens(data_.get(), times.data()) != 0) ::futimens(data_.get(), nullptr);
}

std::shared_ptr<CachedObject> CachedObject::open(const Storage& storage, const Url& url) {
  if (auto found = find(storage, url); found && found->can_resume()) return found;
  const Fd guard = storage.folder->lock(hash_of(url.text));
  if (auto found = find(storage, url); found && found->can_resume()) return found;
  remove_files(storage.folder->files(url.text));  // damaged, or a copy of an old version
  const std::optional<ObjectPart> first = storage.store->read(url, {0, kBlock});
  if (!first) return nullptr;
  storage.folder->count_fetch();
  return create(storage, url, *first);
}

/// Also returns null for a damaged copy, which only the holder of the object's lock may remove.
std::shared_ptr<CachedObject> CachedObject::find(const Storage& storage, const Url& url) {
  const ObjectFiles files = storage.folder->files(url.text);
  const auto open_existing = [](const fs::path& path) {
    Fd fd(::open(path.c_str(), O_RDWR | O_CLOEXEC));
    ENSURE(resource, fd.valid() || errno == ENOENT, "cannot open {}: {}", shown(path),
           std::strerror(errno));
    return fd;
  };
  while (true) {
    Fd data = open_existing(files.data);
    if (!data.valid()) return nullptr;
    ENSURE(resource, lock_file(data.get(), LOCK_SH), "cannot lock {}: {}", shown(files.data),
           std::strerror(errno));
    Fd notes = open_existing(files.notes);
    struct stat info {};
    if (::fstat(data.get(), &info) != 0 || info.st_nlink == 0)
      continue;  // just removed by another process
    const auto content = notes.valid() ? Metadata::read(notes.get()) : std::nullopt;
    if (!content || content->url != url.text ||
        content->size != static_cast<std::uint64_t>(info.st_size))
      return nullptr;
    return std::shared_ptr<CachedObject>(
        new CachedObject(storage, url, std::move(data), std::move(notes), *content));
  }
}

/// Publishes the notes first, so that they exist whenever the content exists.
std::shared_ptr<CachedObject> CachedObject::create(const Storage& storage, const Url& url,
                                                   const ObjectPart& first) {
  const ObjectFiles files = storage.folder->files(url.text);
  const Metadata content{first.total, url.text, first.etag};
  Reservation space(*storage.folder, on_disk(first.bytes.size()) + on_disk(content.bytes()));
  make_folder(files.data.parent_path());
  NewFile new_notes(files.notes);
  NewFile new_data(files.data);
  Fd notes = new_notes.take_fd();
  Fd data = new_data.take_fd();
  ENSURE(resource,
         write_at(notes.get(), content.encoded(), 0) &&
             ::ftruncate(data.get(), static_cast<off_t>(first.total)) == 0 &&
             lock_file(data.get(), LOCK_SH),
         "cannot write {}: {}", shown(files.data), std::strerror(errno));
  std::shared_ptr<CachedObject> object(
      new CachedObject(storage, url, std::move(data), std::move(notes), content));
  if (first.total > 0) object->store_block(0, first.bytes);
  object->touch();  // writing has changed the time
  new_notes.publish();
  new_data.publish();
  space.written();
  storage.folder->mark_verified(object->mark_of(object->blocks()));
  return object;
}

std::uint64_t CachedObject::block_bytes(std::size_t block) const {
  return std::min(kBlock, size() - block * kBlock);
}

std::uint64_t CachedObject::mark_of(std::size_t block) const {
  const std::array<std::uint64_t, 3> parts{key_, inode_, block};
  return hash_bytes(std::as_bytes(std::span(parts)));
}

void CachedObject::need(std::uint64_t offset, std::uint64_t size) {
  const std::uint64_t end = std::min(offset + size, this->size());
  for (std::uint64_t block = offset / kBlock; block * kBlock < end; ++block) ensure_block(block);
}

void CachedObject::fetch() {
  std::atomic<std::size_t> next = 0;
  run_in_threads(std::min<std::int64_t>(kConnections, std::ssize(ready_)), [&] {
    try {
      for (std::size_t block = next++; block < blocks(); block = next++) ensure_block(block);
    } catch (...) {
      next = blocks();
      throw;
    }
  });
}

void CachedObject::ensure_block(std::size_t block) {
  if (try_ensure_block(block)) return;
  forget();
  throw ChangedFile(
      fmt::format("{} has changed since its download started\nhint: run the command again to "
                  "download the new version",
                  printable(url_.text)));
}

bool CachedObject::try_ensure_block(std::size_t block) {
  if (ready_[block].load(std::memory_order_acquire)) return true;
  if (!is_valid_block(block)) {
    const Fd guard = storage_.folder->lock(mark_of(block));
    if (!is_valid_block(block)) return download(block);
  }
  mark_ready(block);
  return true;
}

void CachedObject::mark_ready(std::size_t block) {
  storage_.folder->mark_verified(mark_of(block));
  ready_[block].store(true, std::memory_order_release);
}

std::uint64_t CachedObject::stored_checksum(std::size_t block) const {
  std::uint64_t value = 0;
  return read_at(notes_.get(), &value, sizeof value, checksums_offset_ + block * sizeof value)
             ? value
             : 0;
}

bool CachedObject::is_valid_block(std::size_t block) const {
  const std::uint64_t expected = stored_checksum(block);
  if (expected == 0) return false;
  if (storage_.folder->is_verified(mark_of(block))) return true;
  Hasher hasher;
  std::array<char, kHashedAtOnce> part;
  for (std::uint64_t done = 0; done < block_bytes(block); done += part.size()) {
    const std::size_t count = std::min<std::uint64_t>(part.size(), block_bytes(block) - done);
    if (!read_at(data_.get(), part.data(), count, block * kBlock + done)) return false;
    hasher.add(std::string_view(part.data(), count));
  }
  return checksum_of(hasher.value()) == expected;
}

bool CachedObject::download(std::size_t block) {
  std::optional<Reservation> space;  // a damaged block is already counted
  if (stored_checksum(block) == 0) space.emplace(*storage_.folder, block_bytes(block));
  const auto piece = storage_.store->read(url_, {block * kBlock, block_bytes(block)});
  if (!piece || piece->etag != etag_ || piece->total != size()) return false;
  storage_.folder->count_fetch();
  store_block(block, piece->bytes);
  if (space) space->written();
  return true;
}

void CachedObject::store_block(std::size_t block, const std::string& bytes) {
  ASSERT(bytes.size() == block_bytes(block));
  bool written = write_at(data_.get(), bytes, block * kBlock);
  if (!written && (errno == ENOSPC || errno == EDQUOT)) {
    storage_.folder->evict(bytes.size());
    written = write_at(data_.get(), bytes, block * kBlock);
  }
  const std::uint64_t sum = checksum_of(hash_of(bytes));
  written = written && write_at(notes_.get(), {reinterpret_cast<const char*>(&sum), sizeof sum},
                                checksums_offset_ + block * sizeof sum);
  ENSURE(resource, written,
         "cannot write the local copy of {} in {}: {}\nhint: free disk space, lower "
         "dataset.cache.budget, or set dataset.cache.local to another folder",
         printable(url_.text), printable(storage_.folder->path().string()), std::strerror(errno));
  mark_ready(block);
}

bool CachedObject::can_resume() {
  const std::uint64_t asked = mark_of(blocks());
  if (storage_.folder->is_verified(asked)) return true;
  for (std::size_t block = 0; block < blocks(); ++block) {
    if (stored_checksum(block) != 0) continue;
    if (!try_ensure_block(block)) return false;
    break;
  }
  storage_.folder->mark_verified(asked);
  return true;
}

void CachedObject::forget() const {
  const Fd guard = storage_.folder->lock(key_);
  const ObjectFiles files = storage_.folder->files(url_.text);
  struct stat info {};
  if (::stat(files.data.c_str(), &info) == 0 && info.st_ino == inode_) remove_files(files);
}

bool lock_file(int fd, int operation) {
  int code = 0;
  do {
    code = ::flock(fd, operation);
  } while (code != 0 && errno == EINTR);
  return code == 0;
}

TierFolder::TierFolder(fs::path folder, const spec::Budget& budget) : folder_(std::move(folder)) {
  make_folder(folder_ / "objects");
  std::error_code failure;
  const fs::space_info space = fs::space(folder_, failure);
  ENSURE(resource, !failure, "cannot determine the free disk space of {}: {}", shown(folder_),
         failure.message());
  budget_ =
      budget.of(space.available + (budget.bytes ? 0 : total_bytes(list_cached_files(folder_))));
}

ObjectFiles TierFolder::files(const std::string& url) const {
  const std::string hash = to_hex(hash_bytes(std::as_bytes(std::span(url))));
  std::string name = url.substr(url.rfind('/') + 1);
  if (name.size() > kMostName) name.erase(0, name.size() - kMostName);
  const fs::path data = folder_ / "objects" / hash.substr(0, 2) / (hash + "-" + name + kData);
  return {data, data.string() + kNotes};
}

Fd TierFolder::lock(std::uint64_t key) const {
  const fs::path path = folder_ / "locks";
  Fd fd(::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0666));
  ENSURE(resource, fd.valid(),
         "cannot write {}: {}\nhint: set dataset.cache.local to another folder", shown(path),
         std::strerror(errno));
  struct flock range {};
  range.l_type = F_WRLCK;
  range.l_whence = SEEK_SET;
  range.l_start = static_cast<off_t>(key >> 2U);  // locks one byte of an empty file
  range.l_len = 1;
  while (::fcntl(fd.get(), F_OFD_SETLKW, &range) != 0) {
    ENSURE(resource, errno == EINTR,
           "cannot lock {}: {}\nhint: set dataset.cache.local to a folder on a local disk",
           shown(path), std::strerror(errno));
  }
  return fd;
}

void TierFolder::reserve(std::uint64_t bytes) {
  bytes = on_disk(bytes);
  const Fd guard = lock(kUsedBytesLock);
  std::uint64_t held = used_bytes();
  if (held + bytes > budget_) {
    const std::uint64_t spare = std::max(bytes, budget_ / kEvictedShare);
    held = evict_down_to(budget_ - std::min(budget_, spare));
  }
  if (held + bytes <= budget_) {
    pending_ += bytes;
    return set_used_bytes(held + bytes);
  }
  const std::string message = fmt::format(
      "cannot store {} in {}: only {} of the {} of dataset.cache.budget are free\nhint: raise "
      "dataset.cache.budget, or set dataset.cache.local to a folder on a larger disk",
      human_bytes(bytes), shown(folder_), human_bytes(budget_ - std::min(budget_, held)),
      human_bytes(budget_));
  if (bytes > budget_) throw Error(ErrorKind::resource, message);
  throw BudgetInUse(message);
}

void TierFolder::release(std::uint64_t bytes) {
  const Fd guard = lock(kUsedBytesLock);
  commit(bytes);
  const std::uint64_t held = used_bytes();
  set_used_bytes(held - std::min(held, on_disk(bytes)));
}

void TierFolder::evict(std::uint64_t bytes) {
  const Fd guard = lock(kUsedBytesLock);
  const std::uint64_t held = total_bytes(list_cached_files(folder_));
  set_used_bytes(evict_down_to(held - std::min(held, bytes)));
}

bool TierFolder::is_verified(std::uint64_t mark) const {
  const std::lock_guard guard(mutex_);
  return verified_.contains(mark);
}

void TierFolder::mark_verified(std::uint64_t mark) {
  const std::lock_guard guard(mutex_);
  if (verified_.size() >= kMaxVerified) verified_.clear();
  verified_.insert(mark);
}

/// The count may be too high after a process was killed; evict_down_to() counts again.
std::uint64_t TierFolder::used_bytes() const {
  std::uint64_t bytes = 0;
  const Fd fd(::open((folder_ / "used").c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  if (fd.valid() && ::pread(fd.get(), &bytes, sizeof bytes, 0) == sizeof bytes) return bytes;
  return total_bytes(list_cached_files(folder_));
}

void TierFolder::set_used_bytes(std::uint64_t bytes) const {
  const fs::path path = folder_ / "used";
  const Fd fd(::open(path.c_str(), O_WRONLY | O_CREAT | O_CLOEXEC | O_NONBLOCK, 0666));
  ENSURE(resource, fd.valid() && ::pwrite(fd.get(), &bytes, sizeof bytes, 0) == sizeof bytes,
         "cannot write {}: {}", shown(path), std::strerror(errno));
}

std::uint64_t TierFolder::evict_down_to(std::uint64_t most) const {
  const std::uint64_t pending =
      pending_;  // read first, so that bytes committed meanwhile are at most counted twice
  std::vector<CachedFile> kept = list_cached_files(folder_);
  std::ranges::sort(kept, {}, &CachedFile::used_ns);
  std::uint64_t held = total_bytes(kept) + pending;
  for (const CachedFile& one : kept) {
    if (held <= most) break;
    if (remove_unused(one.data)) held -= one.bytes;
  }
  return held;
}

}  // namespace trainctl::data
