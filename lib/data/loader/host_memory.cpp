#include "data/loader/host_memory.hpp"

#include "base/error.hpp"
#include "base/machine/allocator.hpp"
#include "base/strings.hpp"

#include <sys/mman.h>

#include <cstdint>
#include <cstring>
#include <utility>

namespace trainctl::data {

Arena::Arena(std::size_t bytes, Touch touch) {
  const std::size_t rounded = (bytes + kHugePage - 1) / kHugePage * kHugePage;
  mapped_ = rounded + kHugePage;
  mapping_ = ::mmap(nullptr, mapped_, PROT_READ | PROT_WRITE,
                    MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (mapping_ == MAP_FAILED) {
    mapping_ = nullptr;
    throw Error(ErrorKind::resource,
                fmt::format("cannot get {} of memory: {}; free some memory or use a smaller batch",
                            human_bytes(static_cast<double>(bytes)), std::strerror(errno)));
  }
  const auto address = reinterpret_cast<std::uintptr_t>(mapping_);
  const std::size_t skip = (kHugePage - address % kHugePage) % kHugePage;
  bytes_ = {static_cast<std::byte*>(mapping_) + skip, bytes};
  if (bytes >= kHugePage) (void)::madvise(bytes_.data(), rounded, MADV_HUGEPAGE);
  if (touch == Touch::now) std::memset(bytes_.data(), 0, bytes);
}

Arena::~Arena() {
  if (mapping_ != nullptr) ::munmap(mapping_, mapped_);
}

Arena::Arena(Arena&& other) noexcept
    : mapping_(std::exchange(other.mapping_, nullptr)),
      mapped_(std::exchange(other.mapped_, 0)),
      bytes_(std::exchange(other.bytes_, {})) {}

Arena& Arena::operator=(Arena&& other) noexcept {
  std::swap(mapping_, other.mapping_);
  std::swap(mapped_, other.mapped_);
  std::swap(bytes_, other.bytes_);
  return *this;
}

}  // namespace trainctl::data
