#include "events/heartbeat.hpp"

#include "base/strings.hpp"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <ctime>

namespace trainctl::events {
namespace {

constexpr std::size_t kPageBytes = 4096;
static_assert(sizeof(Heartbeat) <= kPageBytes);

Heartbeat* map_page(int fd, ErrorKind on_failure) {
  void* page = ::mmap(nullptr, kPageBytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  if (page == MAP_FAILED) {
    throw Error(on_failure,
                fmt::format("cannot map the shared memory in which a rank reports its progress: {}",
                            std::strerror(errno)));
  }
  return static_cast<Heartbeat*>(page);
}

}  // namespace

void Heartbeat::stamp(Phase now_in, std::int64_t step) {
  timespec now{};
  clock_gettime(CLOCK_MONOTONIC, &now);
  global_step.store(step, std::memory_order_relaxed);
  phase.store(static_cast<std::int32_t>(now_in), std::memory_order_relaxed);
  monotonic_ns.store(std::int64_t{now.tv_sec} * 1'000'000'000 + now.tv_nsec,
                     std::memory_order_release);
}

void Heartbeat::begin_collective(std::string_view name) {
  std::array<std::uint64_t, kNameWords> words{};
  std::memcpy(words.data(), name.data(), std::min(name.size(), sizeof words));
  for (std::size_t i = 0; i < kNameWords; ++i)
    collective_name[i].store(words[i], std::memory_order_relaxed);
  in_collective.store(1, std::memory_order_release);
}

Collective Heartbeat::collective() const {
  const bool in_progress = in_collective.load(std::memory_order_acquire) == 1;
  std::array<std::uint64_t, kNameWords> words{};
  for (std::size_t i = 0; i < kNameWords; ++i)
    words[i] = collective_name[i].load(std::memory_order_relaxed);
  const std::string_view text(reinterpret_cast<const char*>(words.data()), sizeof words);
  return {printable(text.substr(0, text.find('\0'))), in_progress};
}

HeartbeatPage HeartbeatPage::create() {
  Fd fd(::memfd_create("trainctl-heartbeat", MFD_CLOEXEC | MFD_ALLOW_SEALING));
  // The file is sealed: if a worker shrank it, the supervisor would get SIGBUS.
  const bool made = fd.valid() && ::ftruncate(fd.get(), kPageBytes) == 0 &&
                    ::fcntl(fd.get(), F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL) == 0;
  ENSURE(resource, made, "cannot create the shared memory in which a rank reports its progress: {}",
         std::strerror(errno));
  Heartbeat* page = map_page(fd.get(), ErrorKind::resource);
  return {std::move(fd), page};
}

HeartbeatPage HeartbeatPage::attach(int fd) {
  struct stat info {};
  const bool fits = ::fstat(fd, &info) == 0 && info.st_size >= static_cast<off_t>(kPageBytes);
  ENSURE(config, fits,
         "descriptor {} is not the shared memory in which a rank reports its progress", fd);
  return {Fd(), map_page(fd, ErrorKind::config)};
}

HeartbeatPage::~HeartbeatPage() {
  if (page_ != nullptr) ::munmap(page_, kPageBytes);
}

HeartbeatPage::HeartbeatPage(HeartbeatPage&& other) noexcept
    : fd_(std::move(other.fd_)), page_(std::exchange(other.page_, nullptr)) {}

}  // namespace trainctl::events
