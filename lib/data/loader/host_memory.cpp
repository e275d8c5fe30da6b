#include "data/loader/host_memory.hpp"

#include "base/error.hpp"
#include "base/machine/allocator.hpp"
#include "base/strings.hpp"

#include <sys/mman.h>

#include <cstdint>
#include <cstring>

namespace trainctl::data {

Arena::Arena(std::size_t bytes, Touch touch) {
  const std::size_t rounded = (bytes + kHugePage - 1) / kHugePage * kHugePage;
  const std::size_t mapped = rounded + kHugePage;
  void* mapping = ::mmap(nullptr, mapped, PROT_READ | PROT_WRITE,
                         MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (mapping == MAP_FAILED) {
    throw Error(
        ErrorKind::resource,
        fmt::format(
            "cannot allocate {} of memory: {}\nhint: free memory, or lower loader.batch_size",
            human_bytes(bytes), std::strerror(errno)));
  }
  mapping_ = {mapping, Unmap{mapped}};
  const auto address = reinterpret_cast<std::uintptr_t>(mapping);
  const std::size_t skip = (kHugePage - address % kHugePage) % kHugePage;
  bytes_ = {static_cast<std::byte*>(mapping) + skip, bytes};
  if (bytes >= kHugePage) (void)::madvise(bytes_.data(), rounded, MADV_HUGEPAGE);
  if (touch == Touch::now) std::memset(bytes_.data(), 0, bytes);
}

void Unmap::operator()(void* mapping) const { ::munmap(mapping, bytes); }

}  // namespace trainctl::data
