#include "study/preflight/named_weights.hpp"

#include "base/error.hpp"
#include "support/catch.hpp"
#include "support/put_text.hpp"
#include "support/temp_folder.hpp"

using namespace trainctl;
using namespace trainctl::study;

namespace {

/// A server with one answer, which counts the requests.
class OneAnswer final : public data::HttpClient {
 public:
  OneAnswer(data::HttpResponse answer, std::vector<std::string>& urls)
      : answer_(std::move(answer)), urls_(urls) {}
  data::HttpResponse perform(const data::HttpRequest& request) override {
    urls_.push_back(request.url);
    return answer_;
  }

 private:
  data::HttpResponse answer_;
  std::vector<std::string>& urls_;
};

struct Server {
  data::HttpResponse answer{200, {}, "abc", "", false};
  std::vector<std::string> urls = {};
  TempFolder folder;

  WeightsSource source() {
    return {"http://mirror/models", folder / "weights",
            [this] { return std::make_unique<OneAnswer>(answer, urls); }};
  }
};

constexpr NamedWeights kAbc{"net.V1", "net-ba7816bf.pth"};  // sha256sum of "abc"

}  // namespace

TEST_CASE("named weights: are downloaded once, and again if the kept file is damaged") {
  Server server;
  CHECK(kept_weights(kAbc, server.source()).empty());
  const fs::path file = fetch_weights(kAbc, server.source());
  CHECK(file == server.folder / "weights/net-ba7816bf.pth");
  CHECK(read_file(file, 100, ReadFailure::resource) == "abc");
  CHECK(fetch_weights(kAbc, server.source()) == file);
  CHECK(server.urls == std::vector<std::string>{"http://mirror/models/net-ba7816bf.pth"});
  put_text(file, "ab");
  CHECK(kept_weights(kAbc, server.source()).empty());
  CHECK(fetch_weights(kAbc, server.source()) == file);
  CHECK(server.urls.size() == 2);
}

TEST_CASE("named weights: another file than the hash in its name is refused and not kept") {
  Server server;
  server.answer.body = "abd";
  CHECK_THROWS_WITH(
      fetch_weights(kAbc, server.source()),
      Contains("its name says that it begins with ba7816bf") && Contains("TRAINCTL_WEIGHTS_URL"));
  CHECK_FALSE(is_file(server.folder / "weights/net-ba7816bf.pth"));
}

TEST_CASE("named weights: without a network the error says where the file belongs") {
  Server server;
  server.answer = {0, {}, "", "Could not resolve host: mirror", false};
  try {
    fetch_weights(kAbc, server.source());
    FAIL("nothing was thrown");
  } catch (const Error& error) {
    CHECK(error.kind() == ErrorKind::resource);
    CHECK_THAT(error.what(), Contains("Could not resolve host") &&
                                 Contains((server.folder / "weights/net-ba7816bf.pth").string()));
  }
  server.answer = {404, {}, "", "", false};
  CHECK_THROWS_WITH(fetch_weights(kAbc, server.source()), Contains("status 404"));
}

TEST_CASE("named weights: an unknown name suggests the nearest, and other paths are files") {
  CHECK(weights_called("torchvision/resnet50.IMAGENET1K_V2").file == "resnet50-11ad3fa6.pth");
  CHECK_THROWS_WITH(weights_called("torchvision/resnet18.IMAGENET1K_V2"),
                    Contains("use 'torchvision/resnet18.IMAGENET1K_V1'"));
  CHECK_THROWS_WITH(weights_called("torchvision/alexnet"), Contains("the names are resnet18"));
  CHECK_FALSE(is_weights_name("/data/torchvision/resnet18.pth"));
  CHECK(local_weights("/data/net.pth") == "/data/net.pth");
}
