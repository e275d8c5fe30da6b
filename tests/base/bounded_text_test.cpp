#include "base/error.hpp"
#include "base/strings.hpp"
#include "support/catch.hpp"

#include <string>

using namespace trainctl;

TEST_CASE("with_reference: the reference is placed before the hint") {
  CHECK(with_reference("cannot read a", "/runs/1") == "cannot read a; see /runs/1");
  CHECK(with_reference("these changed:\n  a: 1 -> 2\nhint: set them back", "/runs/1") ==
        "these changed:\n  a: 1 -> 2; see /runs/1\nhint: set them back");
}

TEST_CASE("bounded: ordinary messages are unchanged, with any number of lines") {
  CHECK(bounded("lr must be above 0, got -1").size() == 26);
  std::string lines;
  for (int i = 0; i < 100; ++i) lines.append(99, 'x').push_back('\n');
  CHECK(bounded(lines) == lines);
}

TEST_CASE("bounded: a long line keeps its start and end and states its length") {
  const std::string message = "unknown key '" + std::string(1'000'000, 'k') + "' in 'adam'";
  const std::string text = bounded("first\n" + message + "\nlast");
  CHECK(text.size() < 1700);
  CHECK_THAT(text, StartsWith("first\nunknown key 'kkk") &&
                       Contains("kkk... (1,000,024 characters) ...kkk") &&
                       EndsWith("kkk' in 'adam'\nlast"));
}

TEST_CASE("bounded: the length is counted in characters, and no character is split") {
  std::string text = "x";
  for (int i = 0; i < 3000; ++i) text += "é";
  const std::string cut = bounded(text);
  CHECK_THAT(cut, Contains("é... (3,001 characters) ...é"));
  CHECK(bounded(std::string(5000, '\xA9')).size() < 1700);
}

TEST_CASE("Error: message and frames are bounded") {
  Error error(ErrorKind::data, "bad value '" + std::string(100'000, 'v') + "'");
  error.add_frame(std::string(100'000, 'f'));
  CHECK(error.message().size() < 1700);
  CHECK(std::string(error.what()).size() < 3400);
}

TEST_CASE("printable_lines: line breaks are kept, and other control bytes are escaped") {
  CHECK(printable_lines("a:\n  b\x1b[2J\nhint: c") == "a:\n  b\\x1b[2J\nhint: c");
  CHECK(printable_lines("a\nb\n", "  ") == "a\n  b\n  ");
  CHECK(printable_lines("") == "");
}

TEST_CASE("one_line: the lines of a message are separated by semicolons") {
  CHECK(one_line("these changed:\n  a: 1 -> 2\n  b\x1b\nhint: set them back\n") ==
        "these changed: a: 1 -> 2; b\\x1b; hint: set them back");
  CHECK(one_line("\n") == "");
}

TEST_CASE("with_prefix: a message that begins with the prefix gets no second one") {
  CHECK(with_prefix("freeze", "'a' names nothing") == "freeze: 'a' names nothing");
  CHECK(with_prefix("freeze", "freeze: 'a' names nothing") == "freeze: 'a' names nothing");
  CHECK(with_prefix("optimizer", "optimizer 'adam': lr") == "optimizer 'adam': lr");
  CHECK(with_prefix("optimizer", "optimizers differ") == "optimizer: optimizers differ");
  Error error(ErrorKind::config, "lr must be above 0");
  for (const char* frame : {"optimizer 'adam'", "optimizer 'adam'", "optimizer"})
    error.add_frame(frame);
  CHECK(std::string(error.what()) == "optimizer 'adam': lr must be above 0");
}
