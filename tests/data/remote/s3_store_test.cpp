#include "data/fakes.hpp"
#include "data/remote/object_store.hpp"
#include "data/remote/transfers.hpp"
#include "support/catch.hpp"
#include "support/growth.hpp"

#include <functional>
#include <vector>

using namespace trainctl;
using namespace trainctl::data;
using namespace trainctl::data::testing;
using Catch::Matchers::Contains;

namespace {

using Responses = std::function<HttpResponse(const HttpRequest&, int number)>;

class FakeClient final : public HttpClient {
 public:
  FakeClient(Responses responses, std::vector<HttpRequest>& requests)
      : responses_(std::move(responses)), requests_(requests) {}
  HttpResponse perform(const HttpRequest& request) override {
    requests_.push_back(request);
    return responses_(request, static_cast<int>(requests_.size()) - 1);
  }

 private:
  Responses responses_;
  std::vector<HttpRequest>& requests_;
};

struct Bucket {
  std::vector<HttpRequest> requests;
  std::unique_ptr<ObjectStore> store;

  explicit Bucket(Responses responses, std::size_t most_objects = 1000)
      : store(s3_store(std::make_shared<Transfers>(
                           std::make_unique<FakeClient>(std::move(responses), requests),
                           TransferOptions{.retries = 0}),
                       {"http://host:9000/", "eu-west-1", std::nullopt, most_objects})) {}

  std::vector<ObjectInfo> list() { return store->list(parse_url("s3://bucket/a b/")); }
};

HttpResponse page(const std::vector<std::string>& keys, const std::string& next) {
  std::string xml = "<ListBucketResult>";
  if (!next.empty())
    xml += "<IsTruncated>true</IsTruncated><NextContinuationToken>" + next +
           "</NextContinuationToken>";
  for (const std::string& key : keys)
    xml += "<Contents><Key>" + key + "</Key><Size>1</Size></Contents>";
  xml += "</ListBucketResult>";
  return {200, {{"content-length", std::to_string(xml.size())}}, xml, "", false};
}

}  // namespace

TEST_CASE("S3 listing: pages are joined, and requests are in canonical form") {
  Bucket bucket([](const HttpRequest&, int number) {
    return number == 0 ? page({"a b/1", "a b/2"}, "t/+=") : page({"a b/3"}, "");
  });
  const auto found = bucket.list();
  REQUIRE(found.size() == 3);
  CHECK(found[2].name == "3");
  CHECK(bucket.requests[0].url == "http://host:9000/bucket?list-type=2&prefix=a%20b%2F");
  CHECK(bucket.requests[1].url ==
        "http://host:9000/bucket?continuation-token=t%2F%2B%3D&list-type=2&prefix=a%20b%2F");
}

TEST_CASE("S3 listing: endless pages and repeated names are errors") {
  Bucket endless([](const HttpRequest&, int number) {
    return page({"a b/" + std::to_string(100'000 + number)}, "t" + std::to_string(number));
  });
  CHECK_THAT(failure_of([&] { (void)endless.list(); }), Contains("there are more than"));
  CHECK(endless.requests.size() == 1001);
  Bucket empty(
      [](const HttpRequest&, int number) { return page({}, "t" + std::to_string(number)); });
  CHECK_THAT(failure_of([&] { (void)empty.list(); }), Contains("empty pages in a row"));
  Bucket repeated([](const HttpRequest&, int number) {
    return page({"a b/" + std::to_string(number % 2)}, "t" + std::to_string(number % 2));
  });
  CHECK_THAT(failure_of([&] { (void)repeated.list(); }), Contains("sends names twice or unsorted"));
  CHECK(repeated.requests.size() == 3);
}

TEST_CASE("S3 listing: an invalid response names the server and the option") {
  for (const char* body : {"", "<html>hello</html>", "<ListBucketResult><Contents>"}) {
    Bucket bucket([&](const HttpRequest&, int) {
      return HttpResponse{.status = 200, .body = body, .framed = true};
    });
    CHECK_THAT(failure_of([&] { (void)bucket.list(); }), Contains("dataset.remote.endpoint"));
  }
  Bucket absent([](const HttpRequest&, int) { return HttpResponse{404, {}, "", "", false}; });
  CHECK_THAT(failure_of([&] { (void)absent.list(); }), Contains("bucket 'bucket' does not exist"));
}

TEST_CASE("growth: an S3 listing is linear in its pages and in the objects of a page", "[growth]") {
  const auto listing = [](std::size_t pages, std::size_t objects) {
    const auto respond = [pages, objects](const HttpRequest&, int number) {
      std::vector<std::string> keys;
      for (std::size_t i = 0; i < objects; ++i)
        keys.push_back(fmt::format("a b/{:06}/{:06}.jpg", number, i));
      const auto page_number = static_cast<std::size_t>(number) + 1;
      return page(keys, page_number < pages ? "t" : "");
    };
    return [pages, objects, bucket = std::make_shared<Bucket>(respond, pages * objects)] {
      REQUIRE(bucket->list().size() == pages * objects);
    };
  };
  CHECK(growth_per_doubling([&](std::size_t pages) { return listing(pages, 20); }, 10) <=
        kMostPerDoubling);
  CHECK(growth_per_doubling([&](std::size_t objects) { return listing(1, objects); }, 200) <=
        kMostPerDoubling);
}
