#include "data/inspect/contact_sheet.hpp"

#include "base/files.hpp"
#include "data/fakes.hpp"
#include "data/image/codec/png.hpp"
#include "support/catch.hpp"
#include "support/temp_folder.hpp"

#include <zlib.h>

#include <algorithm>

using namespace trainctl;
using namespace trainctl::data;
using namespace trainctl::data::testing;

namespace {

const std::vector<std::uint8_t> kGrey(28 * 28, 100);
const ImageView kDigit(kGrey.data(), {28, 28, 1});

std::uint32_t number_at(const std::string& bytes, std::size_t at) {
  std::uint32_t value = 0;
  for (std::size_t i = 0; i < 4; ++i) value = value << 8 | static_cast<std::uint8_t>(bytes[at + i]);
  return value;
}

}  // namespace

TEST_CASE("a sheet is about as wide as high, and enlarges small images by a whole factor") {
  const Sheet one = contact_sheet(std::vector<Exhibit>(1, {kDigit, "7"}));
  const Sheet five = contact_sheet(std::vector<Exhibit>(5, {kDigit, "7"}));
  CHECK(one.shape.width == 3 * 28 + 16);
  CHECK(five.shape.width == 3 * (3 * 28 + 8) + 8);
  CHECK(five.shape.height == 2 * (one.shape.height - 8) + 8);
  CHECK(std::ranges::count(one.pixels, 100) == 84 * 84 * 3);
}

TEST_CASE("the class stands below its image, and nothing where there is none") {
  const auto ink = [](const Sheet& sheet) { return std::ranges::count(sheet.pixels, 32); };
  CHECK(ink(contact_sheet(std::vector<Exhibit>{{kDigit, ""}})) == 0);
  CHECK(ink(contact_sheet(std::vector<Exhibit>{{kDigit, "1"}})) == 8 * 4 * 3);
  CHECK(ink(contact_sheet(std::vector<Exhibit>{{kDigit, "111"}})) == 3 * 8 * 4 * 3);
}

TEST_CASE("a class number wider than the sheet is cut off") {
  const std::vector<std::uint8_t> thin(96, 1);
  const Sheet sheet = contact_sheet(
      std::vector<Exhibit>{{ImageView(thin.data(), {96, 1, 1}), "1234567890123456789"}});
  CHECK(sheet.shape.width == 17);
}

TEST_CASE("a PNG file holds the pixels row by row behind a header of its size") {
  const TempFolder folder;
  std::vector<std::uint8_t> pixels(4 * 5 * 3);
  for (std::size_t i = 0; i < pixels.size(); ++i) pixels[i] = static_cast<std::uint8_t>(3 * i);
  write_png(folder / "x.png", {pixels.data(), {4, 5, 3}});
  const std::string file = read_file(folder / "x.png", 1 << 20, ReadFailure::data);
  CHECK(file.substr(0, 16) == std::string("\x89PNG\r\n\x1a\n\0\0\0\rIHDR", 16));
  CHECK(number_at(file, 16) == 5);
  CHECK(number_at(file, 20) == 4);
  std::string rows(4 * (1 + 5 * 3), '?');
  uLong size = rows.size();
  REQUIRE(::uncompress(reinterpret_cast<Bytef*>(rows.data()), &size,
                       reinterpret_cast<const Bytef*>(file.data() + 41),
                       number_at(file, 33)) == Z_OK);
  CHECK(size == rows.size());
  CHECK(static_cast<std::uint8_t>(rows[16]) == 0);
  CHECK(static_cast<std::uint8_t>(rows[17]) == 45);
  CHECK(file.ends_with(std::string("\0\0\0\0IEND\xae\x42\x60\x82", 12)));
}

TEST_CASE("a PNG file that cannot be written is a resource error with its path") {
  CHECK(failure_of([] { write_png("/no/such/folder/x.png", kDigit); }) ==
        "11: cannot write /no/such/folder/x.png: there is no folder /no/such/folder; make it, or "
        "choose another name with --out");
}

TEST_CASE("a caption ends where the next tile begins, and has a sign for what it cannot write") {
  const auto ink = [](const std::string& caption) {
    return std::ranges::count(contact_sheet(std::vector<Exhibit>(2, {kDigit, caption})).pixels, 32);
  };
  CHECK(ink("cat") == ink("CAT"));
  CHECK(ink("cat") > 0);
  CHECK(ink("\xc3\xa9") == ink("?"));
  CHECK(ink(std::string(11, '1')) == 2 * 11 * 8 * 4 * 3);
  CHECK(ink(std::string(500, '1')) < 2 * 13 * 8 * 4 * 3);
}

TEST_CASE("a sheet that nobody could look at is refused before it is allocated") {
  CHECK(sheet_shape(64, {1024, 1024, 3}).bytes() > 0);
  CHECK_THAT(
      failure_of([] {
        sheet_shape(1024, {1024, 1024, 3});
      }),
      StartsWith("2: a picture of 1024 images of 1024x1024 would take") && Contains("--samples"));
}

TEST_CASE("the pixels of a large PNG file stand in several chunks") {
  const TempFolder folder;
  const ImageShape shape{300, 400, 3};
  std::vector<std::uint8_t> pixels(shape.bytes());
  std::uint32_t state = 1;  // noise, which does not shrink
  for (std::uint8_t& pixel : pixels)
    pixel = static_cast<std::uint8_t>((state = state * 1664525 + 1013904223) >> 24);
  write_png(folder / "x.png", {pixels.data(), shape});
  const std::string file = read_file(folder / "x.png", 1 << 20, ReadFailure::data);
  int chunks = 0;
  std::string packed;
  for (std::size_t at = 8; at < file.size(); at += 12 + number_at(file, at)) {
    const std::string_view body = std::string_view(file).substr(at + 4, 4 + number_at(file, at));
    CHECK(number_at(file, at + 4 + body.size()) ==
          ::crc32(0, reinterpret_cast<const Bytef*>(body.data()), static_cast<uInt>(body.size())));
    if (!body.starts_with("IDAT")) continue;
    ++chunks;
    packed += body.substr(4);
  }
  CHECK(chunks > 1);
  std::string rows(300 * (1 + 400 * 3), '?');
  uLong size = rows.size();
  REQUIRE(::uncompress(reinterpret_cast<Bytef*>(rows.data()), &size,
                       reinterpret_cast<const Bytef*>(packed.data()), packed.size()) == Z_OK);
  CHECK(std::equal(rows.begin() + 1, rows.begin() + 1201, pixels.begin(),
                   [](char a, std::uint8_t b) { return static_cast<std::uint8_t>(a) == b; }));
}
