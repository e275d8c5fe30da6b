#include "data/formats/archive.hpp"
#include "data/sources.hpp"
#include "data/tar_files.hpp"
#include "support/catch.hpp"

#include <map>

using namespace trainctl;
using namespace trainctl::data;
using namespace trainctl::data::testing;

namespace {

class Archive {
 public:
  std::vector<std::pair<std::string, std::string>> read(const std::string& bytes) {
    put_text(path(), bytes);
    const auto source = open_source(path());
    TarReader tar(*source, path().string());
    std::vector<std::pair<std::string, std::string>> found;
    TarMember member;
    while (tar.next(member)) {
      const std::string text = tar.read_text(1 << 20);
      CHECK(text == bytes.substr(member.offset, member.size));
      found.emplace_back(member.name, text);
    }
    return found;
  }
  std::string failure(const std::string& bytes) {
    return failure_of([&] { (void)read(bytes); });
  }
  [[nodiscard]] std::filesystem::path path() const { return folder_ / "a.tar"; }

 private:
  TempFolder folder_;
};

using Found = std::vector<std::pair<std::string, std::string>>;

}  // namespace

TEST_CASE("TarReader: members of all common tar formats have their name, content and offset") {
  Archive archive;
  const std::string long_name(300, 'n');
  std::string prefixed = tar_header("file", 3);
  prefixed.replace(345, 3, "dir");
  seal(prefixed);
  std::string large = tar_header("base256", 4);
  large.replace(124, 12, std::string("\x80\0\0\0\0\0\0\0\0\0\0\x04", 12));
  seal(large);
  const std::string bytes =
      tar_member("a.txt", "alpha") + tar_member("empty", "") + prefixed + "xyz" +
      std::string(509, '\0') + tar_member("././@LongLink", long_name + '\0', 'L') +
      tar_member("nnn", "gnu") +
      tar_member("h", pax_record("path", "p/\xC3\xA9") + pax_record("size", "6"), 'x') +
      tar_header("e", 0) + "six by" + std::string(506, '\0') + large + "four" +
      std::string(508, '\0') + tar_member("g", pax_record("comment", "all"), 'g') +
      tar_member("last", std::string(512, 'l')) + tar_end();
  CHECK(archive.read(bytes) == Found{{"a.txt", "alpha"},
                                     {"empty", ""},
                                     {"dir/file", "xyz"},
                                     {long_name, "gnu"},
                                     {"p/\xC3\xA9", "six by"},
                                     {"base256", "four"},
                                     {"last", std::string(512, 'l')}});
}

TEST_CASE("TarReader: unsafe names are plain text, and members that are not files are skipped") {
  Archive archive;
  const std::string bytes =
      tar_member("../../up", "1") + tar_member("/etc/passwd", "2") + tar_header("link", 0, '2') +
      tar_header("hard", 77, '1') + tar_header("null", 0, '3') + tar_header("pipe", 0, '6') +
      tar_header("folder/", 0, '5') + tar_header("old/", 0) + tar_member("end", "3") + tar_end();
  CHECK(archive.read(bytes) == Found{{"../../up", "1"}, {"/etc/passwd", "2"}, {"end", "3"}});
}

TEST_CASE("TarReader: every truncation is an error with file and offset") {
  Archive archive;
  const std::string bytes = tar_member("a.jpg", std::string(700, 'a')) +
                            tar_member("x", pax_record("path", "b.jpg"), 'x') +
                            tar_member("b", "bee") + tar_end();
  REQUIRE(archive.read(bytes).size() == 2);
  for (std::size_t length = 0; length < bytes.size(); ++length) {
    const std::string failure = archive.failure(bytes.substr(0, length));
    const bool whole = failure.starts_with("9: ") && failure.find("a.tar") != std::string::npos &&
                       failure.find("byte") != std::string::npos;
    if (!whole) FAIL("at length " << length << ": " << failure);
  }
}

TEST_CASE("TarReader: every flipped bit of a header or end mark is detected") {
  Archive archive;
  const std::string good = tar_member("a.jpg", "a") + tar_end();
  const Found expected = archive.read(good);
  for (std::size_t bit = 0; bit < good.size() * 8; ++bit) {
    if (bit / 8 >= 512 && bit / 8 < 1024) continue;  // content and padding have no checksum
    std::string bad = good;
    bad[bit / 8] = static_cast<char>(bad[bit / 8] ^ (1 << bit % 8));
    const std::string failure = archive.failure(bad);
    // The terminator of the checksum field may differ.
    if (!failure.starts_with("9: ") && archive.read(bad) != expected) FAIL("bit " << bit);
  }
}

TEST_CASE("TarReader: sizes in a header are checked before memory is allocated") {
  Archive archive;
  CHECK_THAT(
      archive.failure(tar_header("a", 07777777777) + tar_end()),
      Contains("has a file of 1073741823 bytes at byte 0, more than the rest of the archive"));
  std::string huge = tar_header("a", 0);
  huge.replace(124, 12, std::string(12, '\x7F'));
  seal(huge);
  CHECK_THAT(archive.failure(huge + tar_end()), Contains("whose size is not a number"));
  huge.replace(124, 12, "\x80" + std::string(11, '\xFF'));
  seal(huge);
  CHECK_THAT(archive.failure(huge + tar_end()), StartsWith("9: "));
  CHECK_THAT(archive.failure(tar_header("a", 2 << 20, 'L') + tar_end()),
             Contains("extended header of 2097152 bytes at byte 0"));
  CHECK_THAT(archive.failure(tar_member("a", "99 path=x\n", 'x') + tar_end()),
             Contains("damaged at byte 512"));
  CHECK_THAT(archive.failure(tar_member("a", "7 x=1\n8 path\n", 'x') + tar_end()),
             StartsWith("9: "));
  CHECK_THAT(archive.failure(tar_member("a", pax_record("size", "-1"), 'x') + tar_end()),
             Contains("whose size is not a number"));
  CHECK_THAT(archive.failure(tar_member("a", "", 'S') + tar_end()), Contains("sparse"));
}

TEST_CASE("TarReader: data after the end mark and a single zero block are errors") {
  Archive archive;
  const std::string one = tar_member("a", "1") + tar_end();
  CHECK_THAT(archive.failure(one + one), Contains("continues at byte 2048 after its end mark"));
  CHECK(archive.read(one + std::string(8192, '\0')).size() == 1);
  CHECK_THAT(archive.failure(std::string(512, '\0') + one), Contains("has only one, at byte 0"));
  CHECK_THAT(archive.failure("not a tar archive" + std::string(600, 'x')),
             Contains("an invalid tar header at byte 0"));
}
