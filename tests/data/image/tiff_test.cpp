#include "data/image/decoding.hpp"
#include "data/image/geometry.hpp"
#include "support/catch.hpp"

#include <array>
#include <numeric>

using namespace trainctl;
using namespace trainctl::data;
using namespace trainctl::data::testing;

namespace {

struct Entry {
  std::uint32_t tag;
  std::uint32_t type;
  std::uint32_t count;
  std::uint32_t value;
};
enum : std::uint32_t { kByte = 1, kShort = 3, kLong = 4 };

void append(File& file, std::uint32_t value, std::size_t bytes) {
  for (std::size_t i = 0; i < bytes; ++i) file.push_back(static_cast<std::byte>(value >> (8 * i)));
}

/// Returns a little-endian gray TIFF of that size: 8 bits, one strip of `pixel_bytes`, and
/// additional entries.
File tiff_file(std::uint32_t width, std::uint32_t height, std::size_t pixel_bytes,
               const std::vector<Entry>& more = {}) {
  std::vector<Entry> entries{{256, kLong, 1, width}, {257, kLong, 1, height}, {258, kShort, 1, 8},
                             {259, kShort, 1, 1},    {262, kShort, 1, 1},     {273, kLong, 1, 0},
                             {277, kShort, 1, 1},    {278, kLong, 1, height}};
  entries.push_back({279, kLong, 1, static_cast<std::uint32_t>(pixel_bytes)});
  for (const Entry& entry : more) {
    const auto same = [&](const Entry& other) { return other.tag == entry.tag; };
    const auto found = std::find_if(entries.begin(), entries.end(), same);
    // A second size entry is added to the first.
    if (found != entries.end() && entry.tag > 257) {
      *found = entry;
    } else {
      entries.push_back(entry);
    }
  }
  entries[5].value = static_cast<std::uint32_t>(8 + 2 + 12 * entries.size() + 4);
  File file;
  append(file, 0x002A4949, 4);
  append(file, 8, 4);
  append(file, static_cast<std::uint32_t>(entries.size()), 2);
  for (const auto& [tag, type, count, value] : entries) {
    append(file, tag, 2);
    append(file, type, 2);
    append(file, count, 4);
    append(file, value, 4);
  }
  append(file, 0, 4);
  for (std::size_t i = 0; i < pixel_bytes; ++i) file.push_back(static_cast<std::byte>(i));
  return file;
}

}  // namespace

TEST_CASE("TIFF: an 8-bit gray image has the size and pixels of its file") {
  if (!with_opencv()) skip("built without OpenCV");
  const Picture found = decoded(tiff_file(5, 3, 15));
  CHECK(found.shape == ImageShape{3, 5, 3});
  for (std::size_t i = 0; i < 45; ++i) CHECK(found.pixels[i] == i / 3);
}

TEST_CASE("TIFF: duplicate tags and invalid types are rejected") {
  if (!with_opencv()) skip("built without OpenCV");
  const std::vector<std::pair<Entry, std::string>> cases{
      {{256, kLong, 1, 10}, "9: damaged TIFF: duplicate tag 256"},
      {{257, kShort, 1, 10}, "9: damaged TIFF: duplicate tag 257"},
      {{322, kByte, 1, 16}, "9: damaged TIFF: tag 322 has the invalid type 1"},
      {{322, 16, 1, 16}, "9: damaged TIFF: tag 322 has the invalid type 16"},
      {{323, kShort, 2, 16}, "9: damaged TIFF: tag 323 must have one value, got 2"},
      {{277, kShort, 0, 1}, "9: damaged TIFF: tag 277 must have one value, got 0"},
  };
  for (const auto& [entry, message] : cases)
    CHECK_THAT(fault_of(tiff_file(5, 3, 15, {entry})), Contains(message));
  // libtiff uses the first of two entries, and the parser of trainctl uses the last.
  CHECK_THAT(fault_of(tiff_file(16'000, 16'000, 200, {{256, kLong, 1, 10}, {257, kLong, 1, 10}})),
             Contains("duplicate tag 256"));
}

TEST_CASE("TIFF: the error for an unsupported sample format names it") {
  if (!with_opencv()) skip("built without OpenCV");
  const auto fault = [](std::uint32_t bits, std::uint32_t format) {
    return fault_of(tiff_file(5, 3, 60, {{258, kShort, 1, bits}, {339, kShort, 1, format}}));
  };
  CHECK_THAT(fault(32, 3),
             Contains("9: TIFF with 32-bit float samples is not supported\nhint: convert"));
  CHECK_THAT(fault(32, 1), Contains("9: TIFF with 32-bit integer samples"));
  CHECK_THAT(fault(16, 3), Contains("9: TIFF with 16-bit float samples"));
}

TEST_CASE("TIFF: 16-bit samples keep the upper 8 bits") {
  if (!with_opencv()) skip("built without OpenCV");
  const Picture found = decoded(tiff_file(5, 3, 30, {{258, kShort, 1, 16}}));
  for (std::size_t i = 0; i < 45; ++i) CHECK(found.pixels[i] == 2 * (i / 3) + 1);
}

TEST_CASE("TIFF: an invalid orientation is ignored") {
  if (!with_opencv()) skip("built without OpenCV");
  const Picture upright = decoded(tiff_file(5, 3, 15));
  for (const std::uint32_t orientation : {0, 1, 9, 700})
    CHECK(decoded(tiff_file(5, 3, 15, {{274, kShort, 1, orientation}})).pixels == upright.pixels);
}

TEST_CASE("copy_upright: a box has the same pixels as that box of the whole image") {
  Picture stored{{4, 6, 3}, std::vector<std::uint8_t>(72)};
  std::iota(stored.pixels.begin(), stored.pixels.end(), std::uint8_t{0});
  for (int orientation = 1; orientation <= 8; ++orientation) {
    const auto [height, width] = upright_extents({4, 6}, orientation);
    Picture whole{{height, width, 3}, std::vector<std::uint8_t>(72)};
    copy_upright(stored.view(), orientation, {0, 0, height, width}, whole.pixels.data());
    const Box box{1, 2, height - 2, width - 2};
    std::vector<std::uint8_t> part(static_cast<std::size_t>(box.height * box.width * 3));
    copy_upright(stored.view(), orientation, box, part.data());
    const ImageView expected = whole.view().window(box);
    for (std::int64_t y = 0; y < box.height; ++y) {
      INFO("orientation " << orientation << ", row " << y);
      CHECK(std::equal(expected.row(y), expected.row(y) + expected.row_bytes(),
                       part.data() + y * box.width * 3));
    }
  }
}

TEST_CASE("WebP: an animation is rejected") {
  if (!with_opencv()) skip("built without OpenCV");
  File file = golden_file("webp lossless");
  // The VP8X chunk describes the file: animated, 23 x 17 pixels.
  const std::array<int, 18> chunk{'V', 'P', '8', 'X', 10, 0, 0, 0, 2, 0, 0, 0, 22, 0, 0, 16, 0, 0};
  for (std::size_t i = 0; i < chunk.size(); ++i)
    file.insert(file.begin() + 12 + static_cast<std::ptrdiff_t>(i),
                static_cast<std::byte>(chunk[i]));
  CHECK_THAT(fault_of(file), Contains("9: animated WebP is not supported\nhint: convert it"));
}
