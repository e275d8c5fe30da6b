#include "data/inspect/contact_sheet.hpp"

#include "base/files.hpp"
#include "data/fakes.hpp"
#include "data/image/codec/png.hpp"
#include "support/catch.hpp"
#include "support/temp_folder.hpp"

#include <algorithm>
#include <span>
#include <vector>

using namespace trainctl;
using namespace trainctl::data;
using namespace trainctl::data::testing;

namespace {

const std::vector<std::uint8_t> kGray(28 * 28, 100);
const ImageView kDigit(kGray.data(), {28, 28, 1});

}  // namespace

TEST_CASE("contact_sheet: is nearly square and enlarges small images by an integer factor") {
  const Sheet one = contact_sheet(std::vector<SheetImage>(1, {kDigit, "7"}));
  const Sheet five = contact_sheet(std::vector<SheetImage>(5, {kDigit, "7"}));
  CHECK(one.shape.width == 3 * 28 + 16);
  CHECK(five.shape.width == 3 * (3 * 28 + 8) + 8);
  CHECK(five.shape.height == 2 * (one.shape.height - 8) + 8);
  CHECK(std::ranges::count(one.pixels, 100) == 84 * 84 * 3);
}

TEST_CASE("contact_sheet: a caption is below its image, and an empty one draws nothing") {
  const auto ink = [](const Sheet& sheet) { return std::ranges::count(sheet.pixels, 32); };
  CHECK(ink(contact_sheet(std::vector<SheetImage>{{kDigit, ""}})) == 0);
  CHECK(ink(contact_sheet(std::vector<SheetImage>{{kDigit, "1"}})) == 8 * 4 * 3);
  CHECK(ink(contact_sheet(std::vector<SheetImage>{{kDigit, "111"}})) == 3 * 8 * 4 * 3);
}

TEST_CASE("contact_sheet: a mask is next to its image in the colors of the classes") {
  std::vector<std::uint8_t> pixels;
  for (const std::uint8_t label : std::vector<std::uint8_t>{0, 1, 10, 255})
    pixels.insert(pixels.end(), {9, 8, 7, label});
  const Sheet sheet =
      contact_sheet(std::vector<SheetImage>{{ImageView(pixels.data(), {2, 2, 4}), ""}});
  CHECK(sheet.shape.width == 2 * 96 + 16);
  CHECK(sheet.shape.height ==
        contact_sheet(std::vector<SheetImage>{{kDigit, ""}}).shape.height + 12);
  const auto color_at = [&](std::int64_t y, std::int64_t x) {
    const std::uint8_t* pixel = sheet.view().row(8 + y) + 3 * (8 + x);
    return std::array<int, 3>{pixel[0], pixel[1], pixel[2]};
  };
  CHECK(color_at(95, 95) == std::array{9, 8, 7});
  CHECK(color_at(0, 96) == std::array{0x00, 0x72, 0xb2});
  CHECK(color_at(47, 191) == std::array{0xd5, 0x5e, 0x00});
  CHECK(color_at(48, 96) == color_at(0, 96));
  CHECK(color_at(95, 191) == std::array{255, 255, 255});
}

TEST_CASE("contact_sheet: a caption wider than the sheet is truncated") {
  const std::vector<std::uint8_t> thin(96, 1);
  const Sheet sheet = contact_sheet(
      std::vector<SheetImage>{{ImageView(thin.data(), {96, 1, 1}), "1234567890123456789"}});
  CHECK(sheet.shape.width == 17);
}

TEST_CASE("write_png: the file has the pixels of the image, for any size, channels and stride") {
  const TempFolder folder;
  for (const ImageShape& shape :
       {ImageShape{4, 5, 3}, ImageShape{7, 3, 1}, ImageShape{300, 400, 3}}) {
    const ImageShape whole{shape.height + 2, shape.width + 3, shape.channels};
    std::vector<std::uint8_t> pixels(whole.bytes());
    std::uint32_t state = 1;  // noise does not compress
    for (std::uint8_t& pixel : pixels)
      pixel = static_cast<std::uint8_t>((state = state * 1664525 + 1013904223) >> 24);
    const ImageView image =
        ImageView(pixels.data(), whole).window({1, 2, shape.height, shape.width});
    write_png(folder / "x.png", image);
    const std::string file = read_file(folder / "x.png", 1 << 20, ReadFailure::data);
    const auto decoder = make_png_decoder({});
    REQUIRE(decoder->open(std::as_bytes(std::span(file))) ==
            ImageShape{shape.height, shape.width, 3});
    std::vector<std::uint8_t> read(static_cast<std::size_t>(shape.height * shape.width) * 3);
    decoder->decode({0, 0, shape.height, shape.width}, Reading::whole_file, read.data());
    const auto repeats = static_cast<std::size_t>(3 / shape.channels);
    std::size_t wrong = 0;
    for (std::size_t i = 0; i < read.size(); ++i) {
      const std::size_t value = i / repeats;
      wrong += read[i] != image.row(static_cast<std::int64_t>(
                              value / image.row_bytes()))[value % image.row_bytes()];
    }
    CHECK(wrong == 0);
  }
}

TEST_CASE("write_png: a path that cannot be written is a resource error with the path") {
  CHECK(failure_of([] { write_png("/no/such/folder/x.png", kDigit); }) ==
        "11: cannot write /no/such/folder/x.png: folder /no/such/folder does not "
        "exist\nhint: create it, or choose another path with --out");
}

TEST_CASE("contact_sheet: a caption ends at the next tile, unknown characters are question marks") {
  const auto ink = [](const std::string& caption) {
    return std::ranges::count(contact_sheet(std::vector<SheetImage>(2, {kDigit, caption})).pixels,
                              32);
  };
  CHECK(ink("cat") == ink("CAT"));
  CHECK(ink("cat") > 0);
  CHECK(ink("\xc3\xa9") == ink("?"));
  CHECK(ink(std::string(11, '1')) == 2 * 11 * 8 * 4 * 3);
  CHECK(ink(std::string(500, '1')) < 2 * 13 * 8 * 4 * 3);
}

TEST_CASE("sheet_shape: a sheet that is too large is an error before allocation") {
  CHECK(sheet_shape(64, {1024, 1024, 3}).bytes() > 0);
  CHECK_THAT(
      failure_of([] {
        sheet_shape(1024, {1024, 1024, 3});
      }),
      StartsWith("2: a picture of 1024 images of 1024x1024 would have") && Contains("--samples"));
}
