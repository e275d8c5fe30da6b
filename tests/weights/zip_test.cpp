#include "archives.hpp"
#include "base/error.hpp"
#include "support/catch.hpp"
#include "weights/torch_file.hpp"

using namespace trainctl;
using namespace trainctl::weights;
using namespace trainctl::weights::testing;

namespace {

std::string zip_error(const std::string& archive) {
  try {
    for (const ZipEntry& entry : zip_entries(bytes_of(archive))) check_crc(entry);
  } catch (const Error& error) {
    CHECK(error.kind() == ErrorKind::checkpoint);
    return error.what();
  }
  return "accepted";
}

std::string changed(std::string archive, std::size_t at, const std::string& by) {
  return archive.replace(at, by.size(), by);
}

const std::string kValid = zip_of({{"a/x", "12345"}, {"a/empty", ""}, {"a/y", "678"}});

}  // namespace

TEST_CASE("zip_entries: the names and contents of all files are found") {
  const auto entries = zip_entries(bytes_of(kValid));
  REQUIRE(entries.size() == 3);
  CHECK(entries[0].name == "a/x");
  CHECK(entries[1].bytes.empty());
  CHECK(entries[2].bytes.size() == 3);
  CHECK(std::to_integer<char>(entries[2].bytes[0]) == '6');
  CHECK(zip_entries(bytes_of(zip_of({}))).empty());
  CHECK(zip_error(kValid) == "accepted");
}

TEST_CASE("zip_entries: a comment after the archive is ignored") {
  const std::string comment = std::string("PK\x05\x06") + std::string(40, 'c');
  std::string archive = kValid;
  archive.replace(archive.size() - 2, 2, number(comment.size(), 2));
  CHECK(zip_entries(bytes_of(archive + comment)).size() == 3);
  CHECK_THAT(zip_error(kValid + "c"), Contains("its table of contents is missing"));
}

TEST_CASE("zip_entries: invalid archives are errors that name the cause") {
  const std::size_t directory = kValid.find("PK\x01\x02");
  CHECK_THAT(zip_error(""), Contains("not a ZIP archive"));
  CHECK_THAT(zip_error(changed(kValid, kValid.find("12345"), "12346")),
             Contains("'a/x'") && Contains("damaged"));
  CHECK_THAT(zip_error(changed(kValid, directory + 8, number(1, 2))), Contains("encrypted"));
  CHECK_THAT(zip_error(changed(kValid, directory + 10, number(8, 2))), Contains("compressed"));
  CHECK_THAT(zip_error(changed(kValid, directory + 42, number(7, 4))),
             Contains("points to byte 7"));
  CHECK_THAT(zip_error(changed(kValid, directory + 46, "b/x")), Contains("another name"));
  CHECK_THAT(zip_error(changed(kValid, directory + 20, number(9'999, 4) + number(9'999, 4))),
             Contains("truncated"));
  CHECK_THAT(zip_error(changed(kValid, kValid.size() - 14, number(9, 2) + number(9, 2))),
             Contains("split ZIP archive") || Contains("too few for 9 files"));
  CHECK_THAT(zip_error(zip_of({{"a", "1"}, {"a", "2"}})), Contains("two files 'a'"));
}

TEST_CASE("zip_entries: files that share bytes are rejected as a ZIP bomb") {
  const std::string archive = zip_of({{"abc", std::string(100, 'x')}, {"abd", ""}});
  const std::size_t second = archive.find("PK\x01\x02", archive.find("PK\x01\x02") + 4);
  std::string bomb = changed(archive, second + 42, number(0, 4));
  bomb = changed(bomb, second + 20, number(100, 4) + number(100, 4));
  CHECK_THAT(zip_error(bomb), Contains("another name"));
  CHECK_THAT(zip_error(changed(bomb, second + 46, "abc")), Contains("two files"));
}

TEST_CASE("zip_entries: an archive truncated at any byte is rejected") {
  for (std::size_t size = 0; size < kValid.size(); ++size) {
    CAPTURE(size);
    CHECK(zip_error(kValid.substr(0, size)) != "accepted");
  }
}
