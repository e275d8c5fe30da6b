#include "data/ahead/file_images.hpp"
#include "data/dataset/pack.hpp"
#include "data/loader/measurements.hpp"
#include "data/pack/make_pack.hpp"
#include "data/read_ahead/read_ahead.hpp"
#include "data/sources.hpp"
#include "support/catch.hpp"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <thread>

using namespace trainctl;
using namespace trainctl::data;
using namespace trainctl::data::testing;

namespace {

constexpr std::uint64_t kMuch = std::uint64_t{1} << 40;

void drop_from_page_cache(const FileImages& images) {
  for (std::size_t i = 0; i < 3; ++i) {
    const Fd file(::open(images.path(i).c_str(), O_RDONLY | O_CLOEXEC));
    ::fsync(file.get());
    ::posix_fadvise(file.get(), 0, 0, POSIX_FADV_DONTNEED);
  }
}

/// Asks mincore, because reading with RWF_NOWAIT starts the kernel's own read-ahead.
bool all_cached(const FileImages& images) {
  for (std::size_t i = 0; i < 3; ++i) {
    const Fd file(::open(images.path(i).c_str(), O_RDONLY | O_CLOEXEC));
    const std::size_t bytes = std::filesystem::file_size(images.path(i));
    void* const mapped = ::mmap(nullptr, bytes, PROT_READ, MAP_SHARED, file.get(), 0);
    if (mapped == MAP_FAILED) skip("this file system cannot map files into memory");
    const auto page = static_cast<std::size_t>(::getpagesize());
    std::vector<unsigned char> pages((bytes + page - 1) / page);
    const int result = ::mincore(mapped, bytes, pages.data());
    ::munmap(mapped, bytes);
    REQUIRE(result == 0);
    if (std::ranges::any_of(pages, [](unsigned char each) { return (each & 1U) == 0; }))
      return false;
  }
  return true;
}

/// Drops the images from the page cache. Skips the test if that cannot be observed.
void make_cold(const FileImages& images) {
  if (!all_cached(images)) skip("this file system does not report which pages are in memory");
  drop_from_page_cache(images);
  if (all_cached(images)) skip("this file system keeps its files in memory");
}

bool soon_all_cached(const FileImages& images) {
  for (int tries = 0; tries < 6000 && !all_cached(images); ++tries)
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  return all_cached(images);
}

}  // namespace

TEST_CASE("parts_to_stream: a file without large gaps is streamed if it fits into memory") {
  const TempFolder folder;
  make_pack(CountingDataset(61), folder / "raw.pack", {});
  const PackDataset pack(folder / "raw.pack");
  const ImageRanges& ranges = *pack.images()->ranges();
  const auto parts = parts_to_stream(ranges, pack.size(), kMuch);
  REQUIRE(parts.size() == 1);
  for (std::int64_t i = 0; i < pack.size(); ++i) {
    const FileRange range = ranges.range(i);
    CHECK(range.offset >= parts[0].offset);
    CHECK(range.offset + range.bytes <= parts[0].offset + parts[0].bytes);
  }
  CHECK(parts_to_stream(ranges, pack.size(), 4 * ranges.bytes() - 1).empty());
  CHECK(parts_to_stream(ranges, 0, kMuch).empty());
  const FileImages scattered(101);  // with unused gaps
  CHECK(parts_to_stream(scattered, scattered.size(), kMuch).empty());
}

TEST_CASE("FileStream: reads files into the page cache, and can end at any time") {
  const FileImages images(3000, FileImages::Gaps::none);
  const auto parts = parts_to_stream(images, images.size(), kMuch);
  REQUIRE(parts.size() == 3);
  { const FileStream ended(images, parts); }
  make_cold(images);
  const FileStream stream(images, parts);
  CHECK(soon_all_cached(images));
}

TEST_CASE("FileStream: a Loader starts it after the first batch, and batches stay the same") {
  const auto images = std::make_shared<FileImages>(3000, FileImages::Gaps::none);
  LoaderOptions options;
  options.batch_size = 8;
  options.read_ahead = 0;
  const auto expected = digest_epochs({images, {}, {}, {}}, options, 2).epochs;
  options.read_ahead = {};
  make_cold(*images);
  {
    Loader loader({images, {}, {}, {}}, options);
    loader.start_epoch(0);
    REQUIRE(loader.next() != nullptr);
    CHECK(soon_all_cached(*images));
  }
  drop_from_page_cache(*images);
  CHECK(digest_epochs({images, {}, {}, {}}, options, 2).epochs == expected);
}
