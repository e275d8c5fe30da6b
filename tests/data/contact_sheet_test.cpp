#include "data/contact_sheet.hpp"

#include "base/files.hpp"
#include "data/fakes.hpp"
#include "data/write_png.hpp"
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
  const Sheet one = contact_sheet(std::vector<Exhibit>(1, {kDigit, 7}));
  const Sheet five = contact_sheet(std::vector<Exhibit>(5, {kDigit, 7}));
  CHECK(one.shape.width == 3 * 28 + 16);
  CHECK(five.shape.width == 3 * (3 * 28 + 8) + 8);
  CHECK(five.shape.height == 2 * (one.shape.height - 8) + 8);
  CHECK(std::ranges::count(one.pixels, 100) == 84 * 84 * 3);
}

TEST_CASE("the class stands below its image, and nothing where there is none") {
  const auto ink = [](const Sheet& sheet) { return std::ranges::count(sheet.pixels, 32); };
  CHECK(ink(contact_sheet(std::vector<Exhibit>{{kDigit, std::nullopt}})) == 0);
  CHECK(ink(contact_sheet(std::vector<Exhibit>{{kDigit, 1}})) == 8 * 4 * 3);
  CHECK(ink(contact_sheet(std::vector<Exhibit>{{kDigit, 111}})) == 3 * 8 * 4 * 3);
}

TEST_CASE("a class number wider than the sheet is cut off") {
  const std::vector<std::uint8_t> thin(96, 1);
  const Sheet sheet = contact_sheet(
      std::vector<Exhibit>{{ImageView(thin.data(), {96, 1, 1}), 1'234'567'890'123'456'789}});
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
  CHECK_THAT(failure_of([] { write_png("/no/such/folder/x.png", kDigit); }),
             StartsWith("11: ") && Contains("/no/such/folder/") && Contains("No such file"));
}
