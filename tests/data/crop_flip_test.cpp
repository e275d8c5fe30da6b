#include "data/image/geometry.hpp"
#include "data/image/golden_pixels.hpp"

using namespace trainctl;
using namespace trainctl::data;
using namespace trainctl::data::testing;

namespace {

using spec::transform::PaddingMode;

void golden_crop(const Json& golden, const ImageView& input, ImageTarget& output) {
  const std::map<std::string, PaddingMode> modes{{"constant", PaddingMode::constant},
                                                 {"edge", PaddingMode::edge},
                                                 {"reflect", PaddingMode::reflect},
                                                 {"symmetric", PaddingMode::symmetric}};
  const Json& box = golden["box"];
  const std::int64_t top = box[0].get<std::int64_t>() - golden["padding"][1].get<std::int64_t>();
  const std::int64_t left = box[1].get<std::int64_t>() - golden["padding"][0].get<std::int64_t>();
  crop_padded(input, {top, left, box[2], box[3]}, {modes.at(golden["mode"]), Fill(golden["fill"])},
              output);
}

std::vector<std::uint8_t> numbered(std::size_t count) {
  std::vector<std::uint8_t> bytes(count);
  for (std::size_t i = 0; i < count; ++i) bytes[i] = static_cast<std::uint8_t>(i * 7 + i / 256 + 1);
  return bytes;
}

}  // namespace

TEST_CASE("geometry: flips, padded crops and erasing are bitwise equal to torchvision's") {
  check_golden("crop", {{"horizontal_flip", [](const Json&, const ImageView& in,
                                               ImageTarget& out) { horizontal_flip(in, out); }},
                        {"vertical_flip", [](const Json&, const ImageView& in,
                                             ImageTarget& out) { vertical_flip(in, out); }},
                        {"crop_padded", golden_crop},
                        {"erase", [](const Json& golden, const ImageView& in, ImageTarget& out) {
                           const Json& box = golden["box"];
                           erase(in, {box[0], box[1], box[2], box[3]}, Fill(golden["value"]), out);
                         }}});
}

TEST_CASE("mirror_kernels: all kernels give the bytes of the scalar one and write nothing else") {
  const MirrorKernels& scalar = mirror_kernels().back();
  CHECK(std::string(scalar.name) == "scalar");
  for (const MirrorKernels& kernels : mirror_kernels()) {
    INFO(kernels.name);
    for (std::int64_t width = 1; width < 300; ++width) {
      for (const std::int64_t channels : {1, 3}) {
        const auto bytes = static_cast<std::size_t>(width * channels);
        const std::vector<std::uint8_t> row =
            numbered(bytes);  // exact size, so that AddressSanitizer detects reads past the end
        std::vector<std::uint8_t> expected(bytes + 2, 0xEE);
        std::vector<std::uint8_t> made(bytes + 2, 0xEE);
        (channels == 1 ? scalar.one : scalar.three)(row.data(), width, expected.data() + 1);
        (channels == 1 ? kernels.one : kernels.three)(row.data(), width, made.data() + 1);
        REQUIRE(made == expected);
        REQUIRE(made.front() == 0xEE);
        REQUIRE(made.back() == 0xEE);
      }
    }
  }
}

TEST_CASE("horizontal_flip: the channels of a pixel keep their order, for any number of channels") {
  for (std::int64_t channels = 1; channels < 6; ++channels) {
    const std::vector<std::uint8_t> pixels = numbered(static_cast<std::size_t>(4 * 7 * channels));
    const ImageView image(pixels.data(), {4, 7, channels});
    const ImageView window = image.window({1, 2, 3, 4});
    std::vector<std::uint8_t> scratch;
    ImageTarget flipped(scratch);
    horizontal_flip(window, flipped);
    REQUIRE(flipped.shape() == window.shape);
    for (std::int64_t y = 0; y < 3; ++y) {
      for (std::int64_t x = 0; x < 4; ++x) {
        for (std::int64_t c = 0; c < channels; ++c) {
          CHECK(flipped.view().row(y)[x * channels + c] == window.row(y)[(3 - x) * channels + c]);
        }
      }
    }
  }
}

TEST_CASE("Fill: has one value, or one for each channel") {
  CHECK_NOTHROW(Fill({7}).check(3));
  CHECK_NOTHROW(Fill({7, 8, 9}).check(3));
  CHECK_THROWS_WITH(Fill({7, 8}).check(3),
                    Contains("fill has 2 values, but the images have 3 channels"));
}
