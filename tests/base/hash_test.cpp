#include "base/hash.hpp"

#include "support/catch.hpp"

using namespace trainctl;

TEST_CASE("the digest is XXH3-64 and does not depend on how the bytes are cut") {
  Hasher whole;
  whole.add(std::string_view("hello world"));
  Hasher parts;
  parts.add(std::string_view("hello "));
  parts.add(std::string_view("world"));
  CHECK(whole.hex() == parts.hex());
  CHECK(Hasher().hex() == "2d06800538d394c2");  // XXH3-64 of no bytes, from xxHash's documentation
}
