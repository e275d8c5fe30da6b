#include "base/random.hpp"
#include "data/read_ahead/read_window.hpp"
#include "support/catch.hpp"

#include <algorithm>
#include <cstring>
#include <map>

using namespace trainctl::data;

namespace {

constexpr std::uint64_t kRoom = 64 << 20;

std::vector<PlannedRead> reads_of(const std::vector<FileRange>& ranges,
                                  std::uint64_t capacity = kRoom) {
  ReadPlan plan;
  plan.make(ranges, capacity);
  return plan.reads;
}

std::byte content(std::size_t file, std::uint64_t at) {
  return static_cast<std::byte>((at * 31 + at / 4096 + file * 7) & 255);
}

/// Executes the plan in memory and compares every range.
void check_plan(const std::vector<FileRange>& ranges, std::uint64_t capacity) {
  ReadPlan plan;
  plan.make(ranges, capacity);
  std::vector<std::byte> buffer(capacity);
  std::uint64_t end = 0;
  for (const PlannedRead& read : plan.reads) {
    REQUIRE(read.at == end);
    end += read.bytes;
    REQUIRE(end <= capacity);
    REQUIRE(read.offset % kReadPage + read.bytes % kReadPage + read.at % kReadPage == 0);
    REQUIRE(read.needed <= read.bytes);
    for (std::uint64_t i = 0; i < read.needed; ++i)
      buffer[read.at + i] = content(read.file, read.offset + i);
  }
  REQUIRE(std::is_sorted(plan.reads.begin(), plan.reads.end(), [](const auto& a, const auto& b) {
    return std::pair(a.file, a.offset) < std::pair(b.file, b.offset);
  }));
  for (std::size_t i = 0; i < ranges.size(); ++i) {
    REQUIRE(plan.reads[plan.places[i].read].file == ranges[i].file);
    bool same = true;
    for (std::uint64_t k = 0; k < ranges[i].bytes; ++k)
      same &= buffer[plan.places[i].at + k] == content(ranges[i].file, ranges[i].offset + k);
    REQUIRE(same);
  }
}

}  // namespace

TEST_CASE("ReadPlan: reads are sorted by file and offset and consist of whole pages") {
  const auto reads = reads_of({{1, 8192, 4096}, {0, 1'000'000, 10}, {0, 5000, 100}});
  REQUIRE(reads.size() == 3);
  CHECK(reads[0].file == 0);
  CHECK(reads[0].offset == 4096);
  CHECK(reads[0].bytes == 4096);
  CHECK(reads[0].needed == 5100 - 4096);
  CHECK(reads[1].offset == 999'424);
  CHECK(reads[2].file == 1);
  CHECK(reads[2].offset == 8192);
}

TEST_CASE("ReadPlan: ranges up to 64 KiB apart are one read of up to 1 MiB") {
  CHECK(reads_of({{0, 0, 4096}, {0, 4096 + 65536, 4096}}).size() == 1);
  CHECK(reads_of({{0, 0, 4096}, {0, 4096 + 65536 + 4096, 4096}}).size() == 2);
  CHECK(reads_of({{0, 0, 4096}, {1, 4096, 4096}}).size() == 2);
  std::vector<FileRange> row;
  for (std::uint64_t i = 0; i < 512; ++i) row.push_back({0, i * 4096, 4096});
  const auto reads = reads_of(row);
  REQUIRE(reads.size() == 2);
  CHECK(reads[0].bytes == 1 << 20);
  CHECK(reads_of({{0, 0, 5 << 20}}).size() == 1);
}

TEST_CASE("ReadPlan: gaps are read only if the buffer has room for them") {
  const std::vector<FileRange> ranges{{0, 0, 4096}, {0, 12288, 4096}, {0, 24576, 4096}};
  CHECK(reads_of(ranges, 3 * 4096).size() == 3);
  CHECK(reads_of(ranges, 5 * 4096).size() == 2);
  CHECK(reads_of(ranges, 7 * 4096).size() == 1);
}

TEST_CASE("ReadPlan: a sample that is drawn twice is read once") {
  const auto reads = reads_of({{0, 100, 50}, {0, 9000, 50}, {0, 100, 50}}, 3 * 4096);
  std::uint64_t bytes = 0;
  for (const auto& read : reads) bytes += read.bytes;
  CHECK(bytes <= 3 * 4096);
  check_plan({{0, 100, 50}, {0, 100, 50}, {0, 100, 50}}, 3 * 4096);
}

TEST_CASE("ReadPlan: each range is at its place in the buffer") {
  std::uint32_t draw = 0;
  const auto below = [&](std::uint64_t most) {
    return trainctl::philox(5, {draw++, 0, 0, 0})[0] % most;
  };
  for (int round = 0; round < 200; ++round) {
    std::vector<FileRange> ranges;
    std::uint64_t pages = 0;
    for (std::uint64_t i = 0, count = 1 + below(40); i < count; ++i) {
      ranges.push_back({below(2), below(round % 2 == 0 ? 3'000'000 : 100'000), 1 + below(20'000)});
      pages += in_pages(ranges.back());
    }
    check_plan(ranges, pages + below(4) * 40'960);
  }
}
