#include "data/formats/mapped_file.hpp"

#include "base/error.hpp"
#include "base/hash.hpp"
#include "base/strings.hpp"

#include <sys/mman.h>

#include <cerrno>
#include <cstring>

namespace trainctl::data {
namespace {

constexpr std::size_t kWholeDigest = std::size_t{256} << 20;
constexpr std::size_t kPages = 4096;
constexpr std::size_t kPageBytes = 4096;

}  // namespace

MappedFile::MappedFile(const std::filesystem::path& path, Fetch fetch)
    : name_(printable(path.string())), file_(path) {
  if (fetch == Fetch::whole) file_.need_all();
  const auto size = static_cast<std::size_t>(file_.size());
  if (size == 0) return;  // mmap refuses it
  void* mapping = ::mmap(nullptr, size, PROT_READ, MAP_SHARED, file_.fd(), 0);
  ENSURE(data, mapping != MAP_FAILED, "cannot map {}: {}", name_, std::strerror(errno));
  bytes_ = {static_cast<const std::byte*>(mapping), size};
  watched_.emplace(bytes_, file_.fd(), name_);
}

MappedFile::~MappedFile() {
  watched_.reset();
  if (!bytes_.empty()) ::munmap(const_cast<std::byte*>(bytes_.data()), bytes_.size());
}

std::string content_digest(std::span<const std::byte> bytes) {
  Hasher hasher;
  hasher.add(static_cast<std::uint64_t>(bytes.size()));
  if (bytes.size() <= kWholeDigest) {
    hasher.add(bytes);
    return hasher.hex();
  }
  for (std::size_t page = 0; page < kPages; ++page) {
    hasher.add(bytes.subspan((bytes.size() - kPageBytes) / (kPages - 1) * page, kPageBytes));
  }
  return hasher.hex();
}

}  // namespace trainctl::data
