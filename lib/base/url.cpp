#include "base/url.hpp"

#include <algorithm>
#include <array>
#include <string_view>

namespace trainctl {

bool is_remote(const std::filesystem::path& path) {
  constexpr std::array<std::string_view, 4> kSchemes{"http://", "https://", "s3://", "file://"};
  return std::any_of(kSchemes.begin(), kSchemes.end(),
                     [&](std::string_view scheme) { return path.native().starts_with(scheme); });
}

std::string identity_of(const std::filesystem::path& path) {
  if (is_remote(path)) return path.string();
  return std::filesystem::absolute(path).lexically_normal().string();
}

}  // namespace trainctl
