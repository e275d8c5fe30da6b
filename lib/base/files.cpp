#include "base/files.hpp"

#include "base/clock.hpp"
#include "base/strings.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <map>
#include <system_error>

namespace trainctl {
namespace {

[[noreturn]] void fail(const std::string& what, const std::string& label, int cause) {
  const char* hint = "";
  if (cause == ENOSPC || cause == EDQUOT)
    hint = "\nhint: free some space or choose another path with --out";
  if (cause == EFBIG) hint = "\nhint: raise the limit of file sizes (ulimit -f)";
  if (cause == EROFS || cause == EACCES || cause == EPERM || cause == ENOTDIR)
    hint = "\nhint: choose a writable path with --out";
  throw Error(ErrorKind::resource, fmt::format("cannot {} {}: {}{}", what, printable(label),
                                               std::strerror(cause), hint));
}

// With O_NONBLOCK, opening a pipe that has no reader fails instead of blocking.
Fd open_or_fail(const fs::path& path, int flags) {
  Fd fd(::open(path.c_str(), flags | O_CLOEXEC | O_NONBLOCK, 0644));
  if (!fd.valid()) fail("write", path.string(), errno);
  return fd;
}

constexpr std::size_t kMostPieces = 1024;  // IOV_MAX on Linux

/// Returns the pieces that remain after `written` bytes have been written.
std::span<iovec> unwritten_pieces(std::span<iovec> pieces, std::size_t written) {
  while (!pieces.empty() && written >= pieces.front().iov_len) {
    written -= pieces.front().iov_len;
    pieces = pieces.subspan(1);
  }
  if (written > 0) {
    iovec& cut = pieces.front();
    cut = {static_cast<char*>(cut.iov_base) + written, cut.iov_len - written};
  }
  return pieces;
}

// The mark keeps the temporary names of different callers for one target apart.
fs::path temporary_name(const fs::path& target, std::string_view mark) {
  return target.parent_path() /
         fmt::format(".{}.{}.{}", target.filename().string(), mark, ::getpid());
}

void rename_or_fail(const fs::path& written, const fs::path& path) {
  if (::rename(written.c_str(), path.c_str()) != 0)
    fail("rename the temporary file to", path.string(), errno);
}

// The limit for a whole pipe, such as the one that `trainctl validate <(command)` passes.
constexpr double kPipePatienceS = 3;

/// Returns false if the deadline has passed.
bool wait_for_data(int fd, double deadline) {
  const double left_ms = (deadline - steady_clock().now()) * 1000;
  pollfd readable{fd, POLLIN, 0};
  return left_ms > 0 && (::poll(&readable, 1, static_cast<int>(left_ms) + 1) > 0 || errno == EINTR);
}

fs::path folder_of(const fs::path& path) {
  return path.has_parent_path() ? path.parent_path() : fs::path(".");
}

void expect(bool holds, ErrorKind kind, const char* what) {
  if (!holds) throw Error(kind, fmt::format("cannot {} it: {}", what, std::strerror(errno)));
}

constexpr std::size_t kMostFiles = 10'000;
constexpr int kDeepest = 3;

/// Returns the folder of `path`, or the nearest parent folder that exists.
fs::path existing_folder(const fs::path& path) {
  std::error_code ignored;
  fs::path folder = path.parent_path();
  while (!folder.empty() && !fs::is_directory(folder, ignored)) {
    const fs::path above = folder.parent_path();
    if (above == folder) break;
    folder = above;
  }
  return folder.empty() ? fs::path(".") : folder;
}

/// Returns the files below `folder` by name. If several files have one name, the first one is kept.
std::map<std::string, fs::path> files_below(const fs::path& folder, int depth) {
  std::map<std::string, fs::path> files;
  std::error_code failure;
  std::size_t seen = 0;
  fs::recursive_directory_iterator at(folder, fs::directory_options::skip_permission_denied,
                                      failure);
  for (const fs::recursive_directory_iterator end; !failure && at != end && seen < kMostFiles;
       at.increment(failure), ++seen) {
    const std::string name = at->path().filename().string();
    std::error_code ignored;
    if (at->is_directory(ignored) && (at.depth() >= depth || name.starts_with('.')))
      at.disable_recursion_pending();
    if (at->is_regular_file(ignored)) files.emplace(name, at->path().lexically_normal());
  }
  return files;
}

std::optional<fs::path> nearest_in(const std::map<std::string, fs::path>& files,
                                   const std::string& name) {
  if (const auto same = files.find(name); same != files.end()) return same->second;
  std::vector<std::string> names;
  for (const auto& [one, path] : files) names.push_back(one);
  const std::optional<std::string> found = nearest(name, names);
  return found ? std::optional(files.at(*found)) : std::nullopt;
}

}  // namespace

bool path_exists(const fs::path& path) {
  std::error_code ignored;
  return fs::exists(path, ignored);
}

bool is_file(const fs::path& path) {
  std::error_code ignored;
  return fs::is_regular_file(path, ignored);
}

bool is_folder(const fs::path& path) {
  std::error_code ignored;
  return fs::is_directory(path, ignored);
}

Fd& Fd::operator=(Fd&& other) noexcept {
  if (this != &other) {
    reset();
    fd_ = other.release();
  }
  return *this;
}

int Fd::release() { return std::exchange(fd_, -1); }

void Fd::reset() {
  if (fd_ >= 0) ::close(fd_);
  fd_ = -1;
}

FileGuard::~FileGuard() {
  if (!is_kept_) ::unlink(path_.c_str());
}

void write_all(int fd, std::string_view bytes, const std::string& label) {
  while (!bytes.empty()) {
    const ssize_t written = ::write(fd, bytes.data(), bytes.size());
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) fail("write", label, errno);
    bytes.remove_prefix(static_cast<std::size_t>(written));
  }
}

void write_gathered(int fd, std::span<const std::string_view> pieces, const std::string& label) {
  std::vector<iovec> all;
  all.reserve(pieces.size());
  for (const std::string_view piece : pieces) {
    if (!piece.empty()) all.push_back({const_cast<char*>(piece.data()), piece.size()});
  }
  for (std::span<iovec> left(all); !left.empty();) {
    const std::size_t count = std::min(left.size(), kMostPieces);
    const ssize_t written = ::writev(fd, left.data(), static_cast<int>(count));
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) fail("write", label, errno);
    left = unwritten_pieces(left, static_cast<std::size_t>(written));
  }
}

void write_atomically(const fs::path& path, const std::function<void(int fd)>& write) {
  FileGuard temporary(temporary_name(path, "tmp"));
  Fd fd = open_or_fail(temporary.path(), O_WRONLY | O_CREAT | O_TRUNC);
  write(fd.get());
  if (::fsync(fd.get()) != 0) fail("sync", path.string(), errno);
  if (::close(fd.release()) != 0) fail("close", path.string(), errno);
  rename_or_fail(temporary.path(), path);
  temporary.keep();
  sync_folder(folder_of(path));
}

void write_atomically(const fs::path& path, std::string_view bytes) {
  write_atomically(path, [&](int fd) { write_all(fd, bytes, path.string()); });
}

void sync_folder(const fs::path& folder) {
  const Fd fd(::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (!fd.valid() || ::fsync(fd.get()) != 0) fail("sync folder", folder.string(), errno);
}

void publish(const fs::path& written, int fd, const fs::path& path) {
  if (::fsync(fd) != 0) fail("sync", path.string(), errno);
  rename_or_fail(written, path);
  sync_folder(folder_of(path));
}

ReservedFile::ReservedFile(fs::path path, std::uint64_t bytes)
    : path_(std::move(path)),
      temporary_(temporary_name(path_, "reserved")),
      fd_(open_or_fail(temporary_, O_WRONLY | O_CREAT | O_TRUNC)) {
  const int failure = ::posix_fallocate(fd_.get(), 0, static_cast<off_t>(bytes));
  if (failure != ENOSPC && failure != EDQUOT && failure != EFBIG)
    return;  // the file system may not support fallocate
  ::unlink(temporary_.c_str());
  fail("write", path_.string(), failure);
}

ReservedFile::~ReservedFile() {
  if (fd_.valid()) ::unlink(temporary_.c_str());
}

void ReservedFile::publish(std::string_view content) {
  write_all(fd_.get(), content, path_.string());
  if (::ftruncate(fd_.get(), static_cast<off_t>(content.size())) != 0)
    fail("write", path_.string(), errno);
  trainctl::publish(temporary_, fd_.get(), path_);
  fd_.reset();
}

bool is_path_error(int cause) {
  return cause == ENOENT || cause == ENOTDIR || cause == ELOOP || cause == EISDIR ||
         cause == ENXIO || cause == ENODEV;
}

std::string read_file(const fs::path& path, std::uint64_t max_bytes, ReadFailure on_failure) {
  const auto kind = static_cast<ErrorKind>(on_failure);
  const auto expect = [&](bool condition, const char* cause) {
    if (!condition)
      throw Error(kind, fmt::format("cannot read {}: {}", printable(path.string()), cause));
  };
  const Fd fd(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY));
  expect(fd.valid(), std::strerror(errno));
  struct stat info {};
  expect(::fstat(fd.get(), &info) == 0, std::strerror(errno));
  expect(!S_ISDIR(info.st_mode), "it is a folder");
  expect(S_ISREG(info.st_mode) || S_ISFIFO(info.st_mode), "it is not a regular file");
  const double deadline = steady_clock().now() + kPipePatienceS;
  std::string text;
  char buffer[1 << 16];
  while (true) {
    const ssize_t count = ::read(fd.get(), buffer, sizeof buffer);
    if (count < 0 && errno == EINTR) continue;
    if (count < 0 && errno == EAGAIN && S_ISFIFO(info.st_mode)) {
      expect(wait_for_data(fd.get(), deadline), "the pipe was not closed within 3 s");
      continue;
    }
    expect(count >= 0 || errno != EAGAIN, "it is not a regular file on a disk");
    expect(count >= 0, std::strerror(errno));
    if (count == 0) return text;
    text.append(buffer, static_cast<std::size_t>(count));
    if (text.size() > max_bytes) {
      throw Error(kind, fmt::format("{} is larger than the limit of {} bytes",
                                    printable(path.string()), max_bytes));
    }
  }
}

AppendFile::AppendFile(fs::path path)
    : path_(std::move(path)), fd_(open_or_fail(path_, O_WRONLY | O_CREAT | O_APPEND)) {}

void AppendFile::append_line(std::string_view line) {
  const std::string text = std::string(line) + '\n';
  struct stat before {};
  const bool can_cut = ::fstat(fd_.get(), &before) == 0 && S_ISREG(before.st_mode);
  try {
    write_all(fd_.get(), text, path_.string());
  } catch (...) {
    // If ftruncate() fails too, the next line follows directly after the partial line.
    [[maybe_unused]] const int cut = can_cut ? ::ftruncate(fd_.get(), before.st_size) : 0;
    throw;
  }
}

void AppendFile::sync() {
  if (::fsync(fd_.get()) != 0) fail("sync", path_.string(), errno);
}

std::vector<fs::path> paths_in(const fs::path& folder) {
  std::vector<fs::path> paths;
  std::error_code failure;
  for (fs::directory_iterator at(folder, failure), end; !failure && at != end;
       at.increment(failure))
    paths.push_back(at->path());
  std::ranges::sort(paths);
  return paths;
}

void make_folder(const fs::path& path) {
  std::error_code failure;
  fs::create_directories(path, failure);
  if (failure) fail("create folder", path.string(), failure.value());
}

// Without O_NONBLOCK, opening a pipe would block until a writer opens it.
FileMapping::FileMapping(const fs::path& path, ErrorKind kind)
    : fd_(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK)) {
  expect(fd_.valid(), kind, "open");
  struct stat info {};
  expect(::fstat(fd_.get(), &info) == 0, kind, "examine");
  if (!S_ISREG(info.st_mode)) throw Error(kind, "it must be a regular file");
  const auto size = static_cast<std::size_t>(info.st_size);
  if (size == 0) return;  // mmap() rejects an empty file
  void* mapping = ::mmap(nullptr, size, PROT_READ, MAP_SHARED, fd_.get(), 0);
  expect(mapping != MAP_FAILED, kind, "map");
  bytes_ = {static_cast<const std::byte*>(mapping), size};
}

FileMapping::~FileMapping() {
  if (!bytes_.empty()) ::munmap(const_cast<std::byte*>(bytes_.data()), bytes_.size());
}

std::string nearest_file_hint(const fs::path& path) {
  const std::string name = path.filename().string();
  if (name.empty()) return "";
  const fs::path folder = existing_folder(path);
  std::optional<fs::path> found = nearest_in(files_below(folder, 0), name);
  if (!found) found = nearest_in(files_below(folder, kDeepest), name);
  return found ? fmt::format("did you mean '{}'?", printable(found->string())) : "";
}

}  // namespace trainctl
