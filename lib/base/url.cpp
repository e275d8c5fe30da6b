#include "base/url.hpp"

#include <algorithm>
#include <array>
#include <string_view>

namespace trainctl {
namespace {

constexpr std::string_view kMark = "://";

/// Calls `take` with the start of each URL, after its scheme, and its end.
template <class Take>
void for_each_url(const std::string& text, const Take& take) {
  for (std::size_t mark = text.find(kMark); mark != std::string::npos;
       mark = text.find(kMark, mark + 1)) {
    const std::size_t begin = mark + kMark.size();
    take(begin, std::min(text.find_first_of(" \t", begin), text.size()));
  }
}

/// Replaces the text from `begin` to the last '@' before `end` with stars.
void cover_to_at(std::string& text, std::size_t begin, std::size_t end) {
  const std::size_t at = std::string_view(text).substr(0, end).rfind('@');
  if (at != std::string::npos && at > begin) text.replace(begin, at - begin, at - begin, '*');
}

/// Returns whether the part before the first '/' of a URL is a user and the start of a password
/// with a '/', as in http://user:pass/word@host: neither a port nor an '@' follows the ':'.
bool has_password(std::string_view host) {
  const std::size_t colon = host.find(':');
  return colon != std::string_view::npos && host.find_first_of("[@") == std::string_view::npos &&
         host.find_first_not_of("0123456789", colon + 1) != std::string_view::npos;
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
  for_each_url(text, [&](std::size_t begin, std::size_t end) {
    const std::size_t path = std::min(text.find_first_of("/?#", begin), end);
    cover_to_at(text, begin,
                has_password(std::string_view(text).substr(begin, path - begin)) ? end : path);
  });
  return text;
}

std::string without_credentials(std::string text) {
  for_each_url(text, [&](std::size_t begin, std::size_t end) { cover_to_at(text, begin, end); });
  for_each_url(text, [&](std::size_t begin, std::size_t end) {
    const std::string_view scheme = std::string_view(text).substr(0, begin - kMark.size());
    const std::size_t query = text.find('?', begin);
    if (query < end && (scheme.ends_with("http") || scheme.ends_with("https")))
      text.replace(query + 1, end - query - 1, end - query - 1, '*');
  });
  return text;
}

}  // namespace trainctl
