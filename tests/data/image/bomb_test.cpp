#include "data/image/codec/jpeg.hpp"
#include "data/image/decoding.hpp"
#include "support/catch.hpp"

#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <fstream>
#include <limits>

using namespace trainctl;
using namespace trainctl::data;
using namespace trainctl::data::testing;

namespace {

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
constexpr bool kSanitized = true;
#else
constexpr bool kSanitized = false;
#endif

void put(File& file, std::size_t at, std::uint32_t value, std::size_t bytes) {
  for (std::size_t i = 0; i < bytes; ++i)
    file[at + i] = static_cast<std::byte>(value >> (8 * (bytes - 1 - i)));
}

void put_little(File& file, std::size_t at, std::uint32_t value, std::size_t bytes) {
  for (std::size_t i = 0; i < bytes; ++i) file[at + i] = static_cast<std::byte>(value >> (8 * i));
}

/// Overwrites the value of a tag in the first page of a little-endian TIFF.
void set_tiff_tag(File& file, unsigned tag, std::uint32_t value) {
  const auto at = [&](std::size_t i) { return std::to_integer<unsigned>(file[i]); };
  const std::size_t page = at(4) | at(5) << 8 | at(6) << 16;
  for (std::size_t entry = page + 2; entry < page + 2 + 12 * at(page); entry += 12) {
    if ((at(entry) | at(entry + 1) << 8) == tag) put_little(file, entry + 8, value, 2);
  }
}

/// Returns the offset of height and width in the frame header of a JPEG.
std::size_t extents_at(const File& file) {
  for (std::size_t i = 2; i + 1 < file.size(); ++i) {
    const auto code = std::to_integer<unsigned>(file[i + 1]);
    if (file[i] == std::byte{0xFF} && (code == 0xC0 || code == 0xC2)) return i + 5;
  }
  return 0;
}

File with_extents(File jpeg, std::uint32_t height, std::uint32_t width) {
  put(jpeg, extents_at(jpeg), height, 2);
  put(jpeg, extents_at(jpeg) + 2, width, 2);
  return jpeg;
}

/// Returns a golden PNG with other extents. The checksum need not match, because the extents are
/// rejected first.
File png_with_extents(std::uint32_t height, std::uint32_t width) {
  File file = golden_file("png rgb");
  put(file, 16, width, 4);
  put(file, 20, height, 4);
  return file;
}

/// Returns a progressive JPEG that repeats its last scan.
File scan_bomb(int times) {
  File file = jpeg_file(shades({256, 256, 3}), {.progressive = true});
  std::size_t last = 0;
  for (std::size_t i = 0; i + 1 < file.size(); ++i) {
    if (file[i] == std::byte{0xFF} && file[i + 1] == std::byte{0xDA}) last = i;
  }
  const File scan(file.begin() + static_cast<std::ptrdiff_t>(last), file.end() - 2);
  file.resize(file.size() - 2);
  for (int i = 0; i < times; ++i) file.insert(file.end(), scan.begin(), scan.end());
  file.push_back(std::byte{0xFF});
  file.push_back(std::byte{0xD9});
  return file;
}

rlim_t address_space() {
  std::ifstream file("/proc/self/statm");
  rlim_t pages = 0;
  file >> pages;
  return pages * static_cast<rlim_t>(::sysconf(_SC_PAGESIZE));
}

/// Returns whether the body ends with a data error in a process that may allocate only `spare` more
/// bytes.
template <class Body>
bool rejected_within(rlim_t spare, Body&& body) {
  const pid_t child = ::fork();
  if (child == 0) {
    const rlimit limit{address_space() + spare, RLIM_INFINITY};
    ::setrlimit(RLIMIT_AS, &limit);
    ::_exit(failure_of(body).starts_with("9: ") ? 0 : 1);
  }
  int status = 0;
  ::waitpid(child, &status, 0);
  return WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

}  // namespace

TEST_CASE("image decoders: a decompression bomb is rejected by its header, within 10 MB") {
  File large = jpeg_file(shades({300, 300, 3}));
  large.resize(45'000, std::byte{0});
  const std::vector<std::pair<File, std::string>> bombs{
      {with_extents(large, 32'000, 32'000),
       "the image has 32000x32000 pixels, more than the limit of 67,108,864 pixels"},
      {with_extents(jpeg_file(shades({8, 8, 3})), 8'000, 8'000), "which do not fit into"},
      {png_with_extents(20'000, 20'000), "the image has 20000x20000 pixels"},
      {png_with_extents(8'000, 8'000),
       "damaged PNG: its header has 8000x8000 pixels, which do not fit into"},
      {scan_bomb(5'000),
       "the JPEG has at least 101 scans of 256x256 pixels, more than the limit of 100 scans"},
      {with_extents(scan_bomb(60), 6'000, 6'000),
       "limit of 100 scans or 1,073,741,824 pixels in all scans"},
  };
  for (const auto& [bomb, message] : bombs) {
    CHECK_THAT(fault_of(bomb), Contains(message));
    if (!kSanitized) {
      CHECK(rejected_within(rlim_t{10} << 20, [&bomb = bomb] { decoded(bomb); }));
    }
  }
}

TEST_CASE(
    "WebP, BMP, TIFF: a header with more pixels than the file holds is rejected within 10 MB") {
  if (fault_of(golden_file("bmp rgb")).starts_with("2: ")) skip("built without OpenCV");
  File bmp = golden_file("bmp rgb");
  put_little(bmp, 18, 8'000, 4);
  put_little(bmp, 22, 8'000, 4);
  File tiff = golden_file("tiff rgb");
  set_tiff_tag(tiff, 256, 8'000);
  set_tiff_tag(tiff, 257, 8'000);
  for (const File& bomb : {bmp, tiff}) {
    CHECK_THAT(fault_of(bomb), Contains("8000x8000 pixels without compression, which do not fit"));
    if (!kSanitized) CHECK(rejected_within(rlim_t{10} << 20, [&] { decoded(bomb); }));
  }
  File large = golden_file("webp lossless");
  put_little(large, 21, 0x0FFFFFFF, 4);
  CHECK_THAT(fault_of(large), Contains("the image has 16384x16384 pixels, more than the "
                                       "limit of 67,108,864 pixels\nhint: resize"));
}

TEST_CASE("JPEG: an image larger than the memory is an error, not a crash") {
  if (kSanitized) skip("a sanitizer reserves address space");
  const Picture picture = noise({7'000, 7'000, 1});
  CHECK(rejected_within(rlim_t{12} << 20, [&] { write_jpeg(picture.view(), 100); }));
}

TEST_CASE("image decoders: an image without pixels is rejected") {
  CHECK_THAT(fault_of(png_with_extents(0, 7)), Contains("9: the image has no pixels"));
  CHECK_THAT(fault_of(with_extents(jpeg_file(shades({8, 8, 3})), 5, 0)), StartsWith("9: "));
}

TEST_CASE("count_jpeg_scans: counts the scans up to one above the limit") {
  const Picture picture = shades({64, 64, 3});
  CHECK(count_jpeg_scans(jpeg_file(picture), 100) == 1);
  CHECK(count_jpeg_scans(jpeg_file(picture, {.progressive = true}), 100) == 10);
  CHECK(count_jpeg_scans(scan_bomb(7), 100) == 17);
  CHECK(count_jpeg_scans(scan_bomb(700), 100) == 101);
  CHECK(count_jpeg_scans({}, 100) == 0);
}
