#include "data/remote/url.hpp"

#include "base/error.hpp"
#include "base/strings.hpp"
#include "base/url.hpp"

#include <cctype>

namespace trainctl::data {

Url parse_url(const std::filesystem::path& path) {
  Url url;
  url.text = path.string();
  ASSERT(is_remote(url.text));
  const std::string_view text = url.text;
  const std::size_t scheme_end = text.find("://");
  const std::size_t host_end = std::min(text.find('/', scheme_end + 3), text.size());
  url.scheme = text.substr(0, scheme_end);
  url.host = text.substr(scheme_end + 3, host_end - scheme_end - 3);
  url.path = host_end < text.size() ? text.substr(host_end) : "/";
  ENSURE(config, url.host.find('@') == std::string::npos,
         "a {}:// path holds a user or password before its '@'; remove it: credentials belong into "
         "dataset.remote, as ${{secret:NAME}}",
         url.scheme);
  ENSURE(config, !url.scheme.starts_with("http") || url.path.find('?') == std::string::npos,
         "a {}:// path holds a query behind its '?'; remove it: signed links are no paths, and "
         "credentials belong into dataset.remote, as ${{secret:NAME}}",
         url.scheme);
  const bool is_file = url.scheme == "file";
  ENSURE(config, url.host.empty() == is_file, "'{}' {}", printable(url.text),
         is_file ? "names a host; write file:// and an absolute path, as file:///slow/data"
                 : "names no host or bucket; write it behind the '://'");
  return url;
}

std::string percent_encoded(std::string_view text, std::string_view kept) {
  std::string result;
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    const bool plain = std::isalnum(byte) != 0 || std::string_view("-._~").find(c) != text.npos ||
                       kept.find(c) != text.npos;
    result += plain ? std::string(1, c) : fmt::format("%{:02X}", byte);
  }
  return result;
}

}  // namespace trainctl::data
