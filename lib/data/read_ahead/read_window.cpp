#include "data/read_ahead/read_window.hpp"

#include "base/error.hpp"
#include "data/formats/file_reader.hpp"

#include <fcntl.h>
#include <sys/uio.h>

#include <cerrno>
#include <numeric>

namespace trainctl::data {
namespace {

constexpr unsigned kDepth = 64;
constexpr unsigned kThreads = 32;         // instead of io_uring
constexpr std::size_t kProbedPages = 32;  // pages to test for the page cache
constexpr std::size_t kMaxColdPages = 1;  // pages that may be missing in a cached range set

bool is_cached(const FileReader& file, std::uint64_t offset) {
  std::byte byte{};
  iovec part{&byte, 1};
  return ::preadv2(file.fd(), &part, 1, static_cast<off_t>(offset), RWF_NOWAIT) == 1;
}

/// Disables the kernel's read-ahead: the bytes after a range belong to an unrelated sample.
void expect_random_reads(const FileReader& file) {
  (void)::posix_fadvise(file.fd(), 0, 0, POSIX_FADV_RANDOM);
}

constexpr std::uint64_t kGap = 64 << 10;
constexpr std::uint64_t kMaxJoinedBytes =
    1 << 20;  // limits the wait for the first sample of a merged read

}  // namespace

void Window::clear(std::uint64_t first_batch) {
  first = end = first_batch;
  samples.clear();
  range_of.clear();
  ranges.clear();
  bytes = 0;
  plan.reads.clear();
}

void Window::plan_reads() {
  plan.make(ranges, memory.size());
  const std::size_t count = plan.reads.size();
  if (states.size() < count) states = std::vector<std::atomic<ReadState>>(count);
  for (std::size_t i = 0; i < count; ++i)
    states[i].store(ReadState::pending, std::memory_order_relaxed);
  next_read = 0;
  reads_left = count;
}

void Window::settle(std::size_t read, ReadState state) {
  states[read].store(state, std::memory_order_seq_cst);  // see kBeforeNotify in ring.cpp
  states[read].notify_all();
  --reads_left;
}

void Window::give_up() {
  for (std::size_t i = 0; reads_left > 0 && i < plan.reads.size(); ++i) {
    if (states[i].load(std::memory_order_relaxed) == ReadState::pending)
      settle(i, ReadState::failed);
  }
}

bool in_page_cache(const std::vector<FileRange>& ranges, const ImageRanges& files) {
  std::size_t cold = 0;
  std::optional<FileReader> open;
  std::size_t number = 0;
  for (std::size_t i = 0; i < ranges.size() && cold <= kMaxColdPages; ++i) {
    const FileRange& range = ranges[i];
    try {
      if (!open || number != range.file) {
        open.reset();
        open.emplace(files.open(range.file));
        expect_random_reads(*open);
      }
      number = range.file;
      cold += is_cached(*open, range.offset) ? 0 : 1;
    } catch (const Error&) {
      // The tile reports a file that cannot be opened.
    }
  }
  return cold <= std::min(kMaxColdPages, ranges.size() / 2);
}

WindowReader::WindowReader(const ImageRanges& files, std::span<std::byte> memory)
    : files_(files), queue_(uring_queue(kDepth, memory)) {
  const unsigned depth = queue_ ? kDepth : kThreads;
  if (!queue_) queue_ = thread_queue(kThreads);
  flights_.resize(depth);
  for (std::uint32_t tag = 0; tag < depth; ++tag) idle_.push_back(tag);
}

bool WindowReader::drain() {
  try {
    for (; in_flight_ > 0; in_flight_ -= results_.size()) {
      results_.clear();
      queue_->collect(1, results_);
    }
    return true;
  } catch (const Error&) {
    return false;
  }
}

void WindowReader::step() {
  begin_some();
  if (in_flight_ == 0) return;
  // Waits for several reads while more are to be submitted, because a wake-up costs as much as
  // several reads.
  const std::size_t least = all_begun() ? 1 : std::max<std::size_t>(1, in_flight_ / 4);
  results_.clear();
  queue_->collect(static_cast<unsigned>(least), results_);
  for (const ReadResult& result : results_) finish(result);
}

void WindowReader::begin_some() {
  while (!idle_.empty() && !waiting_.empty()) {
    Window& window = *waiting_.front();
    if (window.next_read == window.plan.reads.size()) {
      waiting_.erase(waiting_.begin());
      continue;
    }
    const std::size_t read = window.next_read++;
    auto file = open(window.plan.reads[read].file);
    if (!file) {
      window.settle(read, ReadState::failed);
      continue;
    }
    const std::uint32_t tag = idle_.back();
    idle_.pop_back();
    flights_[tag] = {&window, read, 0, std::move(file)};
    ++in_flight_;
    submit(tag);
  }
}

std::shared_ptr<const FileReader> WindowReader::open(std::size_t number) {
  if (open_ && open_number_ == number) return open_;
  open_.reset();
  try {
    open_ = std::make_shared<const FileReader>(files_.open(number));
  } catch (const Error&) {
    return nullptr;
  }
  open_number_ = number;
  expect_random_reads(*open_);
  return open_;
}

void WindowReader::submit(std::uint32_t tag) {
  const Flight& flight = flights_[tag];
  const PlannedRead& read = flight.window->plan.reads[flight.read];
  const auto out = flight.window->memory.subspan(read.at + flight.done, read.bytes - flight.done);
  queue_->submit({flight.file->fd(), read.offset + flight.done, out, tag});
}

void WindowReader::finish(const ReadResult& result) {
  Flight& flight = flights_[result.tag];
  const PlannedRead& read = flight.window->plan.reads[flight.read];
  if (result.result > 0) flight.done += static_cast<std::uint64_t>(result.result);
  const bool done = flight.done >= read.needed;
  const bool again = result.result > 0 || result.result == -EINTR || result.result == -EAGAIN;
  if (!done && again)
    return submit(result.tag);  // after a short read; the end of the file returns 0
  flight.window->settle(flight.read, done ? ReadState::done : ReadState::failed);
  flight = {};
  idle_.push_back(result.tag);
  --in_flight_;
}

void ReadPlan::make(const std::vector<FileRange>& ranges, std::uint64_t capacity) {
  reads.clear();
  places.resize(ranges.size());
  order.resize(ranges.size());
  std::iota(order.begin(), order.end(), std::uint32_t{0});
  std::ranges::sort(
      order, {}, [&](std::uint32_t i) { return std::tuple(ranges[i].file, ranges[i].offset, i); });
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
                       (end <= last_end || end - last->offset <= kMaxJoinedBytes);
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
