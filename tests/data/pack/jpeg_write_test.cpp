#include "data/dataset/pack.hpp"
#include "data/image/codec/jpeg.hpp"
#include "data/pack/jpeg_files.hpp"
#include "data/pack/make_pack.hpp"
#include "support/catch.hpp"
#include "support/temp_folder.hpp"

using namespace trainctl;
using namespace trainctl::data;
using namespace trainctl::data::testing;

TEST_CASE("baseline_jpeg: keeps the pixels and markers of a progressive JPEG") {
  for (const ImageShape& shape : {ImageShape{37, 53, 3}, ImageShape{16, 16, 1}, ImageShape{1, 1, 3},
                                  ImageShape{200, 120, 3}}) {
    const auto progressive = jpeg_file(shape, 1, Scans::progressive, "Exif: kept");
    const auto baseline = baseline_jpeg(progressive);
    REQUIRE(!baseline.empty());
    const Decoded found = decode_jpeg(baseline);
    CHECK(!found.progressive);
    CHECK(found.pixels == decode_jpeg(progressive).pixels);
    const std::string_view text(reinterpret_cast<const char*>(baseline.data()), baseline.size());
    CHECK(text.find("Exif: kept") != text.npos);
    CHECK(text.find("JFIF") == text.rfind("JFIF"));
    CHECK(baseline_jpeg(baseline).empty());
  }
}

TEST_CASE("baseline_jpeg: every truncation of a JPEG is an error") {
  const auto whole = jpeg_file({40, 40, 3}, 1, Scans::progressive);
  int accepted = 0;
  for (std::size_t length = 0; length < whole.size(); ++length) {
    if (failure_of([&] { baseline_jpeg(std::span(whole).first(length)); }).empty()) ++accepted;
  }
  CHECK(accepted == 0);
}

TEST_CASE("write_jpeg: writes a baseline JPEG of the same size, and uniform gray is exact") {
  const ImageShape shape{60, 80, 3};
  const std::vector<std::uint8_t> pixels = picture(shape, 2);
  for (const int quality : {30, 90, 100}) {
    const auto file = write_jpeg(ImageView(pixels.data(), shape), quality);
    CHECK(is_jpeg(file));
    CHECK(!decode_jpeg(file).progressive);
    CHECK(decode_jpeg(file).pixels.size() == pixels.size());
  }
  const std::vector<std::uint8_t> gray(64 * 64, 77);
  CHECK(decode_jpeg(write_jpeg(ImageView(gray.data(), {64, 64, 1}), 90)).pixels == gray);
}

TEST_CASE("make_pack: baseline converts progressive JPEGs and copies all other files") {
  const TempFolder folder;
  const auto baseline = jpeg_file({30, 40, 3}, 1, Scans::baseline);
  const auto progressive = jpeg_file({50, 20, 3}, 2, Scans::progressive);
  const std::vector<std::byte> other(50, std::byte{7});  // not a JPEG
  const FileDataset source({baseline, progressive, other});
  PackOptions options;
  options.mode = PackMode::baseline;
  make_pack(source, folder / "b.pack", options);
  const PackDataset pack(folder / "b.pack");
  std::vector<std::byte> scratch;
  CHECK(std::ranges::equal(pack.read(0, scratch).bytes, baseline));
  CHECK(decode_jpeg(pack.read(1, scratch).bytes).pixels == decode_jpeg(progressive).pixels);
  CHECK(!decode_jpeg(pack.read(1, scratch).bytes).progressive);
  CHECK(std::ranges::equal(pack.read(2, scratch).bytes, other));
  CHECK(pack.layout()[0].shape == std::vector<std::int64_t>{0, 0, 3});
}

TEST_CASE("make_pack: an image that cannot be converted is an error with its name") {
  const TempFolder folder;
  auto damaged = jpeg_file({50, 20, 3}, 2, Scans::progressive);
  damaged.resize(damaged.size() / 2);
  const FileDataset source({jpeg_file({30, 40, 3}, 1, Scans::progressive), damaged});
  PackOptions options;
  options.mode = PackMode::baseline;
  CHECK_THAT(failure_of([&] { make_pack(source, folder / "b.pack", options); }),
             Contains("9: a/1.jpg: cannot convert to JPEG: "));
}
