#include "base/url.hpp"

#include "support/catch.hpp"

using namespace trainctl;

TEST_CASE("credentials in a text are covered, whatever stands around them", "[base]") {
  CHECK(without_credentials("endpoint: http://me:secret@host:9000/x") ==
        "endpoint: http://*********@host:9000/x");
  CHECK(without_credentials("{endpoint: 'http://me:s/e?c@ret@host', retries: 3}") ==
        "{endpoint: 'http://************@host', retries: 3}");
  CHECK(without_credentials("a: https://h/x?sig=1 b: s3://k:p@b/?.tar") ==
        "a: https://h/x?***** b: s3://***@b/?.tar");
}

TEST_CASE("a text without credentials stays", "[base]") {
  for (const char* text : {"", "://", "a@b.c", "http://host/a-b.tar me@home", "s3://bucket/a-?.tar",
                           "what? http://host"})
    CHECK(without_credentials(text) == text);
}
