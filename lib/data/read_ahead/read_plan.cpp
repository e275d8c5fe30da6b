#include "data/read_ahead/read_plan.hpp"

#include "base/error.hpp"

#include <algorithm>
#include <numeric>
#include <tuple>

namespace trainctl::data {
namespace {

constexpr std::uint64_t kGap = 64 << 10;
constexpr std::uint64_t kMostJoined = 1 << 20;  // so that the first samples of it need not wait

}  // namespace

void ReadPlan::make(const std::vector<FileRange>& ranges, std::uint64_t capacity) {
  reads.clear();
  places.resize(ranges.size());
  order.resize(ranges.size());
  std::iota(order.begin(), order.end(), std::uint32_t{0});
  std::sort(order.begin(), order.end(), [&](std::uint32_t a, std::uint32_t b) {
    const auto key = [&](std::uint32_t i) {
      return std::tuple(ranges[i].file, ranges[i].offset, i);
    };
    return key(a) < key(b);
  });
  std::uint64_t wanted = 0;
  for (const FileRange& range : ranges) wanted += in_pages(range);
  ASSERT(wanted <= capacity);
  std::uint64_t spare = capacity - wanted;
  for (const std::uint32_t i : order) {
    const FileRange& range = ranges[i];
    const std::uint64_t begin = range.offset / kReadPage * kReadPage;
    const std::uint64_t end = begin + in_pages(range);
    PlannedRead* last = reads.empty() ? nullptr : &reads.back();
    const std::uint64_t last_end = last != nullptr ? last->offset + last->bytes : 0;
    const std::uint64_t gap = begin > last_end ? begin - last_end : 0;
    const bool joins = last != nullptr && last->file == range.file &&
                       gap <= std::min(kGap, spare) &&
                       (end <= last_end || end - last->offset <= kMostJoined);
    if (joins) {
      spare += in_pages(range);
      spare -= std::max(end, last_end) - last_end;
      last->bytes = std::max(end, last_end) - last->offset;
      last->needed = std::max(last->needed, range.offset + range.bytes - last->offset);
    } else {
      const std::uint64_t at = last != nullptr ? last->at + last->bytes : 0;
      reads.push_back({range.file, begin, end - begin, range.offset + range.bytes - begin, at});
    }
    const PlannedRead& read = reads.back();
    places[i] = {static_cast<std::uint32_t>(reads.size() - 1),
                 read.at + (range.offset - read.offset)};
  }
}

}  // namespace trainctl::data
