#pragma once

#include <filesystem>
#include <string>
#include <string_view>

namespace trainctl::data {

/// A remote path in its parts.
struct Url {
  std::string scheme;  // http, https, s3 or file
  std::string host;    // with its port; the bucket for s3; empty for file
  std::string path;    // begins with a slash; the key behind it for s3
  std::string text;    // as it was written: what errors and caches call it

  /// Of an s3 object.
  [[nodiscard]] std::string_view key() const { return std::string_view(path).substr(1); }
};

/// Throws Error(config), which does not repeat the URL, where it holds credentials or a query, or
/// has no host.
Url parse_url(const std::filesystem::path& path);

/// What stands in a request: everything but letters, digits, "-._~" and the characters of `kept`
/// becomes %XX.
std::string percent_encoded(std::string_view text, std::string_view kept);

}  // namespace trainctl::data
