#include "base/hash.hpp"
#include "support/catch.hpp"

using namespace trainctl;

// These are examples of FIPS 180-4 (NIST's "SHA256.pdf"); the long message is from its previous
// version.
TEST_CASE("sha256: the digests equal the published examples") {
  CHECK(to_hex(sha256("")) == "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
  CHECK(to_hex(sha256("abc")) ==
        "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
  CHECK(to_hex(sha256("abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq")) ==
        "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1");
  CHECK(to_hex(sha256(std::string(1'000'000, 'a'))) ==
        "cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0");
}

TEST_CASE("sha256: every length of the last block is correct") {
  std::string digests;
  for (std::size_t length = 0; length < 200; ++length)
    digests += as_text(sha256(std::string(length, 'a')));
  // The expected digest was computed with Python's hashlib.
  CHECK(to_hex(sha256(digests)) ==
        "752c007f38611cfbf5fa42cb1cea3d8e086491c844d0cc4defd632cb81423506");
}

TEST_CASE("Sha256Stream: the digest does not depend on how the text is split") {
  const std::string text(1000, 'x');
  for (const std::size_t part : {1, 7, 63, 64, 65, 200, 999, 1000}) {
    Sha256Stream stream;
    for (std::size_t at = 0; at < text.size(); at += part)
      stream.add(std::string_view(text).substr(at, part));
    stream.add("");
    CHECK(stream.finish() == sha256(text));
  }
}

// These are test cases 1, 2 and 6 of RFC 4231.
TEST_CASE("hmac_sha256: the codes equal the published examples") {
  CHECK(to_hex(hmac_sha256(std::string(20, '\x0b'), "Hi There")) ==
        "b0344c61d8db38535ca8afceaf0bf12b881dc200c9833da726e9376c2e32cff7");
  CHECK(to_hex(hmac_sha256("Jefe", "what do ya want for nothing?")) ==
        "5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843");
  CHECK(to_hex(hmac_sha256(std::string(131, '\xaa'),
                           "Test Using Larger Than Block-Size Key - Hash Key First")) ==
        "60e431591ee0b67f0d8a26aacbf5b77f8e0bc6213728c5140546040f0ee37f54");
}
