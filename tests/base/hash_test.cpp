#include "base/hash.hpp"

#include "support/catch.hpp"

using namespace trainctl;

TEST_CASE("Hasher: the digest is XXH3-64 and does not depend on how the data is split") {
  Hasher whole;
  whole.add(std::string_view("hello world"));
  Hasher parts;
  parts.add(std::string_view("hello "));
  parts.add(std::string_view("world"));
  CHECK(whole.hex() == parts.hex());
  // xxHash's documentation has this XXH3-64 of an empty input.
  CHECK(Hasher().hex() == "2d06800538d394c2");
}
