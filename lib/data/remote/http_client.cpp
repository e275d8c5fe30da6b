#include "data/remote/http_client.hpp"

#include "base/error.hpp"
#include "base/hash.hpp"
#include "base/strings.hpp"
#include "data/core/parallel.hpp"
#include "data/core/run_control.hpp"

#include <curl/curl.h>
#include <dlfcn.h>

#include <algorithm>
#include <charconv>
#include <cstdlib>
#include <new>

// The type-checking macros of curl.h conflict with the function pointers of the same names.
#undef curl_easy_setopt
#undef curl_easy_getinfo

namespace trainctl::data {
namespace {

constexpr const char* kLibrary = "libcurl.so.4";
constexpr long kConnectTimeoutMs = 15'000;
constexpr long kMostRedirects = 5;
constexpr std::size_t kMaxErrorPage = std::size_t{64} << 10;  // bytes of an error page

/// A function of libcurl, which is looked up on conversion to a function pointer.
struct CurlSymbol {
  void* library;
  const char* name;

  template <class Function>
  operator Function() const {
    void* symbol = ::dlsym(library, name);
    ENSURE(resource, symbol != nullptr,
           "{} has no function {}\nhint: install libcurl 7.85 or newer", kLibrary, name);
    return reinterpret_cast<Function>(symbol);
  }
};

void* load_curl() {
  void* library = ::dlopen(kLibrary, RTLD_NOW | RTLD_LOCAL);
  const char* cause = library == nullptr ? ::dlerror() : nullptr;
  ENSURE(resource, library != nullptr,
         "cannot load libcurl, which http and s3 paths require: {}\nhint: install it (Debian: "
         "libcurl4)",
         cause == nullptr ? "unknown cause" : cause);
  return library;
}

struct Curl {
  void* library = load_curl();
  decltype(&::curl_global_init) global_init = CurlSymbol{library, "curl_global_init"};
  decltype(&::curl_easy_init) init = CurlSymbol{library, "curl_easy_init"};
  decltype(&::curl_easy_cleanup) cleanup = CurlSymbol{library, "curl_easy_cleanup"};
  decltype(&::curl_easy_reset) reset = CurlSymbol{library, "curl_easy_reset"};
  decltype(&::curl_easy_setopt) set = CurlSymbol{library, "curl_easy_setopt"};
  decltype(&::curl_easy_perform) perform = CurlSymbol{library, "curl_easy_perform"};
  decltype(&::curl_easy_getinfo) info = CurlSymbol{library, "curl_easy_getinfo"};
  decltype(&::curl_easy_strerror) text = CurlSymbol{library, "curl_easy_strerror"};
  decltype(&::curl_slist_append) append = CurlSymbol{library, "curl_slist_append"};
  decltype(&::curl_slist_free_all) free_list = CurlSymbol{library, "curl_slist_free_all"};

  Curl() {
    ENSURE(resource, global_init(CURL_GLOBAL_DEFAULT) == CURLE_OK, "cannot initialize libcurl");
  }
};

const Curl& curl() {
  static const Curl functions;
  return functions;
}

struct CurlDeleter {
  void operator()(CURL* easy) const { curl().cleanup(easy); }
  void operator()(curl_slist* list) const { curl().free_list(list); }
};

/// One easy handle, which keeps its connection between requests.
struct Handle {
  std::unique_ptr<CURL, CurlDeleter> easy{curl().init()};
  Handle() { ENSURE(resource, easy, "cannot initialize libcurl: out of memory"); }
};

/// Why our callbacks aborted a transfer. They must not throw through libcurl.
enum class AbortCause { none, content_too_long, error_page, no_memory };

struct Receiver {
  HttpResponse& response;
  std::uint64_t max_bytes;
  AbortCause abort_cause = AbortCause::none;
};

std::uint64_t announced_length(const HttpResponse& response) {
  const std::string text = response.header("content-length");
  std::uint64_t length = 0;
  std::from_chars(text.data(), text.data() + text.size(), length);
  return length;
}

void append_body(std::string_view bytes, Receiver& receiver) {
  HttpResponse& response = receiver.response;
  const bool content = response.status == 200 || response.status == 206;
  const std::uint64_t most = content ? receiver.max_bytes : kMaxErrorPage;
  if (response.body.size() + bytes.size() > most) {
    receiver.abort_cause = content ? AbortCause::content_too_long : AbortCause::error_page;
    return;
  }
  if (response.body.empty()) response.body.reserve(std::min(announced_length(response), most));
  response.body += bytes;
}

/// Parses a status line such as "HTTP/1.1 200 OK". With redirects there are several; only the last
/// response counts.
void parse_status_line(std::string_view line, HttpResponse& response) {
  response.headers.clear();
  response.framed = !line.starts_with("HTTP/1");
  const std::string_view code = trimmed(line.substr(std::min(line.find(' '), line.size())));
  response.status = 0;
  std::from_chars(code.data(), code.data() + code.size(), response.status);
}

void add_header(std::string_view line, Receiver& receiver) {
  if (line.starts_with("HTTP/")) parse_status_line(line, receiver.response);
  const std::size_t colon = line.find(':');
  if (colon == std::string_view::npos) return;
  receiver.response.headers[lower_case(line.substr(0, colon))] = trimmed(line.substr(colon + 1));
}

/// A libcurl callback. Returning fewer bytes than given aborts the transfer.
template <void (*kAdd)(std::string_view, Receiver&)>
std::size_t take(char* bytes, std::size_t, std::size_t count, void* user) noexcept {
  auto& receiver = *static_cast<Receiver*>(user);
  try {
    kAdd({bytes, count}, receiver);
  } catch (const std::bad_alloc&) {
    receiver.abort_cause = AbortCause::no_memory;
  }
  return receiver.abort_cause == AbortCause::none ? count : 0;
}

int on_progress(void*, curl_off_t, curl_off_t, curl_off_t, curl_off_t) noexcept {
  return stop_wanted() ? 1 : 0;
}

using HeaderList = std::unique_ptr<curl_slist, CurlDeleter>;

void add(const std::string& line, HeaderList& headers) {
  curl_slist* longer = curl().append(headers.get(), line.c_str());
  ENSURE(resource, longer != nullptr, "cannot create an HTTP header: out of memory");
  (void)headers.release();
  headers.reset(longer);
}

/// Resets a handle before it returns to its pool, because it points into the request.
struct Reset {
  CURL* easy;
  ~Reset() { curl().reset(easy); }
};

/// The code has two meanings. The other one is a response that does not start like HTTP, for
/// example when the previous response on the connection was longer than announced.
bool is_refused_redirect(CURLcode code, std::string_view text) {
  return code == CURLE_UNSUPPORTED_PROTOCOL && text.find("HTTP/0.9") == std::string_view::npos;
}

/// Returns whether a retry would fail again.
bool is_permanent(CURLcode code, std::string_view text) {
  switch (code) {
    case CURLE_UNSUPPORTED_PROTOCOL: return is_refused_redirect(code, text);
    case CURLE_URL_MALFORMAT:
    case CURLE_TOO_MANY_REDIRECTS:
    case CURLE_PEER_FAILED_VERIFICATION:
    case CURLE_SSL_CACERT_BADFILE: return true;
    default: return false;
  }
}

std::string describe_error(CURLcode code, const char* text) {
  if (is_refused_redirect(code, text))
    return "the server redirects to a forbidden protocol, for example from https to http";
  if (code == CURLE_TOO_MANY_REDIRECTS)
    return fmt::format("the server redirects more than {} times", kMostRedirects);
  return *text != '\0' ? text : curl().text(code);
}

/// Returns the first and the last byte, as the `Range` header needs them after "bytes=".
std::string range_text(const ByteRange& range) {
  return fmt::format("{}-{}", range.offset, range.offset + range.size - 1);
}

class CurlClient final : public HttpClient {
 public:
  CurlClient() { curl(); }

  HttpResponse perform(const HttpRequest& request) override {
    Pool<Handle>::Lease handle(handles_);
    HttpResponse response;
    Receiver receiver{response, request.max_body_bytes};
    std::array<char, CURL_ERROR_SIZE> text{};
    HeaderList headers;
    CURL* const easy = handle->easy.get();
    const Reset reset{easy};
    set_options(easy, request, receiver);
    curl().set(easy, CURLOPT_ERRORBUFFER, text.data());
    add_headers(easy, request, headers);
    const CURLcode code = curl().perform(easy);
    ENSURE(
        resource, receiver.abort_cause != AbortCause::no_memory,
        "cannot receive a response: out of memory\nhint: free memory, or lower loader.num_workers");
    long status = 0;
    curl().info(easy, CURLINFO_RESPONSE_CODE, &status);
    response.status = static_cast<int>(status);
    if (code == CURLE_OK || receiver.abort_cause == AbortCause::error_page) return response;
    response.failure = describe_error(code, text.data());
    response.permanent = is_permanent(code, text.data());
    response.too_long = receiver.abort_cause == AbortCause::content_too_long;
    return response;
  }

 private:
  static void set_options(CURL* easy, const HttpRequest& request, Receiver& receiver) {
    const Curl& api = curl();
    api.set(easy, CURLOPT_URL, request.url.c_str());
    api.set(easy, CURLOPT_NOSIGNAL, 1L);
    api.set(easy, CURLOPT_PATH_AS_IS, 1L);
    api.set(easy, CURLOPT_PROTOCOLS_STR, "http,https");
    api.set(easy, CURLOPT_FOLLOWLOCATION, request.signing ? 0L : 1L);
    api.set(easy, CURLOPT_MAXREDIRS, kMostRedirects);
    const bool is_https = request.url.starts_with("https:");
    api.set(easy, CURLOPT_REDIR_PROTOCOLS_STR, is_https ? "https" : "http,https");
    if (const char* trusted = std::getenv("SSL_CERT_FILE"); trusted != nullptr && *trusted != '\0')
      api.set(easy, CURLOPT_CAINFO, trusted);
    api.set(easy, CURLOPT_USERAGENT, "trainctl");
    api.set(easy, CURLOPT_CONNECTTIMEOUT_MS, kConnectTimeoutMs);
    api.set(easy, CURLOPT_TIMEOUT_MS, static_cast<long>(request.timeout_s * 1000) + 1);
    // Does not wait for a pending DNS lookup either.
    api.set(easy, CURLOPT_QUICK_EXIT, 1L);
    api.set(easy, CURLOPT_NOPROGRESS, 0L);
    api.set(easy, CURLOPT_XFERINFOFUNCTION, on_progress);
    api.set(easy, CURLOPT_WRITEFUNCTION, take<append_body>);
    api.set(easy, CURLOPT_WRITEDATA, &receiver);
    api.set(easy, CURLOPT_HEADERFUNCTION, take<add_header>);
    api.set(easy, CURLOPT_HEADERDATA, &receiver);
    if (request.range) api.set(easy, CURLOPT_RANGE, range_text(*request.range).c_str());
    if (request.method.empty()) return;
    ASSERT(!request.signing);  // sigv4_headers() signs a GET without a body
    api.set(easy, CURLOPT_CUSTOMREQUEST, request.method.c_str());
    api.set(easy, CURLOPT_POSTFIELDS, request.body.data());
    api.set(easy, CURLOPT_POSTFIELDSIZE_LARGE, static_cast<curl_off_t>(request.body.size()));
  }

  static void add_headers(CURL* easy, const HttpRequest& request, HeaderList& headers) {
    add("Accept-Encoding: identity", headers);
    if (!request.body.empty()) add("Expect:", headers);  // curl would wait for the server's consent
    for (const std::string& line : request.headers) add(line, headers);
    if (request.signing) {
      for (const std::string& line : sigv4_headers(request, std::time(nullptr))) add(line, headers);
    }
    curl().set(easy, CURLOPT_HTTPHEADER, headers.get());
  }

  Pool<Handle> handles_;
};

std::string utc(std::time_t time, const char* format) {
  std::tm parts{};
  ::gmtime_r(&time, &parts);
  std::string text(32, '\0');
  text.resize(std::strftime(text.data(), text.size(), format, &parts));
  return text;
}

/// The parts of a URL that the signature needs.
struct Target {
  std::string_view host;  // with port
  std::string_view path = "/";
  std::string_view query;

  explicit Target(std::string_view url) {
    url.remove_prefix(url.find("://") + 3);
    host = url.substr(0, url.find_first_of("/?"));
    url.remove_prefix(host.size());
    const std::size_t path_bytes = std::min(url.find('?'), url.size());
    if (path_bytes > 0) path = url.substr(0, path_bytes);
    if (path_bytes < url.size()) query = url.substr(path_bytes + 1);
  }
};

Sha256 signing_key(const Signing& signing, const std::string& day) {
  Sha256 key = hmac_sha256("AWS4" + signing.secret_key, day);
  for (const std::string_view part :
       {std::string_view(signing.region), std::string_view("s3"), std::string_view("aws4_request")})
    key = hmac_sha256(as_text(key), part);
  return key;
}

}  // namespace

std::unique_ptr<HttpClient> curl_client() { return std::make_unique<CurlClient>(); }

std::vector<std::string> sigv4_headers(const HttpRequest& request, std::time_t now) {
  ASSERT(request.signing);
  const Signing& signing = *request.signing;
  const Target target(request.url);
  const std::string time = utc(now, "%Y%m%dT%H%M%SZ");
  const std::string day = time.substr(0, 8);
  const std::string nothing = to_hex(sha256(""));  // the body of a GET is empty

  std::map<std::string, std::string> headers{
      {"host", std::string(target.host)}, {"x-amz-content-sha256", nothing}, {"x-amz-date", time}};
  if (request.range) headers["range"] = "bytes=" + range_text(*request.range);
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

  headers.erase("range");  // the sender of the request adds it
  std::vector<std::string> signed_headers;
  for (const auto& [name, value] : headers) signed_headers.push_back(name + ": " + value);
  signed_headers.push_back(
      fmt::format("authorization: AWS4-HMAC-SHA256 Credential={}/{},SignedHeaders={},Signature={}",
                  signing.access_key, scope, names, to_hex(signature)));
  return signed_headers;
}

}  // namespace trainctl::data
