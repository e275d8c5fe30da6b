#include "data/pack/locked_file.hpp"

#include "base/error.hpp"
#include "base/strings.hpp"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>

#include <cerrno>
#include <cstring>

namespace trainctl::data {
namespace {

bool has_name(const Fd& fd, const fs::path& path) {
  struct stat mine {};
  struct stat named {};
  return ::fstat(fd.get(), &mine) == 0 && ::stat(path.c_str(), &named) == 0 &&
         mine.st_dev == named.st_dev && mine.st_ino == named.st_ino;
}

}  // namespace

Fd open_locked(const fs::path& path, const std::function<void()>& opened) {
  while (true) {
    Fd fd(::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0644));
    ENSURE(resource, fd.valid(), "cannot write {}: {}; choose a writable folder with --out",
           printable(path.string()), std::strerror(errno));
    if (opened) opened();
    ENSURE(resource, ::flock(fd.get(), LOCK_EX | LOCK_NB) == 0,
           "another process is writing {}: wait for its end", printable(path.string()));
    if (has_name(fd, path)) return fd;
  }
}

}  // namespace trainctl::data
