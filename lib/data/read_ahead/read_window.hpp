#pragma once

#include "data/core/dataset.hpp"
#include "data/loader/host_memory.hpp"
#include "data/read_ahead/read_queue.hpp"

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

namespace trainctl::data {

constexpr std::uint64_t kReadPage = 4096;

/// The bytes that a range takes in the buffer: whole pages, as the disk gives them.
constexpr std::uint64_t in_pages(const FileRange& range) {
  return (range.offset + range.bytes + kReadPage - 1) / kReadPage * kReadPage -
         range.offset / kReadPage * kReadPage;
}

/// A piece of a file that is read at once, into the buffer at `at`.
struct PlannedRead {
  std::size_t file = 0;
  std::uint64_t offset = 0;
  std::uint64_t bytes = 0;
  std::uint64_t needed = 0;  // of them; the rest may lie behind the end of the file
  std::uint64_t at = 0;
};

/// Where a wanted range comes to lie.
struct RangePlace {
  std::uint32_t read = 0;
  std::uint64_t at = 0;  // in the buffer
};

/// Reads of ranges in the order of the disk.
struct ReadPlan {
  std::vector<PlannedRead> reads;    // by file and offset
  std::vector<RangePlace> places;    // of each range
  std::vector<std::uint32_t> order;  // of the ranges, by file and offset

  /// Neighbors become one read where the gap between them is small and the buffer has room for
  /// it. All ranges in_pages() fit `capacity`.
  void make(const std::vector<FileRange>& ranges, std::uint64_t capacity);
};

enum class ReadState : std::uint32_t { pending, done, failed };

/// The rows of some consecutive batches and their bytes, of which the reader fills in one piece
/// after the other.
struct Window {
  std::uint64_t first = 0;  // batch
  std::uint64_t end = 0;
  bool used = false;            // by tiles; guarded by the owner's mutex
  std::int64_t tiles_left = 0;  // the same

  std::span<std::byte> memory;
  std::vector<std::int64_t> samples;    // of each row; -1: it is not read ahead
  std::vector<std::uint32_t> range_of;  // of each row
  std::vector<FileRange> ranges;
  std::uint64_t bytes = 0;  // in pages, of all ranges
  ReadPlan plan;            // without reads: all comes from the page cache

  // The reader's, but for the states.
  std::vector<std::atomic<ReadState>> states;  // of the plan's reads, and maybe some more
  std::size_t next_read = 0;                   // that has not been asked for
  std::size_t reads_left = 0;                  // that are pending

  void clear(std::uint64_t first_batch);
  void plan_reads();
  void settle(std::size_t read, ReadState state);
  /// Fails what is pending, and so wakes who waits for it.
  void give_up();
};

/// Whether the ranges, but for a stray one, begin in the page cache.
bool in_page_cache(const std::vector<FileRange>& ranges, const ImageRanges& files);

/// Brings the bytes of windows in, some dozens of reads at a time. Used by one thread.
class WindowReader {
 public:
  WindowReader(const ImageRanges& files, std::span<std::byte> memory);
  /// drain() was called before.
  ~WindowReader() = default;
  WindowReader(const WindowReader&) = delete;
  WindowReader& operator=(const WindowReader&) = delete;

  void add(Window& window) { waiting_.push_back(&window); }
  /// No read is left to begin.
  [[nodiscard]] bool all_begun() const { return waiting_.empty(); }
  /// No read is left to end.
  [[nodiscard]] bool idle() const { return waiting_.empty() && in_flight_ == 0; }
  /// Begins as many reads as may be in flight, and waits for some of them to end.
  void step();
  /// Waits for the reads that are under way. False where the queue is broken: then some may still
  /// write into the memory, at any time.
  [[nodiscard]] bool drain();

 private:
  struct Flight {
    Window* window = nullptr;
    std::size_t read = 0;
    std::uint64_t done = 0;
    std::shared_ptr<const FileReader> file;
  };

  void begin_some();
  std::shared_ptr<const FileReader> open(std::size_t number);
  void submit(std::uint32_t tag);
  void finish(const ReadResult& result);

  const ImageRanges& files_;
  std::unique_ptr<ReadQueue> queue_;
  std::vector<Window*> waiting_;
  std::vector<Flight> flights_;
  std::vector<std::uint32_t> idle_;  // tags
  std::size_t in_flight_ = 0;
  std::vector<ReadResult> results_;
  std::size_t open_number_ = 0;
  std::shared_ptr<const FileReader> open_;  // the file of the latest read
};

}  // namespace trainctl::data
