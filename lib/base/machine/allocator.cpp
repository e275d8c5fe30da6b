#include "base/machine/allocator.hpp"

#include "base/files.hpp"

#include <dlfcn.h>
#include <link.h>
#include <malloc.h>
#include <sys/mman.h>

#include <algorithm>
#include <array>
#include <cstdlib>

namespace trainctl {
namespace {

constexpr int kMiB = 1 << 20;

bool users_choice() {
  constexpr std::array kNames{"MALLOC_MMAP_THRESHOLD_", "MALLOC_MMAP_MAX_",
                              "MALLOC_TRIM_THRESHOLD_", "MALLOC_TOP_PAD_"};
  const char* tunables = std::getenv("GLIBC_TUNABLES");
  const bool tuned = tunables != nullptr &&
                     std::string_view(tunables).find("glibc.malloc.") != std::string_view::npos;
  return tuned || std::ranges::any_of(kNames, [](const char* name) { return std::getenv(name); });
}

/// Returns LD_LIBRARY_PATH, the run path of this program and the system's folders, in that order.
std::vector<std::filesystem::path> linker_folders() {
  void* const program = ::dlopen(nullptr, RTLD_LAZY);
  Dl_serinfo size{};
  std::vector<std::filesystem::path> folders;
  if (program != nullptr && ::dlinfo(program, RTLD_DI_SERINFOSIZE, &size) == 0) {
    std::vector<std::max_align_t> room(size.dls_size / sizeof(std::max_align_t) + 1);
    auto* const found = reinterpret_cast<Dl_serinfo*>(room.data());
    found->dls_size = size.dls_size;
    found->dls_cnt = size.dls_cnt;
    if (::dlinfo(program, RTLD_DI_SERINFO, found) == 0) {
      for (unsigned i = 0; i < found->dls_cnt; ++i)
        folders.emplace_back(found->dls_serpath[i].dls_name);
    }
  }
  if (program != nullptr) ::dlclose(program);
  folders.emplace_back("/usr/local/lib");  // listed only in the linker's cache
  return folders;
}

#ifdef MADV_COLLAPSE
constexpr int kCollapse = MADV_COLLAPSE;
#else
constexpr int kCollapse = 25;  // the value since Linux 6.1, for older C library headers
#endif

}  // namespace

std::string loaded_allocator() {
  Dl_info place{};
  void* const answers = ::dlsym(RTLD_DEFAULT, "malloc");
  if (answers == nullptr || ::dladdr(answers, &place) == 0 || place.dli_fname == nullptr)
    return "unknown";
  const std::string file = std::filesystem::path(place.dli_fname).filename();
  for (const char* name : {"jemalloc", "mimalloc"})
    if (file.find(name) != std::string::npos) return name;
  return file.starts_with("libc.so") || file.starts_with("libc-") ? "system" : file;
}

std::optional<std::filesystem::path> find_shared_library(const std::string& name) {
  for (const std::filesystem::path& folder : linker_folders()) {
    if (is_file(folder / name)) return folder / name;
  }
  return std::nullopt;
}

void keep_freed_memory() {
  if (users_choice() || loaded_allocator() != "system") return;
  ::mallopt(M_MMAP_THRESHOLD, 32 * kMiB);
  ::mallopt(M_TRIM_THRESHOLD, 1024 * kMiB);
  ::mallopt(M_TOP_PAD, 64 * kMiB);
}

void use_huge_pages(std::span<const std::byte> bytes) {
  const auto first = reinterpret_cast<std::uintptr_t>(bytes.data());
  const std::uintptr_t begin = (first + kHugePage - 1) / kHugePage * kHugePage;
  const std::uintptr_t end = (first + bytes.size()) / kHugePage * kHugePage;
  if (begin >= end) return;
  auto* const at = const_cast<std::byte*>(bytes.data()) + (begin - first);
  if (::madvise(at, end - begin, MADV_HUGEPAGE) == 0) (void)::madvise(at, end - begin, kCollapse);
}

}  // namespace trainctl
