#include "data/image/codec/decoder.hpp"

#include "data/image/codec/jpeg.hpp"
#include "data/image/codec/png.hpp"
#include "data/image/decoding.hpp"
#include "support/catch.hpp"
#include "support/growth.hpp"

#include <zlib.h>

#include <algorithm>
#include <filesystem>
#include <functional>

using namespace trainctl;
using namespace trainctl::data;
using namespace trainctl::data::testing;

namespace {

File text_file(std::string_view text) {
  const auto bytes = std::as_bytes(std::span(text));
  return {bytes.begin(), bytes.end()};
}

/// Returns a BMP file of an RGB picture whose rows have a multiple of four bytes.
File bmp_file(const Picture& picture) {
  constexpr std::uint32_t kHeader = 54;
  File file(kHeader);
  const auto put = [&](std::size_t at, std::int64_t value, std::size_t bytes) {
    for (std::size_t i = 0; i < bytes; ++i) file[at + i] = static_cast<std::byte>(value >> (8 * i));
  };
  put(0, 'B' | 'M' << 8, 2);
  put(2, kHeader + static_cast<std::int64_t>(picture.pixels.size()), 4);
  put(10, kHeader, 4);
  put(14, 40, 4);  // size of the second header
  put(18, picture.shape.width, 4);
  put(22, picture.shape.height, 4);
  put(26, 1, 2);   // planes
  put(28, 24, 2);  // bits of a pixel
  const auto pixels = std::as_bytes(std::span(picture.pixels));
  file.insert(file.end(), pixels.begin(), pixels.end());
  return file;
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

namespace {

/// Returns a progressive JPEG with comments of `bytes` bytes.
File commented_jpeg(std::size_t comments, std::size_t bytes) {
  File file = jpeg_file(shades({16, 16, 3}), {.progressive = true});
  File segment{std::byte{0xFF}, std::byte{0xFE}, static_cast<std::byte>((bytes + 2) >> 8),
               static_cast<std::byte>(bytes + 2)};
  segment.resize(segment.size() + bytes, std::byte{'x'});
  File segments;
  for (std::size_t i = 0; i < comments; ++i)
    segments.insert(segments.end(), segment.begin(), segment.end());
  file.insert(file.begin() + 2, segments.begin(), segments.end());
  return file;
}

/// Returns a PNG with text chunks, which libpng keeps.
File commented_png(std::size_t comments) {
  const std::string_view type_and_text("tEXtkey\0text", 12);
  const std::uint32_t sum =
      static_cast<std::uint32_t>(::crc32(0, reinterpret_cast<const Bytef*>(type_and_text.data()),
                                         static_cast<uInt>(type_and_text.size())));
  File chunk{std::byte{0}, std::byte{0}, std::byte{0}, std::byte{8}};
  for (const char c : type_and_text) chunk.push_back(static_cast<std::byte>(c));
  for (int shift = 24; shift >= 0; shift -= 8)
    chunk.push_back(static_cast<std::byte>(sum >> shift));
  File file = text_file(png_of(shades({4, 4, 3}).view()));
  constexpr std::ptrdiff_t kHeader = 33;  // signature and first chunk
  File chunks;
  for (std::size_t i = 0; i < comments; ++i)
    chunks.insert(chunks.end(), chunk.begin(), chunk.end());
  file.insert(file.begin() + kHeader, chunks.begin(), chunks.end());
  return file;
}

}  // namespace

TEST_CASE("growth: decoding an image is linear in its height and width", "[growth]") {
  using Encode = std::function<File(const Picture&)>;
  const auto jpeg = [](bool progressive) {
    return [progressive](const Picture& picture) {
      return jpeg_file(picture, {.progressive = progressive});
    };
  };
  std::vector<std::pair<std::string, Encode>> formats{
      {"jpeg", jpeg(false)},
      {"jpeg progressive", jpeg(true)},
      {"png", [](const Picture& picture) { return text_file(png_of(picture.view())); }}};
  if (with_opencv()) formats.emplace_back("bmp", bmp_file);
  for (const auto& [name, encode] : formats) {
    for (const bool wide : {false, true}) {
      CAPTURE(name, wide);
      const auto decoding = [&encode = encode, wide](std::size_t length) {
        const auto long_side = static_cast<std::int64_t>(length);
        const Picture picture =
            shades(wide ? ImageShape{128, long_side, 3} : ImageShape{long_side, 128, 3});
        return [file = encode(picture)] { (void)decoded(file); };
      };
      CHECK(growth_per_doubling(decoding, 32) <= kMostPerDoubling);
    }
  }
}

TEST_CASE("growth: decoding an image is linear in its metadata", "[growth]") {
  const auto large = [](std::size_t comments) {
    return [file = commented_jpeg(comments, 4'000)] { (void)decoded(file); };
  };
  CHECK(growth_per_doubling(large, 20) <= kMostPerDoubling);
  const auto many = [](std::size_t comments) {
    return [file = commented_jpeg(comments, 0)] { (void)decoded(file); };
  };
  CHECK(growth_per_doubling(many, 2'000) <= kMostPerDoubling);
  const auto texts = [](std::size_t comments) {
    return [file = commented_png(comments)] { (void)decoded(file); };
  };
  CHECK(growth_per_doubling(texts, 30) <= kMostPerDoubling);
}

TEST_CASE("baseline_jpeg: the number of metadata segments has a limit") {
  CHECK_FALSE(baseline_jpeg(commented_jpeg(9'999, 0)).empty());  // and one segment of JFIF
  CHECK_THAT(failure_of([] { (void)baseline_jpeg(commented_jpeg(10'000, 0)); }),
             Contains("9: the JPEG has more than 10,000 segments of metadata"));
}
