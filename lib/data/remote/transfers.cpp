#include "data/remote/transfers.hpp"

#include "base/error.hpp"
#include "base/numbers.hpp"
#include "base/strings.hpp"

#include <array>
#include <random>

namespace trainctl::data {
namespace {

constexpr double kFirstPause = 0.25;  // seconds
constexpr double kLongestPause = 20;
constexpr std::uint64_t kMaxText = std::uint64_t{64} << 20;

bool is_absent(const HttpResponse& response) {
  return response.status == 404 || response.status == 410;
}

/// The offset of a response body and the size of the object.
struct ContentRange {
  std::uint64_t first = 0;
  std::uint64_t total = 0;
};

/// Parses "bytes 0-99/1234", or "bytes */1234" for a range after the end. Returns nothing when the
/// response has no valid range.
std::optional<ContentRange> content_range_of(const HttpResponse& response) {
  if (response.status == 200) return ContentRange{0, response.body.size()};
  const std::string header = response.header("content-range");
  std::string_view text = header;
  if (!text.starts_with("bytes ")) return std::nullopt;
  text.remove_prefix(6);
  const auto total =
      parse_number<std::uint64_t>(text.substr(std::min(text.find('/'), text.size() - 1) + 1));
  const auto first =
      text.starts_with('*') ? total : parse_number<std::uint64_t>(text.substr(0, text.find('-')));
  if (!first || !total) return std::nullopt;
  return ContentRange{*first, *total};
}

/// In HTTP/1 the end of a connection may end a body, so truncation cannot be detected.
std::string find_missing_end(const HttpResponse& response) {
  const bool has_end = response.framed || !response.header("content-length").empty() ||
                       response.header("transfer-encoding").find("chunked") != std::string::npos;
  if (response.status != 200 || has_end) return {};
  return "the response may be truncated: it has neither a Content-Length nor chunks";
}

std::string find_range_error(const HttpResponse& response, const ByteRange& range) {
  if (response.status != 200 && response.status != 206 && response.status != 416) return {};
  if (std::string fault = find_missing_end(response); !fault.empty()) return fault;
  const auto extent = content_range_of(response);
  if (!extent) return "the response does not contain the size of the object";
  if (response.status == 416) return {};
  const std::uint64_t end = std::min(range.offset + range.size, extent->total);
  const std::uint64_t expected = end - std::min(range.offset, end);
  if (extent->first == range.offset && response.body.size() == expected) return {};
  return fmt::format("expected {} bytes at offset {}, got {} bytes at offset {}", expected,
                     range.offset, response.body.size(), extent->first);
}

std::string etag_of(const HttpResponse& response) {
  const std::string tag = plain_etag(response.header("etag"));
  return tag.empty() ? response.header("last-modified") : tag;
}

/// Returns whether the file itself is compressed, so that a Content-Encoding only repeats its
/// suffix.
bool is_compressed_file(const std::string& name) {
  constexpr std::array<const char*, 6> kSuffixes{".gz", ".tgz", ".Z", ".bz2", ".xz", ".zst"};
  return std::any_of(kSuffixes.begin(), kSuffixes.end(),
                     [&](const char* suffix) { return name.ends_with(suffix); });
}

void check_not_compressed(const HttpResponse& response, const std::string& name) {
  const std::string coding = response.header("content-encoding");
  const bool plain = coding.empty() || coding == "identity" || coding == "aws-chunked";
  ENSURE(data, plain || is_compressed_file(name),
         "the server sent {} compressed ({}), which was not requested\nhint: disable "
         "compression on the server, or remove the object's Content-Encoding",
         printable(name), printable(coding));
}

void check_status(const HttpResponse& response, const std::string& name) {
  ENSURE(data, response.status != 401 && response.status != 403,
         "the server denied access to {} (HTTP {})\nhint: check the permissions; for s3:// also "
         "access_key, secret_key and region of dataset.remote, and the clock of the local machine",
         printable(name), response.status);
  const bool served = response.status == 200 || response.status == 206 || response.status == 416;
  ENSURE(data, served || is_absent(response),
         "cannot read {}: the server responded with HTTP {}\nhint: check the path; for s3:// also "
         "dataset.remote.endpoint and dataset.remote.region",
         printable(name), response.status);
  ENSURE(data, !response.too_long,
         "the server sent more of {} than requested: it does not support range requests, which "
         "files above 8 MiB require",
         printable(name));
  if (response.status == 200 || response.status == 206) check_not_compressed(response, name);
}

/// Returns the error of the connection, or of a server that may recover; otherwise an empty string.
std::string find_transfer_error(const HttpResponse& response) {
  if (!response.failure.empty() && !response.too_long) return response.failure;
  const int status = response.status;
  if (status == 408 || status == 425 || status == 429 || status >= 500)
    return fmt::format("the server responded with HTTP {}", status);
  return {};
}

}  // namespace

Transfers::Transfers(std::unique_ptr<HttpClient> client, TransferOptions options)
    : client_(std::move(client)), options_(std::move(options)) {}

std::optional<ObjectPart> Transfers::read(HttpRequest request, const ByteRange& range,
                                          const std::string& name) {
  request.range = range;
  request.max_body_bytes = range.size;
  HttpResponse response =
      send(request, name, [&](const HttpResponse& got) { return find_range_error(got, range); });
  if (is_absent(response)) return std::nullopt;
  ObjectPart piece{{}, content_range_of(response)->total, etag_of(response)};
  if (response.status != 416) piece.bytes = std::move(response.body);
  return piece;
}

std::optional<std::string> Transfers::get(HttpRequest request, const std::string& name) {
  request.max_body_bytes = kMaxText;
  HttpResponse response = send(request, name, find_missing_end);
  if (is_absent(response)) return std::nullopt;
  return std::move(response.body);
}

HttpResponse Transfers::send(const HttpRequest& request, const std::string& name,
                             const ResponseCheck& check) {
  HttpRequest timed = request;
  timed.timeout_s = options_.timeout_s;
  for (int attempt = 0;; ++attempt) {
    throw_if_stopped();
    HttpResponse response = client_->perform(timed);
    note_progress();
    std::string cause = find_transfer_error(response);
    if (cause.empty()) {
      check_status(response, name);
      cause = check(response);
    }
    if (cause.empty()) return response;
    throw_if_stopped();
    ENSURE(data, !response.permanent,
           "cannot read {}: {}\nhint: correct the path or the server's configuration",
           printable(name), printable(cause));
    ENSURE(resource, attempt < options_.retries,
           "cannot read {}: {} ({} attempt{})\nhint: check the network and the server, or raise "
           "dataset.remote.retries or dataset.remote.timeout_s",
           printable(name), printable(cause), attempt + 1, plural(attempt + 1));
    pause(attempt, response);
  }
}

void Transfers::pause(int attempt, const HttpResponse& response) const {
  // Jitter keeps clients that failed together from retrying together.
  thread_local std::minstd_rand random{std::random_device{}()};
  const double longest =
      std::min(kLongestPause, kFirstPause * static_cast<double>(1 << std::min(attempt, 16)));
  double seconds = longest * std::uniform_real_distribution<double>(0.5, 1)(random);
  if (const auto asked = parse_number<std::uint64_t>(response.header("retry-after")))
    seconds = std::max(seconds, std::min(kLongestPause, static_cast<double>(*asked)));
  options_.sleep(seconds);
}

}  // namespace trainctl::data
