#include "data/remote/tier_folder.hpp"

#include "base/hash.hpp"
#include "data/formats/file_reader.hpp"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <ctime>

namespace trainctl::data {
namespace {

constexpr std::uint64_t kUsedBytesLock =
    0;                                  // keys of objects are hashes, which are never this small
constexpr std::size_t kMostName = 100;  // bytes of the readable part of a file name
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
