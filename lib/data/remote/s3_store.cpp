#include "base/error.hpp"
#include "base/strings.hpp"
#include "data/remote/object_stores.hpp"

#include <utility>

namespace trainctl::data {
namespace {

constexpr std::size_t kMostEmptyPages = 1000;

class S3Store final : public ObjectStore {
 public:
  S3Store(std::shared_ptr<Transfers> transfers, S3Options options)
      : transfers_(std::move(transfers)), options_(std::move(options)) {
    if (options_.endpoint.empty())
      options_.endpoint = fmt::format("https://s3.{}.amazonaws.com", options_.region);
    while (options_.endpoint.ends_with('/')) options_.endpoint.pop_back();
  }

  std::optional<Piece> read(const Url& url, const ByteRange& range) override {
    HttpRequest request = request_of(url);
    request.url += percent_encoded(url.path, "/");
    return transfers_->read(std::move(request), range, url.text);
  }

  std::vector<ObjectInfo> list(const Url& prefix) override {
    std::vector<ObjectInfo> found;
    std::string token;
    std::size_t empty_pages = 0;
    do {
      S3Page page = read_page(prefix, token);
      empty_pages = page.objects.empty() ? empty_pages + 1 : 0;
      for (ObjectInfo& object : page.objects) {
        if (!object.name.starts_with(prefix.key())) continue;
        object.name.erase(0, prefix.key().size());
        // S3 sorts by the bytes of the key.
        ENSURE(data, found.empty() || found.back().name < object.name,
               "the server lists {} in a circle or out of order; check dataset.remote.endpoint",
               printable(prefix.text));
        found.push_back(std::move(object));
      }
      ENSURE(data, found.size() <= options_.most_objects && empty_pages <= kMostEmptyPages,
             "the list of {} does not end: {} objects so far, at most {} are taken; name a folder "
             "with fewer",
             printable(prefix.text), found.size(), options_.most_objects);
      token = page.next;
    } while (!token.empty());
    return found;
  }

 private:
  [[nodiscard]] HttpRequest request_of(const Url& url) const {
    HttpRequest request;
    request.url = options_.endpoint + "/" + percent_encoded(url.host, "");
    request.signing = options_.signing;
    return request;
  }

  S3Page read_page(const Url& prefix, const std::string& token) {
    HttpRequest request = request_of(prefix);
    // In alphabetical order, as the signature wants it.
    request.url += token.empty() ? "?" : "?continuation-token=" + percent_encoded(token, "") + "&";
    request.url += "list-type=2&prefix=" + percent_encoded(prefix.key(), "");
    const auto answer = transfers_->get(std::move(request), prefix.text);
    ENSURE(data, answer,
           "there is no bucket '{}' at {}; correct the path or dataset.remote.endpoint",
           printable(prefix.host), printable(options_.endpoint));
    std::optional<S3Page> page = parse_s3_page(*answer);
    ENSURE(data, page,
           "{} gives no S3 list of {}; dataset.remote.endpoint must be the address of an S3 server",
           printable(options_.endpoint), printable(prefix.text));
    return *std::move(page);
  }

  std::shared_ptr<Transfers> transfers_;
  S3Options options_;
};

}  // namespace

std::unique_ptr<ObjectStore> s3_store(std::shared_ptr<Transfers> transfers, S3Options options) {
  return std::make_unique<S3Store>(std::move(transfers), std::move(options));
}

}  // namespace trainctl::data
