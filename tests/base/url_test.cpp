#include "base/url.hpp"

#include "support/catch.hpp"

using namespace trainctl;

TEST_CASE("without_credentials: credentials are masked in any context", "[base]") {
  CHECK(without_credentials("endpoint: http://me:secret@host:9000/x") ==
        "endpoint: http://*********@host:9000/x");
  CHECK(without_credentials("{endpoint: 'http://me:s/e?c@ret@host', retries: 3}") ==
        "{endpoint: 'http://************@host', retries: 3}");
  CHECK(without_credentials("a: https://h/x?sig=1 b: s3://k:p@b/?.tar") ==
        "a: https://h/x?***** b: s3://***@b/?.tar");
}

TEST_CASE("without_userinfo: user and password are masked, and an '@' in a path is kept",
          "[base]") {
  for (const char* text : {"s3://bucket/data@v2/train", "https://host:9000/a@b", "http://h?x=a@b",
                           "http://[::1]:80/a@b", "https://h/a:b@c"})
    CHECK(without_userinfo(text) == text);
  CHECK(without_userinfo("s3://k:p@b/data@v2") == "s3://***@b/data@v2");
  CHECK(without_userinfo("http://token@host/x") == "http://*****@host/x");
  CHECK(without_userinfo("a http://me:p@ss@host/x b") == "a http://*******@host/x b");
  CHECK(without_userinfo("http://me:s/e?c@ret@host/x") == "http://************@host/x");
}

TEST_CASE("without_credentials: a text without credentials is unchanged", "[base]") {
  for (const char* text : {"", "://", "a@b.c", "http://host/a-b.tar me@home", "s3://bucket/a-?.tar",
                           "what? http://host"})
    CHECK(without_credentials(text) == text);
}
