#include "base/file_mapping.hpp"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include <cerrno>
#include <cstring>

namespace trainctl {
namespace {

void expect(bool holds, ErrorKind kind, const char* what) {
  if (!holds) throw Error(kind, fmt::format("cannot {} it: {}", what, std::strerror(errno)));
}

}  // namespace

// Without O_NONBLOCK a pipe would wait for its writer.
FileMapping::FileMapping(const fs::path& path, ErrorKind kind)
    : fd_(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK)) {
  expect(fd_.valid(), kind, "open");
  struct stat info {};
  expect(::fstat(fd_.get(), &info) == 0, kind, "examine");
  if (!S_ISREG(info.st_mode)) throw Error(kind, "it is no regular file");
  const auto size = static_cast<std::size_t>(info.st_size);
  if (size == 0) return;  // mmap refuses it
  void* mapping = ::mmap(nullptr, size, PROT_READ, MAP_SHARED, fd_.get(), 0);
  expect(mapping != MAP_FAILED, kind, "map");
  bytes_ = {static_cast<const std::byte*>(mapping), size};
}

FileMapping::~FileMapping() {
  if (!bytes_.empty()) ::munmap(const_cast<std::byte*>(bytes_.data()), bytes_.size());
}

}  // namespace trainctl
