#include "base/strings.hpp"

#include "support/catch.hpp"

using namespace trainctl;

TEST_CASE("nearest: a typo finds the intended word") {
  const std::vector<std::string> words{"lr", "betas", "eps", "weight_decay", "momentum"};
  CHECK(nearest("momentun", words) == "momentum");
  CHECK(nearest("wieght_decay", words) == "weight_decay");
  CHECK(nearest("color", words) == std::nullopt);
  CHECK(edit_distance("ab", "ba") == 1);
}

TEST_CASE("printable: control bytes and invalid UTF-8 are escaped") {
  CHECK(printable("plain \xc3\xa4") == "plain \xc3\xa4");
  CHECK(printable("a\x1b[2Jb\n") == "a\\x1b[2Jb\\x0a");
  CHECK(printable("\xff\xc0\xaf") == "\\xff\\xc0\\xaf");
  CHECK(printable("\xc2\x9b") == "\\xc2\\x9b");
}

TEST_CASE("printable: bidirectional control characters are escaped, letters are not") {
  CHECK(printable("a\u202Eb") == "a\\xe2\\x80\\xaeb");
  CHECK(printable("\u2066\u200F") == "\\xe2\\x81\\xa6\\xe2\\x80\\x8f");
  CHECK(printable("\u05D0\u2026") == "\u05D0\u2026");
}

TEST_CASE("number format: counts, durations and sizes are readable") {
  CHECK(with_thousands(1234567) == "1,234,567");
  CHECK(with_thousands(-1234) == "-1,234");
  CHECK(with_thousands(7) == "7");
  CHECK(human_duration(0.0123) == "12.3 ms");
  CHECK(human_duration(72) == "1 min 12 s");
  CHECK(human_duration(7380) == "2 h 03 min");
  CHECK(human_bytes(1536) == "1.5 KiB");
}

TEST_CASE("utf8_length: it is the number of bytes, and 0 for an invalid character") {
  CHECK(utf8_length("a") == 1);
  CHECK(utf8_length("\xC3\xA9t\xC3\xA9") == 2);
  CHECK(utf8_length("\xE2\x82\xAC") == 3);
  CHECK(utf8_length("\xE2\x82") == 0);
  CHECK(utf8_length("\xC0\x80") == 0);
}

TEST_CASE("utf8_start: characters stay whole") {
  CHECK(utf8_start("plain", 5) == "plain");
  CHECK(utf8_start("plain", 3) == "pla");
  CHECK(utf8_start("a\xE2\x82\xAC", 4) == "a\xE2\x82\xAC");
  CHECK(utf8_start("a\xE2\x82\xAC"
                   "b",
                   3) == "a");
  CHECK(utf8_start("\xE2\x82\xAC", 2).empty());
}

TEST_CASE("shell_word: a word is quoted only if necessary") {
  CHECK(shell_word("optimizer.lr=0.1,1e-3") == "optimizer.lr=0.1,1e-3");
  CHECK(shell_word("~early_stopping") == "'~early_stopping'");
  CHECK(shell_word("my runs/a b") == "'my runs/a b'");
  CHECK(shell_word("it's") == "'it'\\''s'");
  CHECK(shell_word("$(x)") == "'$(x)'");
  CHECK(shell_word("") == "''");
}
