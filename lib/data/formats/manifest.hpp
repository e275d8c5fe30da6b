#pragma once

#include "data/formats/cache_file.hpp"
#include "data/formats/image_files.hpp"

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string_view>
#include <vector>

namespace trainctl::data {

/// A folder or file that a manifest was made from. As long as it has this mark (the size of a
/// folder being the number of its entries), the manifest holds.
using Dependency = PathMark;

/// `path` as it is now. Throws Error(data) where it cannot be read.
Dependency dependency_on(const std::filesystem::path& path);

/// Whether a change at that time lies so far back that another would carry another time. What
/// changed within the last two seconds is not cached: old file systems tick no finer.
bool is_settled(std::int64_t mtime_ns);

/// The manifest of one set of image files, kept between runs.
class ManifestCache {
 public:
  explicit ManifestCache(std::string_view identity) : file_(identity) {}

  /// Quick: looks at the times of change only.
  [[nodiscard]] std::optional<Facts> facts() const;
  /// Thorough: counts the entries of folders, too.
  [[nodiscard]] std::optional<ImageFiles> load() const;
  /// Not where a dependency is_settled() is false of.
  void save(const std::vector<Dependency>& dependencies, const ImageFiles& files) const;
  void forget() const { file_.remove(); }

 private:
  CacheFile file_;
};

/// Whether every file beneath `root` has the length and time of change that it was listed with.
/// Looks at many files at once: each look at a file of a distant disk waits for it.
bool is_as_listed(const std::filesystem::path& root, const ImageFiles& files);

}  // namespace trainctl::data
