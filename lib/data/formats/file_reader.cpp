#include "data/formats/file_reader.hpp"

#include "base/url.hpp"
#include "data/core/run_control.hpp"
#include "data/remote/local_tier.hpp"
#include "data/remote/object_store.hpp"

#include <fcntl.h>
#include <linux/openat2.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <thread>

namespace trainctl::data {
namespace {

// O_NONBLOCK keeps open() from hanging on a pipe.
constexpr int kReadOnly = O_RDONLY | O_CLOEXEC | O_NONBLOCK;

int open_beneath(int folder, const char* name) {
  struct open_how how {};
  how.flags = kReadOnly;
  how.resolve = RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS | RESOLVE_NO_MAGICLINKS;
  return static_cast<int>(::syscall(SYS_openat2, folder, name, &how, sizeof how));
}

/// Throws Error(resource) for errors of the machine, otherwise Error(data), after which the file
/// may be skipped as damaged.
[[noreturn]] void fail(int error, const std::string& action) {
  const bool machine = error == EMFILE || error == ENFILE || error == ENOMEM || error == EIO;
  const char* advice = error == EMFILE ? "\nhint: raise the limit of open files (ulimit -n)" : "";
  throw Error(machine ? ErrorKind::resource : ErrorKind::data,
              fmt::format("{}: {}{}", action, std::strerror(error), advice));
}

/// Retries `bring` for up to 20 seconds while local copies in use leave no room.
template <class Bring>
auto patiently(Bring&& bring) {
  constexpr std::chrono::milliseconds kMostWait{20'000};
  std::chrono::milliseconds waited{0};
  for (std::chrono::milliseconds pause{10};; pause = std::min(2 * pause, kMostWait / 40)) {
    try {
      return bring();
    } catch (const BudgetInUse&) {
      if (waited >= kMostWait) throw;
    }
    std::this_thread::sleep_for(pause);
    waited += pause;
  }
}

bool leads_out(const fs::path& name) {
  return name.is_absolute() || std::find(name.begin(), name.end(), "..") != name.end();
}

bool same_host(const fs::path& a, const fs::path& b) {
  if (!is_remote(a) || !is_remote(b)) return false;
  const Url one = parse_url(a);
  const Url other = parse_url(b);
  return one.scheme == other.scheme && one.host == other.host;
}

}  // namespace

FileStamp stamp_of(const struct stat& info) {
  return {static_cast<std::uint64_t>(info.st_size),
          info.st_mtim.tv_sec * 1'000'000'000 + info.st_mtim.tv_nsec};
}

FileReader::FileReader(const fs::path& path) {
  if (!is_remote(path)) {
    *this = FileReader(Fd(::open(path.c_str(), kReadOnly)), path.string());
    return;
  }
  name_ = shown(path);
  remote_ = patiently([&] { return remote_tier()->open(path); });
  stamp_ = remote_->stamp();
}

FileReader::FileReader(Fd fd, std::string name) : name_(printable(name)), fd_(std::move(fd)) {
  struct stat info {};
  if (!fd_.valid() || ::fstat(fd_.get(), &info) != 0) fail(errno, "cannot read " + name_);
  ENSURE(data, S_ISREG(info.st_mode), "cannot read {}: it is not a regular file", name_);
  stamp_ = stamp_of(info);
}

int FileReader::fd() const { return remote_ ? remote_->fd() : fd_.get(); }

void FileReader::need(std::uint64_t offset, std::uint64_t size, WhenFull full) const {
  if (!remote_) return;
  if (full == WhenFull::fail) return remote_->need(offset, size);
  patiently([&] { remote_->need(offset, size); });
}

void FileReader::need_all() const {
  if (remote_) patiently([&] { remote_->fetch(); });
}

void FileReader::read(std::uint64_t offset, std::span<std::byte> out) const {
  need(offset, out.size());
  std::size_t done = 0;
  while (done < out.size()) {
    const auto at = static_cast<off_t>(offset + done);
    const ssize_t count = ::pread(fd(), out.data() + done, out.size() - done, at);
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) fail(errno, fmt::format("cannot read {} at byte {}", name_, at));
    ENSURE(data, count > 0, "{} ends at byte {}, but bytes {} to {} were expected", name_,
           std::min(stamp_.size, offset + done), offset, offset + out.size());
    done += static_cast<std::size_t>(count);
    note_progress();
  }
}

void FileReader::forget() const {
  if (remote_) remote_->forget();
}

DataRoot::DataRoot(fs::path folder, Links links) : DataRoot(folder, folder, links) {}

DataRoot::DataRoot(fs::path folder, fs::path list, Links links)
    : folder_(std::move(folder)),
      list_(std::move(list)),
      links_(links),
      fd_(is_remote(folder_) ? -1 : ::open(folder_.c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC)) {
  if (is_remote(folder_)) return;
  const int cause = errno;
  ENSURE(data, fd_.valid() || (cause != ENOENT && cause != ENOTDIR), "the folder {} does not exist",
         shown(folder_));
  if (!fd_.valid()) fail(cause, "cannot read the folder " + shown(folder_));
}

/// A remote list must not decide what this machine reads or which servers it contacts.
void DataRoot::check_url(const std::string& name) const {
  if (links_ == Links::follow || !is_remote(list_)) return;
  ENSURE(
      data, !name.starts_with("file:") && (same_host(name, list_) || same_host(name, folder_)),
      "{} must be on the same host as the list that names it ({})\nhint: to allow other hosts, set "
      "follow_links: true in the options of the data set, or use a local copy of the list",
      printable(name), shown(list_));
}

FileReader DataRoot::open(const std::string& name) const {
  if (is_remote(name)) {
    check_url(name);
    return FileReader(fs::path(name));
  }
  const fs::path path = folder_ / name;
  if (is_remote(folder_) && (links_ == Links::follow || !leads_out(name))) return FileReader(path);
  if (links_ == Links::follow)
    return {Fd(::openat(fd_.get(), name.c_str(), kReadOnly)), path.string()};
  ENSURE(data, !leads_out(name), "'{}' is outside of the folder {}", printable(name),
         shown(folder_));
  Fd fd(open_beneath(fd_.get(), name.c_str()));
  // Old kernels and some containers reject openat2(). Then at least the last component must not be
  // a link.
  if (!fd.valid() && (errno == ENOSYS || errno == EPERM)) {
    fd = Fd(::openat(fd_.get(), name.c_str(), kReadOnly | O_NOFOLLOW));
  }
  ENSURE(data, fd.valid() || errno != ELOOP,
         "the path {} contains a symbolic link\nhint: to follow it, set follow_links: true in the "
         "options of the data set",
         shown(path));
  return {std::move(fd), path.string()};
}

}  // namespace trainctl::data
