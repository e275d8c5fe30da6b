#include "base/strings.hpp"
#include "launch/rendezvous/rendezvous.hpp"
#include "launch/rendezvous_peers.hpp"
#include "support/catch.hpp"
#include "support/put_text.hpp"
#include "support/temp_folder.hpp"

#include <sys/stat.h>

#include <cctype>

namespace trainctl::launch {
namespace {

std::string reason_of(const fs::path& path) {
  const Error error = thrown_by([&] { read_token_file(path); });
  CHECK(error.kind() == ErrorKind::config);
  CHECK_THAT(error.what(), Contains(path.filename().string()));
  return error.what();
}

}  // namespace

TEST_CASE("parse_token: reads the output of token_digits, and each token is different") {
  const Token token = make_token();
  CHECK(token != make_token());
  const std::string digits = token_digits(token);
  CHECK(digits.size() == 64);
  CHECK(parse_token(digits, "here") == token);
  CHECK(parse_token("  " + digits + "\r\n", "here") == token);
  std::string upper = digits;
  for (char& c : upper) c = static_cast<char>(std::toupper(static_cast<unsigned char>(c)));
  CHECK(parse_token(upper, "here") == token);
}

TEST_CASE("parse_token: the error for an invalid token does not quote it") {
  const std::string digits = token_digits(token_of(0xAB));
  for (const std::string& text :
       {std::string(), digits.substr(1), digits + "a", digits.substr(1) + "g", "0x" + digits}) {
    const Error error = thrown_by([&] { parse_token(text, "TRAINCTL_RDZV_TOKEN"); });
    CHECK(error.kind() == ErrorKind::config);
    CHECK_THAT(error.what(), Contains("TRAINCTL_RDZV_TOKEN"));
    CHECK_THAT(error.what(), !Contains("abab"));
  }
}

TEST_CASE("read_token_file: other files, and files that others can read, are rejected") {
  const TempFolder folder;
  put_text(folder / "own", token_digits(token_of(1)));
  REQUIRE(::chmod((folder / "own").c_str(), 0600) == 0);
  CHECK(read_token_file(folder / "own") == token_of(1));
  CHECK_THAT(reason_of(folder / "nothing"), Contains("No such file"));
  CHECK_THAT(reason_of(folder.path()), Contains("not a regular file"));
  REQUIRE(::mkfifo((folder / "pipe").c_str(), 0600) == 0);
  CHECK_THAT(reason_of(folder / "pipe"), Contains("not a regular file"));
  for (const mode_t mode : {0640U, 0604U, 0620U, 0602U, 0644U}) {
    put_text(folder / "open", token_digits(token_of(1)));
    REQUIRE(::chmod((folder / "open").c_str(), mode) == 0);
    CHECK_THAT(reason_of(folder / "open"), Contains("chmod 600"));
  }
  put_text(folder / "long", std::string(100'000, 'a'));
  REQUIRE(::chmod((folder / "long").c_str(), 0600) == 0);
  CHECK_THAT(reason_of(folder / "long"), Contains("not a token file"));
  put_text(folder / "short", "abc\n");
  REQUIRE(::chmod((folder / "short").c_str(), 0600) == 0);
  CHECK_THAT(reason_of(folder / "short"), Contains("3 characters"));
}

}  // namespace trainctl::launch
