#include "base/error.hpp"
#include "base/strings.hpp"
#include "data/remote/object_stores.hpp"

#include <utility>

namespace trainctl::data {
namespace {

class HttpStore final : public ObjectStore {
 public:
  explicit HttpStore(std::shared_ptr<Transfers> transfers) : transfers_(std::move(transfers)) {}

  std::optional<Piece> read(const Url& url, const ByteRange& range) override {
    HttpRequest request;
    // What is encoded already stays; a name from a list may need it.
    request.url = url.scheme + "://" + url.host + percent_encoded(url.path, "/%:@!$&'()*+,;=");
    return transfers_->read(std::move(request), range, url.text);
  }

  std::vector<ObjectInfo> list(const Url& prefix) override {
    throw Error(
        ErrorKind::config,
        fmt::format("a web server cannot list {}; name the files: image_list, or webdataset "
                    "with a range such as {{000..099}}",
                    printable(prefix.text)));
  }

 private:
  std::shared_ptr<Transfers> transfers_;
};

}  // namespace

std::unique_ptr<ObjectStore> http_store(std::shared_ptr<Transfers> transfers) {
  return std::make_unique<HttpStore>(std::move(transfers));
}

}  // namespace trainctl::data
