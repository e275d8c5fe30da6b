#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <string_view>

namespace trainctl::data {

/// ${XDG_CACHE_HOME:-~/.cache}/trainctl; empty where neither variable is an absolute path.
std::filesystem::path cache_root();

/// A file that saves work and may vanish at any time: a short head that tells whether it is still
/// right, and a body. Both carry a digest; what is damaged, cut off or of another version reads as
/// absent. Lies in
/// ${XDG_CACHE_HOME:-~/.cache}/trainctl/manifests.
class CacheFile {
 public:
  /// `identity` says what is cached, as "image_folder\0/data/train".
  explicit CacheFile(std::string_view identity);
  /// In a folder of its own.
  CacheFile(const std::filesystem::path& folder, std::string_view identity);

  struct Content {
    std::string head;
    std::string body;
  };

  [[nodiscard]] std::optional<std::string> head() const;
  [[nodiscard]] std::optional<Content> read() const;
  /// Atomic. A folder that cannot be written, or a full disk, only means that nothing is saved.
  void write(std::string_view head, std::string_view body) const;
  void remove() const;

 private:
  std::filesystem::path path_;  // empty: there is no home for it
};

}  // namespace trainctl::data
