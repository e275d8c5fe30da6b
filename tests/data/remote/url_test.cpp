#include "base/url.hpp"

#include "data/fakes.hpp"
#include "data/remote/object_store.hpp"
#include "support/catch.hpp"

using namespace trainctl;
using namespace trainctl::data;
using namespace trainctl::data::testing;
using Catch::Matchers::Contains;

TEST_CASE("is_remote: only http, https, s3 and file URLs are remote") {
  for (const char* path : {"http://h/x", "https://h/x", "s3://b/k", "file:///x"})
    CHECK(is_remote(path));
  for (const char* path : {"/data", "data", "ftp://h/x", "http:/h", "a/http://h", ""})
    CHECK_FALSE(is_remote(path));
  CHECK(identity_of("s3://b/a/../k") == "s3://b/a/../k");
  CHECK(identity_of("/a/../k") == "/k");
}

TEST_CASE("parse_url: a URL is split into scheme, host and path") {
  const Url url = parse_url("s3://bucket/a b/c?d");
  CHECK(url.scheme == "s3");
  CHECK(url.host == "bucket");
  CHECK(url.key() == "a b/c?d");
  CHECK(percent_encoded(url.path, "/") == "/a%20b/c%3Fd");
  CHECK(parse_url("http://h:81").path == "/");
  CHECK(parse_url("file:///slow/x").path == "/slow/x");
}

TEST_CASE(
    "parse_url: a URL with credentials or without a host is an error that hides credentials") {
  for (const char* text : {"http://me:hunter2@h/x", "https://h/x?X-Amz-Signature=hunter2"}) {
    const std::string message = failure_of([&] { (void)parse_url(text); });
    CHECK_THAT(message, Contains("dataset.remote") && !Contains("hunter2"));
  }
  CHECK_THAT(failure_of([] { (void)parse_url("http:///x"); }), Contains("has no host"));
  CHECK_THAT(failure_of([] { (void)parse_url("file://slow/x"); }),
             Contains("must have an absolute path after 'file://'"));
}

TEST_CASE("parse_s3_page: names with entities and the continuation token are read") {
  const auto page = parse_s3_page(
      "<?xml version=\"1.0\"?><ListBucketResult xmlns=\"x\"><IsTruncated>true</IsTruncated>"
      "<Contents><Key>a&amp;b/&#x4e;&#228;.jpg</Key><Size>12</Size><ETag>&quot;e1&quot;</ETag></"
      "Contents>"
      "<Contents><Key> "
      "</Key><Size>1</Size></Contents><Contents><Key>z</Key><Size>0</Size></Contents>"
      "<NextContinuationToken>t/1=</NextContinuationToken></ListBucketResult>");
  REQUIRE(page);
  REQUIRE(page->objects.size() == 3);
  CHECK(page->objects[0].name == "a&b/N\xC3\xA4.jpg");
  CHECK(page->objects[0].etag == "e1");
  CHECK(page->objects[1].name == " ");
  CHECK(page->next == "t/1=");
}

TEST_CASE("parse_s3_page: invalid and damaged listings are rejected") {
  const std::string sound =
      "<ListBucketResult><IsTruncated>false</IsTruncated><Contents><Key>a</Key><Size>1</Size>"
      "</Contents></ListBucketResult>";
  REQUIRE(parse_s3_page(sound));
  for (std::size_t length = 0; length < sound.size(); ++length)
    CHECK_FALSE(parse_s3_page(sound.substr(0, length)));
  for (const char* wrong : {"<Size>x</Size>", "<Size>-1</Size>", "<Size></Size>"}) {
    std::string text = sound;
    text.replace(text.find("<Size>"), 14, wrong);
    CHECK_FALSE(parse_s3_page(text));
  }
  std::string endless = sound;
  endless.replace(endless.find("false"), 5, "true");  // but without a token
  CHECK_FALSE(parse_s3_page(endless));
}
