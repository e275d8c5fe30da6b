#include "data/image/codec/decoder.hpp"

#include "data/image/decoding.hpp"
#include "support/catch.hpp"

#include <algorithm>
#include <filesystem>

using namespace trainctl;
using namespace trainctl::data;
using namespace trainctl::data::testing;

namespace {

File text_file(std::string_view text) {
  const auto bytes = std::as_bytes(std::span(text));
  return {bytes.begin(), bytes.end()};
}

bool by_opencv(const std::string& name) {
  return name[0] == 'w' || name[0] == 'b' || name[0] == 't';
}

}  // namespace

TEST_CASE("ImageDecoder: files of every format have the same pixels as in torchvision") {
  for (const Json& golden : golden_cases("decoded", "files")) {
    const auto name = golden["name"].get<std::string>();
    INFO(name);
    if (by_opencv(name) && !with_opencv()) continue;
    // Upsampling, color conversion and the inverse DCT are exact integer arithmetic, so all
    // versions of the library give the same pixels.
    CHECK(distance(decoded(file_of(golden)), golden_picture(golden)) == 0);
  }
}

TEST_CASE("ImageDecoder: empty files and unknown first bytes are rejected") {
  CHECK_THAT(fault_of(text_file("GIF89a...")),
             Contains("9: the file must be a JPEG, PNG, WebP, BMP or TIFF, but begins with the "
                      "bytes 47 49 46 38 "
                      "39 61 2e 2e"));
  CHECK_THAT(fault_of({}), Contains("9: the image file is empty"));
  CHECK_THAT(fault_of(text_file("\xFF")), Contains("but begins with the bytes ff"));
}

TEST_CASE("ImageDecoder: the error for WebP, BMP and TIFF without OpenCV says what is missing") {
  if (with_opencv()) return;
  CHECK_THAT(fault_of(golden_file("bmp rgb")),
             Contains("2: WebP, BMP and TIFF files need a build with OpenCV"));
}

TEST_CASE("image decoders: truncated JPEG, PNG and WebP files are rejected") {
  for (const Json& golden : golden_cases("decoded", "files")) {
    const auto name = golden["name"].get<std::string>();
    if (name.starts_with("bmp") || name.starts_with("tiff") || (by_opencv(name) && !with_opencv()))
      continue;
    const File file = file_of(golden);
    for (std::size_t size = 0; size < file.size(); ++size) {
      INFO(name << " cut to " << size << " of " << file.size() << " bytes");
      REQUIRE_THAT(fault_of(cut(file, size)), StartsWith("9: "));
    }
  }
}

TEST_CASE("image decoders: over 90 percent of all truncated BMP and TIFF files are rejected") {
  if (!with_opencv()) skip("built without OpenCV");
  for (const Json& golden : golden_cases("decoded", "files")) {
    const auto name = golden["name"].get<std::string>();
    if (!name.starts_with("bmp") && !name.starts_with("tiff")) continue;
    const File file = file_of(golden);
    std::size_t accepted = 0;
    for (std::size_t size = 0; size < file.size(); ++size) {
      const std::string fault = fault_of(cut(file, size));
      accepted += fault.empty() ? 1 : 0;
      if (!fault.empty()) REQUIRE_THAT(fault, StartsWith("9: "));
    }
    INFO(name << ": " << accepted << " of " << file.size() << " cuts accepted");
    CHECK(accepted * 10 < file.size());
  }
}

TEST_CASE("PNG: every changed byte is an error") {
  for (const char* name : {"png rgb", "png palette transparent", "png interlaced"}) {
    const File file = golden_file(name);
    for (std::size_t i = 0; i < file.size(); ++i) {
      File changed = file;
      changed[i] ^= std::byte{0x10};
      INFO(name << ", byte " << i);
      REQUIRE_THAT(fault_of(changed), StartsWith("9: "));
    }
  }
}

TEST_CASE("JPEG: a damaged file does not change how the next file is decoded") {
  const File file = golden_file("jpeg progressive");
  const Picture expected = decoded(file);
  ImageDecoder decoder;
  for (std::size_t i = 0; i < file.size(); ++i) {
    File changed = file;
    changed[i] ^= std::byte{0x55};
    failure_of([&] {
      const ImageShape shape = decoder.open(changed);
      decoded(decoder, changed, {0, 0, shape.height, shape.width}, Reading::whole_file);
    });
    const Picture after = decoded(decoder, file, {0, 0, 17, 23}, Reading::whole_file);
    REQUIRE(after.pixels == expected.pixels);
  }
}

TEST_CASE("ImageDecoder: a decoded box is bitwise equal to that box of the whole image") {
  const ImageShape shape{83, 107, 3};
  std::vector<std::pair<std::string, File>> files;
  for (const bool progressive : {false, true}) {
    for (const auto& [h, v] : {std::pair{1, 1}, {2, 1}, {1, 2}, {2, 2}, {4, 1}}) {
      files.emplace_back(
          fmt::format("jpeg {}x{} {}", h, v, progressive),
          jpeg_file(shades(shape), {.horizontal = h, .vertical = v, .progressive = progressive}));
    }
  }
  files.emplace_back("jpeg gray", jpeg_file(shades({83, 107, 1})));
  files.emplace_back("jpeg cmyk", jpeg_file(shades({83, 107, 4}), {.colors = JCS_CMYK}));
  files.emplace_back("jpeg ycck", jpeg_file(shades({83, 107, 4}), {.colors = JCS_YCCK}));
  for (const char* name : {"png rgb", "png interlaced", "webp lossy"}) {
    if (!by_opencv(name) || with_opencv()) files.emplace_back(name, golden_file(name));
  }
  ImageDecoder decoder;
  std::uint32_t state = 7;
  for (const auto& [name, file] : files) {
    const Picture whole = decoded(file);
    for (int round = 0; round < 60; ++round) {
      const auto below = [&](std::int64_t bound) {
        state = state * 1664525U + 1013904223U;
        return static_cast<std::int64_t>(state >> 8) % bound;
      };
      Box box;
      box.top = below(whole.shape.height);
      box.left = below(whole.shape.width);
      box.height = 1 + below(whole.shape.height - box.top);
      box.width = 1 + below(whole.shape.width - box.left);
      const Reading reading = round % 2 == 0 ? Reading::whole_file : Reading::needed_part;
      const Picture part = decoded(decoder, file, box, reading);
      const ImageView expected = whole.view().window(box);
      for (std::int64_t y = 0; y < box.height; ++y) {
        INFO(name << ": row " << y << " of " << box.height << "x" << box.width << " at " << box.top
                  << "," << box.left);
        REQUIRE(std::equal(expected.row(y), expected.row(y) + expected.row_bytes(),
                           part.view().row(y)));
      }
    }
  }
}

TEST_CASE("JPEG: a file without tables does not use those of the previous file") {
  // The removed segments precede the first scan: quantization tables in one case, Huffman tables in
  // the other.
  const std::vector<std::pair<std::string, unsigned>> cases{{"jpeg 4:4:4", 0xDB},
                                                            {"jpeg progressive", 0xC4}};
  for (const auto& [name, code] : cases) {
    const File sound = golden_file(name);
    File without = sound;
    const auto at = [&](std::size_t i) { return std::to_integer<unsigned>(without[i]); };
    for (std::size_t i = 2; i + 4 < without.size();) {
      const std::size_t length = 2 + at(i + 2) * 256 + at(i + 3);
      const auto first = without.begin() + static_cast<std::ptrdiff_t>(i);
      if (at(i) == 0xFF && at(i + 1) == code) {
        without.erase(first, first + static_cast<std::ptrdiff_t>(length));
      } else {
        i += at(i) == 0xFF && at(i + 1) >= 0xC0 ? length : 1;
      }
    }
    ImageDecoder decoder;
    decoded(decoder, sound, {0, 0, 17, 23}, Reading::whole_file);
    INFO(name);
    CHECK_THAT(failure_of([&] {
                 decoded(decoder, without, {0, 0, 17, 23}, Reading::whole_file);
               }),
               Contains("was not defined"));
  }
}

TEST_CASE("JPEG: YCCK and CMYK of the same picture give nearly the same RGB") {
  const Picture picture = shades({40, 50, 4});
  const JpegKind cmyk{.horizontal = 1, .vertical = 1, .colors = JCS_CMYK, .quality = 100};
  const JpegKind ycck{.horizontal = 1, .vertical = 1, .colors = JCS_YCCK, .quality = 100};
  CHECK(distance(decoded(jpeg_file(picture, cmyk)), decoded(jpeg_file(picture, ycck))) <
        32);  // their colors are rounded at different stages
}

TEST_CASE("image decoders: only reading the whole file detects damage outside of the box") {
  const File jpeg = jpeg_file(shades({64, 64, 3}));
  const File png = golden_file("png rgb");
  ImageDecoder decoder;
  for (const File& damaged :
       {cut(jpeg, jpeg.size() - 2), cut(jpeg, jpeg.size() * 2 / 3), cut(png, png.size() - 12)}) {
    for (const Box& box : {Box{0, 0, 1, 1}, Box{0, 0, 16, 16}, Box{4, 4, 12, 8}}) {
      const auto read = [&](Reading reading) {
        return failure_of([&] { decoded(decoder, damaged, box, reading); });
      };
      CHECK_THAT(read(Reading::whole_file), StartsWith("9: damaged "));
      CHECK(read(Reading::needed_part).empty());
    }
  }
}

TEST_CASE("ImageDecoder: boxes of real photographs are equal to those of the whole image") {
  const char* root = std::getenv("TRAINCTL_DATA");
  const std::filesystem::path folder =
      std::filesystem::path(root == nullptr ? "" : root) / "imagenet-sample";
  if (root == nullptr || !std::filesystem::exists(folder))
    skip("TRAINCTL_DATA has no imagenet-sample");
  ImageDecoder decoder;
  std::int64_t files = 0;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(folder)) {
    if (!entry.is_regular_file() || files++ % 4 != 0) continue;
    const File file = text_file(golden::read(entry.path()));
    INFO(entry.path());
    const Picture whole = decoded(file);
    for (std::int64_t part = 1; part <= 3; ++part) {
      const Box box{whole.shape.height * part / 11, whole.shape.width * part / 7,
                    whole.shape.height / 2 + part, whole.shape.width / 3 + part};
      const Picture found =
          decoded(decoder, file, box, part == 1 ? Reading::whole_file : Reading::needed_part);
      const ImageView expected = whole.view().window(box);
      bool same = true;
      for (std::int64_t y = 0; y < box.height; ++y) {
        same = same && std::equal(expected.row(y), expected.row(y) + expected.row_bytes(),
                                  found.view().row(y));
      }
      CHECK(same);
    }
  }
}
