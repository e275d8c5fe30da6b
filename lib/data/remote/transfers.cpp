#include "data/remote/transfers.hpp"

#include "base/error.hpp"
#include "base/strings.hpp"

#include <algorithm>
#include <charconv>
#include <chrono>
#include <random>
#include <thread>
#include <utility>

namespace trainctl::data {
namespace {

constexpr double kFirstPause = 0.25;  // seconds
constexpr double kLongestPause = 20;
constexpr std::uint64_t kMostText = std::uint64_t{64} << 20;

bool is_transient(int status) {
  return status == 408 || status == 425 || status == 429 || status >= 500;
}

std::optional<std::uint64_t> number(std::string_view text) {
  std::uint64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return value;
}

/// "bytes 0-99/1234", or "bytes */1234" where nothing of the range is there.
struct ContentRange {
  std::uint64_t first = 0;
  std::uint64_t total = 0;

  static std::optional<ContentRange> of(std::string_view text) {
    if (!text.starts_with("bytes ")) return std::nullopt;
    text.remove_prefix(6);
    const auto total = number(text.substr(std::min(text.find('/'), text.size() - 1) + 1));
    if (!total) return std::nullopt;
    const auto first = text.starts_with('*') ? *total : number(text.substr(0, text.find('-')));
    if (!first) return std::nullopt;
    return ContentRange{*first, *total};
  }
};

/// Size of the object and where the body begins; nothing where the answer does not tell.
std::optional<ContentRange> extent_of(const HttpResponse& response) {
  if (response.status == 200) return ContentRange{0, response.body.size()};
  return ContentRange::of(response.header("content-range"));
}

std::string fault_of_range(const HttpResponse& response, const ByteRange& range) {
  if (response.status != 200 && response.status != 206 && response.status != 416) return {};
  const auto extent = extent_of(response);
  if (!extent) return "its answer does not tell the size of the object";
  if (response.status == 416) return {};
  const std::uint64_t end = std::min(range.offset + range.size, extent->total);
  const std::uint64_t expected = end - std::min(range.offset, end);
  if (extent->first == range.offset && response.body.size() == expected) return {};
  return fmt::format("{} bytes from byte {} on came; {} from byte {} on were asked for",
                     response.body.size(), extent->first, expected, range.offset);
}

std::string etag_of(const HttpResponse& response) {
  const std::string tag = plain_etag(response.header("etag"));
  return tag.empty() ? response.header("last-modified") : tag;
}

void expect_answered(const HttpResponse& response, const std::string& name) {
  ENSURE(data, !response.too_long,
         "the server sends more of {} than was asked for: it does not answer range requests, and "
         "files above 8 MiB need them",
         printable(name));
  ENSURE(data, response.status != 401 && response.status != 403,
         "the server refuses {} ({}); check that it may be read, and for s3 that "
         "dataset.remote.access_key, secret_key and region are right, and this machine's clock",
         printable(name), response.status);
  const bool served = response.status == 200 || response.status == 206 || response.status == 416;
  ENSURE(data, served || response.status == 404 || response.status == 410,
         "the server answers {} for {}; check the path, and for s3 dataset.remote.endpoint and "
         "region",
         response.status, printable(name));
}

bool is_absent(const HttpResponse& response) {
  return response.status == 404 || response.status == 410;
}

}  // namespace

Transfers::Transfers(std::unique_ptr<HttpClient> client, TransferOptions options)
    : client_(std::move(client)), options_(std::move(options)) {}

std::optional<Piece> Transfers::read(HttpRequest request, const ByteRange& range,
                                     const std::string& name) {
  request.range = range;
  request.most = range.size;
  HttpResponse response =
      send(request, name, [&](const HttpResponse& got) { return fault_of_range(got, range); });
  if (is_absent(response)) return std::nullopt;
  Piece piece{{}, extent_of(response)->total, etag_of(response)};
  if (response.status != 416) piece.bytes = std::move(response.body);
  return piece;
}

std::optional<std::string> Transfers::get(HttpRequest request, const std::string& name) {
  request.most = kMostText;
  HttpResponse response = send(request, name, [](const HttpResponse&) { return std::string(); });
  if (is_absent(response)) return std::nullopt;
  return std::move(response.body);
}

HttpResponse Transfers::send(const HttpRequest& request, const std::string& name,
                             const Fault& fault) {
  HttpRequest timed = request;
  timed.timeout_s = options_.timeout_s;
  for (int attempt = 0;; ++attempt) {
    HttpResponse response = client_->perform(timed);
    std::string cause = response.too_long ? std::string() : response.failure;
    if (cause.empty() && is_transient(response.status))
      cause = fmt::format("the server answers {}", response.status);
    if (cause.empty() && !response.too_long) cause = fault(response);
    ENSURE(data, !response.lasting,
           "{} cannot be read: {}; correct the path, or what the server answers", printable(name),
           printable(cause));
    if (cause.empty()) {
      expect_answered(response, name);
      return response;
    }
    ENSURE(resource, attempt < options_.retries,
           "{} cannot be read: {}; given up after {} tries: check the network and the server, or "
           "raise dataset.remote.retries or timeout_s",
           printable(name), printable(cause), attempt + 1);
    pause(attempt, response);
  }
}

void Transfers::pause(int attempt, const HttpResponse& response) const {
  // Clients that failed together shall not come back together.
  thread_local std::minstd_rand random{std::random_device{}()};
  const double longest =
      std::min(kLongestPause, kFirstPause * static_cast<double>(1 << std::min(attempt, 16)));
  double seconds = longest * std::uniform_real_distribution<double>(0.5, 1)(random);
  if (const auto asked = number(response.header("retry-after")))
    seconds = std::max(seconds, std::min(kLongestPause, static_cast<double>(*asked)));
  if (options_.sleep) return options_.sleep(seconds);
  std::this_thread::sleep_for(std::chrono::duration<double>(seconds));
}

}  // namespace trainctl::data
