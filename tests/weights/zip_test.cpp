#include "weights/zip.hpp"

#include "archives.hpp"
#include "base/error.hpp"
#include "support/catch.hpp"

using namespace trainctl;
using namespace trainctl::weights;
using namespace trainctl::weights::testing;

namespace {

std::string complaint(const std::string& archive) {
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

const std::string kSound = zip_of({{"a/x", "12345"}, {"a/empty", ""}, {"a/y", "678"}});

}  // namespace

TEST_CASE("the files of an archive are found where they lie") {
  const auto entries = zip_entries(bytes_of(kSound));
  REQUIRE(entries.size() == 3);
  CHECK(entries[0].name == "a/x");
  CHECK(entries[1].bytes.empty());
  CHECK(entries[2].bytes.size() == 3);
  CHECK(std::to_integer<char>(entries[2].bytes[0]) == '6');
  CHECK(zip_entries(bytes_of(zip_of({}))).empty());
  CHECK(complaint(kSound) == "accepted");
}

TEST_CASE("a comment after an archive is ignored") {
  const std::string comment = std::string("PK\x05\x06") + std::string(40, 'c');
  std::string archive = kSound;
  archive.replace(archive.size() - 2, 2, number(comment.size(), 2));
  CHECK(zip_entries(bytes_of(archive + comment)).size() == 3);
  CHECK_THAT(complaint(kSound + "c"), Contains("no directory at its end"));
}

TEST_CASE("what no sound writer writes is refused with the reason") {
  const std::size_t directory = kSound.find("PK\x01\x02");
  CHECK_THAT(complaint(""), Contains("not a ZIP archive"));
  CHECK_THAT(complaint(changed(kSound, kSound.find("12345"), "12346")),
             Contains("'a/x'") && Contains("damaged"));
  CHECK_THAT(complaint(changed(kSound, directory + 8, number(1, 2))), Contains("encrypted"));
  CHECK_THAT(complaint(changed(kSound, directory + 10, number(8, 2))), Contains("compressed"));
  CHECK_THAT(complaint(changed(kSound, directory + 42, number(7, 4))), Contains("not at byte 7"));
  CHECK_THAT(complaint(changed(kSound, directory + 46, "b/x")), Contains("another name"));
  CHECK_THAT(complaint(changed(kSound, directory + 20, number(9'999, 4) + number(9'999, 4))),
             Contains("truncated"));
  CHECK_THAT(complaint(changed(kSound, kSound.size() - 14, number(9, 2) + number(9, 2))),
             Contains("split archive") || Contains("does not fit"));
  CHECK_THAT(complaint(zip_of({{"a", "1"}, {"a", "2"}})), Contains("two files 'a'"));
}

TEST_CASE("files that share their bytes are a bomb") {
  const std::string archive = zip_of({{"abc", std::string(100, 'x')}, {"abd", ""}});
  const std::size_t second = archive.find("PK\x01\x02", archive.find("PK\x01\x02") + 4);
  std::string bomb = changed(archive, second + 42, number(0, 4));
  bomb = changed(bomb, second + 20, number(100, 4) + number(100, 4));
  CHECK_THAT(complaint(bomb), Contains("another name"));
  CHECK_THAT(complaint(changed(bomb, second + 46, "abc")), Contains("two files"));
}

TEST_CASE("an archive that is cut off anywhere is refused") {
  for (std::size_t size = 0; size < kSound.size(); ++size) {
    CAPTURE(size);
    CHECK(complaint(kSound.substr(0, size)) != "accepted");
  }
}
