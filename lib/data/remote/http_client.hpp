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

/// Credentials for AWS Signature Version 4.
struct Signing {
  std::string region;
  std::string access_key;
  std::string secret_key;
  std::string session_token;  // empty: no token
};

/// A request: a GET without a body, unless `method` says otherwise.
struct HttpRequest {
  std::string url;
  std::optional<ByteRange> range;
  std::optional<Signing> signing;
  double timeout_s = 60;
  std::uint64_t max_body_bytes =
      0;                    // of a response with status 200 or 206; longer ones are aborted
  std::string method = {};  // "POST", "PUT"; empty: GET
  std::string body = {};    // sent with `method`
  std::vector<std::string> headers = {};  // further ones, "Name: value"
};

/// The response to a request, or the error that prevented a response.
struct HttpResponse {
  int status = 0;                              // 0: no response
  std::map<std::string, std::string> headers;  // names in lower case
  std::string body;
  std::string failure;     // transport error, or empty
  bool too_long = false;   // aborted: the body exceeded HttpRequest::max_body_bytes
  bool permanent = false;  // a retry would fail again, as in a redirect loop
  bool framed = false;     // HTTP/2 or later, which marks the end of every body

  [[nodiscard]] std::string header(const std::string& name) const {
    const auto found = headers.find(name);
    return found == headers.end() ? std::string() : found->second;
  }
};

/// Sends one request and waits for the response. Called from several threads at once.
class HttpClient {
 public:
  virtual ~HttpClient() = default;
  /// Never throws for errors of the network or server; throws Error(resource) when memory is short.
  /// Fails within about a second after stop_wanted() becomes true.
  virtual HttpResponse perform(const HttpRequest& request) = 0;
};

/// Returns a client on libcurl. It follows redirects except from https to http, and trusts the
/// certificates of the system or of the file in SSL_CERT_FILE. The first call loads libcurl,
/// because most runs need no network and libcurl depends on thirty libraries. Throws
/// Error(resource) when it cannot be loaded.
std::unique_ptr<HttpClient> curl_client();

/// Returns the headers, as "Name: value", that sign a GET with AWS Signature Version 4: `Host` and
/// the signature headers. The URL must be percent-encoded, with an alphabetically sorted query. If
/// the request has a range, the `Range` header is signed, too.
std::vector<std::string> sigv4_headers(const HttpRequest& request, std::time_t now);

}  // namespace trainctl::data
