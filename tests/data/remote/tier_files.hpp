#pragma once

#include "data/remote/fake_store.hpp"

#include <sys/stat.h>

#include <cstdint>
#include <filesystem>
#include <string>

// These helpers inspect the files of a tier.

namespace trainctl::data::testing {

inline constexpr std::size_t kBlock = CachedObject::kBlock;
inline const std::string kUrl = "http://host/a/file.bin";

inline fs::path data_file(const FakeTier& fake) {
  return TierFolder(fake.folder.path(), fake.budget).files(kUrl).data;
}

inline std::uint64_t data_bytes(const fs::path& folder) {
  std::uint64_t bytes = 0;
  for (const auto& entry : fs::recursive_directory_iterator(folder)) {
    struct stat info {};
    if (::stat(entry.path().c_str(), &info) != 0) continue;  // just evicted
    if (S_ISREG(info.st_mode)) bytes += static_cast<std::uint64_t>(info.st_blocks) * 512;
  }
  return bytes;
}

inline std::uint64_t bytes_on_disk(const FakeTier& fake) {
  return data_bytes(fake.folder / "objects");
}

inline bool has_unfinished_file(const FakeTier& fake) {
  for (const auto& entry : fs::recursive_directory_iterator(fake.folder / "objects")) {
    if (entry.path().extension() == kUnfinished) return true;
  }
  return false;
}

}  // namespace trainctl::data::testing
