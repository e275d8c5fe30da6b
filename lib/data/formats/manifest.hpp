#pragma once

#include "data/formats/cache_file.hpp"
#include "data/formats/image_files.hpp"

namespace trainctl::data {

/// Returns the current state of `path`. Throws Error(data) when it cannot be read.
PathStamp dependency_on(const std::filesystem::path& path);

/// Returns whether the time is old enough that a later change would get another time. Changes of
/// the last two seconds are not cached, because old file systems have a resolution of two seconds.
bool is_settled(std::int64_t mtime_ns);

/// The manifest of one set of image files, cached between runs.
class ManifestCache {
 public:
  explicit ManifestCache(std::string_view identity) : file_(identity) {}

  /// Fast: compares only modification times.
  [[nodiscard]] std::optional<Facts> facts() const;
  /// Thorough: also counts the entries of folders.
  [[nodiscard]] std::optional<ImageFiles> load() const;
  /// Does nothing when is_settled() is false for a dependency.
  void save(const std::vector<PathStamp>& dependencies, const ImageFiles& files) const;
  void forget() const { file_.remove(); }

 private:
  CacheFile file_;
};

/// Returns whether every file below `root` still has its listed length and modification time.
/// Checks many files concurrently, because each stat() on a network file system has latency.
bool is_as_listed(const std::filesystem::path& root, const ImageFiles& files);

}  // namespace trainctl::data
