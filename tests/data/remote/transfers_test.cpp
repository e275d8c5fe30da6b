#include "data/remote/transfers.hpp"

#include "data/core/run_control.hpp"
#include "data/fakes.hpp"
#include "support/catch.hpp"

#include <atomic>
#include <chrono>
#include <deque>
#include <stop_token>
#include <thread>
#include <vector>

using namespace trainctl;
using namespace trainctl::data;
using namespace trainctl::data::testing;
using Catch::Matchers::Contains;

namespace {

/// Returns the responses in order and repeats the last one.
class Script final : public HttpClient {
 public:
  explicit Script(std::deque<HttpResponse> responses, int& requests)
      : responses_(std::move(responses)), requests_(requests) {}
  HttpResponse perform(const HttpRequest&) override {
    ++requests_;
    HttpResponse response = responses_.front();
    if (responses_.size() > 1) responses_.pop_front();
    return response;
  }

 private:
  std::deque<HttpResponse> responses_;
  int& requests_;
};

struct Scripted {
  int requests = 0;
  std::vector<double> pauses;
  Transfers transfers;

  explicit Scripted(std::deque<HttpResponse> responses, int retries = 3)
      : transfers(std::make_unique<Script>(std::move(responses), requests),
                  {.retries = retries, .sleep = [this](double s) { pauses.push_back(s); }}) {}

  std::optional<ObjectPart> read(ByteRange range) {
    return transfers.read({}, range, "http://h/x");
  }
};

HttpResponse part(std::string body, const std::string& range) {
  return {
      206, {{"content-range", "bytes " + range}, {"etag", "\"e\""}}, std::move(body), "", false};
}
HttpResponse status(int code) { return {code, {}, "error", "", false}; }
HttpResponse broken(const std::string& cause) { return {0, {}, "01", cause, false}; }

}  // namespace

TEST_CASE("Transfers: a part of an object has its bytes, total size and etag") {
  const auto piece = Scripted({part("234", "2-4/10")}).read({2, 3});
  REQUIRE(piece);
  CHECK(piece->bytes == "234");
  CHECK(piece->total == 10);
  CHECK(piece->etag == "e");
}

TEST_CASE("Transfers: a range beyond the end of the object is not an error") {
  CHECK(Scripted({part("89", "8-9/10")}).read({8, 100})->bytes == "89");
  HttpResponse none = part("", "*/10");
  none.status = 416;
  none.body = "an error page";
  const auto piece = Scripted({none}).read({10, 5});
  CHECK(piece->bytes.empty());
  CHECK(piece->total == 10);
  HttpResponse whole{200, {{"content-length", "10"}}, "0123456789", "", false};
  CHECK(Scripted({whole}).read({0, 100})->total == 10);
}

TEST_CASE("Transfers: transient errors are retried with growing pauses") {
  for (const HttpResponse& fault :
       {status(500), status(503), status(429), status(408), broken("connection reset"),
        part("23", "2-4/10"), part("012", "0-2/10"), part("234", "2-4/"),
        HttpResponse{206, {}, "234", "", false},
        HttpResponse{200, {{"content-length", "10"}}, "0123456789", "", false}}) {
    Scripted scripted({fault, fault, part("234", "2-4/10")});
    CHECK(scripted.read({2, 3})->bytes == "234");
    CHECK(scripted.requests == 3);
    REQUIRE(scripted.pauses.size() == 2);
    CHECK(scripted.pauses[0] >= 0.1);
    CHECK(scripted.pauses[1] <= 0.5);
  }
}

TEST_CASE("Transfers: Retry-After is respected") {
  HttpResponse busy = status(503);
  busy.headers["retry-after"] = "7";
  Scripted scripted({busy, part("234", "2-4/10")});
  CHECK(scripted.read({2, 3})->bytes == "234");
  CHECK(scripted.pauses == std::vector<double>{7});
}

TEST_CASE("Transfers: a persistent error reports its cause and the number of attempts") {
  Scripted scripted({broken("Connection refused")});
  try {
    (void)scripted.read({2, 3});
    FAIL("nothing was thrown");
  } catch (const Error& error) {
    CHECK(error.kind() == ErrorKind::resource);
    CHECK_THAT(error.message(),
               Contains("cannot read http://h/x: Connection refused") && Contains("(4 attempts)"));
  }
  CHECK(scripted.requests == 4);
}

TEST_CASE("Transfers: permanent errors are not retried") {
  for (const int code : {401, 403, 400, 301}) {
    Scripted scripted({status(code)});
    try {
      (void)scripted.read({2, 3});
      FAIL("nothing was thrown");
    } catch (const Error& error) {
      CHECK(error.kind() == ErrorKind::data);
      CHECK_THAT(error.message(), Contains(std::to_string(code)) && Contains("http://h/x"));
    }
    CHECK(scripted.requests == 1);
  }
  HttpResponse redirects = broken("the server redirects more than 5 times");
  redirects.permanent = true;
  Scripted redirected({redirects});
  CHECK_THAT(failure_of([&] {
               (void)redirected.read({2, 3});
             }),
             Contains("redirects more than 5 times") && Contains("http://h/x"));
  CHECK(redirected.requests == 1);
  CHECK_FALSE(Scripted({status(404)}).read({2, 3}));
  HttpResponse endless{200, {}, "0123456789", "aborted", true};
  CHECK_THAT(failure_of([&] {
               (void)Scripted({endless}).read({2, 3});
             }),
             Contains("range requests"));
}

TEST_CASE("Transfers: a response without a length or chunks is an error") {
  const HttpResponse endless{200, {}, "0123456789", "", false};
  Scripted scripted({endless});
  CHECK_THAT(failure_of([&] { (void)scripted.read({0, 100}); }), Contains("may be truncated"));
  CHECK(scripted.requests == 4);
  CHECK_THAT(failure_of([&] { (void)Scripted({endless}).transfers.get({}, "http://h/x"); }),
             Contains("may be truncated"));
  HttpResponse chunked = endless;
  chunked.headers["transfer-encoding"] = "gzip, chunked";
  CHECK(Scripted({chunked}).read({0, 100})->bytes == "0123456789");
  HttpResponse framed = endless;
  framed.framed = true;
  CHECK(Scripted({framed}).read({0, 100})->bytes == "0123456789");
  CHECK(Scripted({endless, chunked}).read({0, 100})->bytes == "0123456789");
}

TEST_CASE("Transfers: an access error with a long body is reported as such") {
  HttpResponse forbidden = status(403);
  forbidden.too_long = true;
  CHECK_THAT(failure_of([&] { (void)Scripted({forbidden}).read({2, 3}); }), Contains("(HTTP 403)"));
}

TEST_CASE("Transfers: compressed responses are errors") {
  HttpResponse compressed = part("234", "2-4/10");
  compressed.headers["content-encoding"] = "gzip";
  Scripted scripted({compressed});
  CHECK_THAT(failure_of([&] {
               (void)scripted.read({2, 3});
             }),
             StartsWith("9: ") && Contains("http://h/x compressed (gzip)"));
  CHECK(scripted.requests == 1);
  CHECK(Scripted({compressed}).transfers.read({}, {2, 3}, "http://h/x.gz")->bytes == "234");
  compressed.headers["content-encoding"] = "identity";
  CHECK(Scripted({compressed}).read({2, 3})->bytes == "234");
}

TEST_CASE("Transfers: a stop request ends a pause and prevents further requests") {
  std::stop_source source;
  const StopScope scope(source.get_token());
  int requests = 0;
  HttpResponse busy = status(503);
  std::atomic<bool> waits = false;
  const TransferOptions defaults;
  Transfers transfers(std::make_unique<Script>(std::deque<HttpResponse>{busy}, requests),
                      {.retries = 1000, .sleep = [&](double) {
                         waits = true;
                         waits.notify_all();
                         defaults.sleep(600);
                       }});
  std::jthread stopper([&] {
    waits.wait(false);
    std::this_thread::sleep_for(std::chrono::milliseconds(100));
    source.request_stop();
  });
  const auto begin = std::chrono::steady_clock::now();
  const auto read = [&] { (void)transfers.read({}, {0, 4}, "http://h/x"); };
  CHECK_THAT(failure_of(read), StartsWith("143: "));
  CHECK(std::chrono::steady_clock::now() - begin < std::chrono::seconds(60));
  const int before = requests;
  CHECK_THAT(failure_of(read), StartsWith("143: "));
  CHECK(requests == before);
}
