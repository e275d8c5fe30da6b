#include "data/remote/sigv4.hpp"

#include "base/error.hpp"
#include "base/sha256.hpp"

#include <map>
#include <string_view>

namespace trainctl::data {
namespace {

std::string utc(std::time_t time, const char* format) {
  std::tm parts{};
  ::gmtime_r(&time, &parts);
  std::string text(32, '\0');
  text.resize(std::strftime(text.data(), text.size(), format, &parts));
  return text;
}

/// A URL as the signature takes it apart.
struct Target {
  std::string_view host;  // with its port
  std::string_view path;
  std::string_view query;
};

Target target_of(std::string_view url) {
  url.remove_prefix(url.find("://") + 3);
  Target target;
  target.host = url.substr(0, url.find_first_of("/?"));
  url.remove_prefix(target.host.size());
  target.path = url.substr(0, url.find('?'));
  url.remove_prefix(target.path.size());
  if (!url.empty()) target.query = url.substr(1);
  if (target.path.empty()) target.path = "/";
  return target;
}

Sha256 signing_key(const Signing& signing, const std::string& day) {
  Sha256 key = hmac_sha256("AWS4" + signing.secret_key, day);
  for (const std::string_view part :
       {std::string_view(signing.region), std::string_view("s3"), std::string_view("aws4_request")})
    key = hmac_sha256(as_text(key), part);
  return key;
}

}  // namespace

std::string range_value(const HttpRequest& request) {
  if (!request.range) return {};
  const auto [offset, size] = *request.range;
  return fmt::format("bytes={}-{}", offset, offset + size - 1);
}

std::vector<std::string> sigv4_headers(const HttpRequest& request, std::time_t now) {
  ASSERT(request.signing);
  const Signing& signing = *request.signing;
  const Target target = target_of(request.url);
  const std::string time = utc(now, "%Y%m%dT%H%M%SZ");
  const std::string day = time.substr(0, 8);
  const std::string nothing = to_hex(sha256(""));  // the body of a GET

  std::map<std::string, std::string> headers{
      {"host", std::string(target.host)}, {"x-amz-content-sha256", nothing}, {"x-amz-date", time}};
  if (request.range) headers["range"] = range_value(request);
  if (!signing.session_token.empty()) headers["x-amz-security-token"] = signing.session_token;
  std::string lines;
  std::string names;
  for (const auto& [name, value] : headers) {
    lines += name + ":" + value + "\n";
    names += (names.empty() ? "" : ";") + name;
  }
  const std::string canonical =
      fmt::format("GET\n{}\n{}\n{}\n{}\n{}", target.path, target.query, lines, names, nothing);
  const std::string scope = fmt::format("{}/{}/s3/aws4_request", day, signing.region);
  const std::string to_sign =
      fmt::format("AWS4-HMAC-SHA256\n{}\n{}\n{}", time, scope, to_hex(sha256(canonical)));
  const Sha256 signature = hmac_sha256(as_text(signing_key(signing, day)), to_sign);

  headers.erase("range");  // whoever sends the request adds it
  std::vector<std::string> signed_headers;
  for (const auto& [name, value] : headers) signed_headers.push_back(name + ": " + value);
  signed_headers.push_back(
      fmt::format("authorization: AWS4-HMAC-SHA256 Credential={}/{},SignedHeaders={},Signature={}",
                  signing.access_key, scope, names, to_hex(signature)));
  return signed_headers;
}

}  // namespace trainctl::data
