#pragma once

#include <cstdint>
#include <ctime>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace trainctl::data {

/// `size` bytes from `offset` on.
struct ByteRange {
  std::uint64_t offset = 0;
  std::uint64_t size = 0;
};

/// AWS Signature Version 4.
struct Signing {
  std::string region;
  std::string access_key;
  std::string secret_key;
  std::string session_token;  // empty: none
};

/// A GET.
struct HttpRequest {
  std::string url;
  std::optional<ByteRange> range;
  std::optional<Signing> signing;
  double timeout_s = 60;
  std::uint64_t most = 0;  // bytes of the content (200, 206); more is broken off
};

struct HttpResponse {
  int status = 0;                              // 0: none came
  std::map<std::string, std::string> headers;  // names in lower case
  std::string body;
  std::string failure;    // what went wrong on the way; empty: nothing
  bool too_long = false;  // it was: the body went beyond HttpRequest::most
  bool lasting = false;   // it will fail again: a redirection in a circle, say
  bool framed = false;    // HTTP/2 or later, which tells where any body ends

  [[nodiscard]] std::string header(const std::string& name) const {
    const auto found = headers.find(name);
    return found == headers.end() ? std::string() : found->second;
  }
};

/// Sends one request and waits for the answer. Called from several threads at once.
class HttpClient {
 public:
  virtual ~HttpClient() = default;
  /// Never throws for what the network or the server does; Error(resource) where memory is short.
  /// Fails within a second or so where stop_wanted().
  virtual HttpResponse perform(const HttpRequest& request) = 0;
};

/// Through libcurl, which follows redirections, though never from https to http, and trusts the
/// certificates of the system or of the file in SSL_CERT_FILE. It is loaded by the first call: most
/// runs need no network, and it brings thirty libraries along. Throws Error(resource) where it
/// cannot be loaded.
std::unique_ptr<HttpClient> curl_client();

/// The headers, "Name: value", that sign a GET with AWS Signature Version 4: `Host` and those of
/// the signature itself. Its URL must be percent-encoded, with its query in alphabetical order; of
/// its other headers, `Range` is signed.
std::vector<std::string> sigv4_headers(const HttpRequest& request, std::time_t now);

}  // namespace trainctl::data
