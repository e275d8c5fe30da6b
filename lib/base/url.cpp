#include "base/url.hpp"

#include <algorithm>
#include <array>
#include <string_view>

namespace trainctl {
namespace {

constexpr std::string_view kMark = "://";

void cover(std::string& text, std::size_t begin, std::size_t end) {
  std::fill(text.begin() + static_cast<std::ptrdiff_t>(begin),
            text.begin() + static_cast<std::ptrdiff_t>(end), '*');
}

}  // namespace

bool is_remote(const std::filesystem::path& path) {
  constexpr std::array<std::string_view, 4> kSchemes{"http://", "https://", "s3://", "file://"};
  return std::any_of(kSchemes.begin(), kSchemes.end(),
                     [&](std::string_view scheme) { return path.native().starts_with(scheme); });
}

std::string identity_of(const std::filesystem::path& path) {
  if (is_remote(path)) return path.string();
  return std::filesystem::absolute(path).lexically_normal().string();
}

std::string without_userinfo(std::string text) {
  for (std::size_t mark = text.find(kMark); mark != std::string::npos;
       mark = text.find(kMark, mark + 1)) {
    const std::size_t begin = mark + kMark.size();
    const std::size_t end = std::min(text.find_first_of(" \t", begin), text.size());
    const std::size_t host = std::string_view(text).substr(0, end).rfind('@');
    if (host != std::string::npos && host > begin) cover(text, begin, host);
  }
  return text;
}

std::string without_credentials(std::string text) {
  text = without_userinfo(std::move(text));
  for (std::size_t mark = text.find(kMark); mark != std::string::npos;
       mark = text.find(kMark, mark + 1)) {
    const std::size_t begin = mark + kMark.size();
    const std::size_t end = std::min(text.find_first_of(" \t", begin), text.size());
    const std::string_view scheme = std::string_view(text).substr(0, mark);
    const std::size_t query = text.find('?', begin);
    if (query < end && (scheme.ends_with("http") || scheme.ends_with("https")))
      cover(text, query + 1, end);
  }
  return text;
}

}  // namespace trainctl
