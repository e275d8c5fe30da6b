#include "launch/supervise/verdict.hpp"
#include "support/catch.hpp"
#include "support/put_text.hpp"
#include "support/temp_folder.hpp"

namespace trainctl::launch {

TEST_CASE("error file: it is read back, and damaged files are ignored") {
  const TempFolder folder;
  CHECK_FALSE(read_error_file(folder.path(), 2));
  Error error(ErrorKind::checkpoint, "best.safetensors is cut");
  error.add_frame("checkpoint 'best'");
  write_error_file(folder.path(), 2, error);
  const auto failed = read_error_file(folder.path(), 2);
  REQUIRE(failed);
  CHECK(failed->kind == 10);
  CHECK(failed->message == "checkpoint 'best': best.safetensors is cut");
  for (const char* text : {"", "{", "[]", "{\"kind\":\"9\",\"message\":\"x\"}", "{\"kind\":9}"}) {
    put_text(folder / "rank_2.error.json", text);
    CHECK_FALSE(read_error_file(folder.path(), 2));
  }
  remove_error_file(folder.path(), 2);
  CHECK(std::filesystem::is_empty(folder.path()));
}

TEST_CASE("log_tail: returns the last twenty lines in printable form") {
  const TempFolder folder;
  const auto log = folder / "rank_0.log";
  CHECK(log_tail(log).empty());
  std::string text;
  for (int i = 1; i <= 5000; ++i) text += "line " + std::to_string(i) + "\n";
  put_text(log, text + "\x1b[31mred");
  const std::string tail = log_tail(log);
  CHECK(tail.starts_with("line 4982\n"));
  CHECK(tail.ends_with("line 5000\n\\x1b[31mred"));
  put_text(log, std::string(100'000, 'x'));
  CHECK(log_tail(log).size() <= 16 << 10);
  CHECK(log_tail(folder.path()).empty());
}

}  // namespace trainctl::launch
