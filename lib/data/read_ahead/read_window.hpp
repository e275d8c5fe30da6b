#pragma once

#include "data/core/dataset.hpp"
#include "data/loader/host_memory.hpp"
#include "data/read_ahead/read_queue.hpp"

#include <atomic>

namespace trainctl::data {

constexpr std::uint64_t kReadPage = 4096;

/// Returns the bytes that a range takes in the buffer, in whole pages.
constexpr std::uint64_t in_pages(const FileRange& range) {
  return (range.offset + range.bytes + kReadPage - 1) / kReadPage * kReadPage -
         range.offset / kReadPage * kReadPage;
}

/// A part of a file that one read loads into the buffer at `at`.
struct PlannedRead {
  std::size_t file = 0;
  std::uint64_t offset = 0;
  std::uint64_t bytes = 0;
  std::uint64_t needed = 0;  // required bytes; the rest may lie after the end of the file
  std::uint64_t at = 0;
};

/// The location of a requested range.
struct RangeLocation {
  std::uint32_t read = 0;
  std::uint64_t at = 0;  // in the buffer
};

/// Reads of ranges, in disk order.
struct ReadPlan {
  std::vector<PlannedRead> reads;     // by file and offset
  std::vector<RangeLocation> places;  // of each range
  std::vector<std::uint32_t> order;   // of the ranges, by file and offset

  /// Merges neighbors into one read if the gap is small and the buffer has room for it. All ranges
  /// in_pages() must fit into `capacity`.
  void make(const std::vector<FileRange>& ranges, std::uint64_t capacity);
};

enum class ReadState : std::uint32_t { pending, done, failed };

/// The rows of some consecutive batches and their bytes, which the reader fills in part by part.
struct Window {
  std::uint64_t first = 0;  // first batch
  std::uint64_t end = 0;
  bool used = false;            // by tiles; guarded by the owner's mutex
  std::int64_t tiles_left = 0;  // guarded like `used`

  std::span<std::byte> memory;
  std::vector<std::int64_t> samples;    // of each row; -1: not read ahead
  std::vector<std::uint32_t> range_of;  // of each row
  std::vector<FileRange> ranges;
  std::uint64_t bytes = 0;  // total of all ranges, in pages
  ReadPlan plan;            // empty if all data is in the page cache

  // The reader owns the following members, except for the states.
  std::vector<std::atomic<ReadState>> states;  // of the planned reads; may be longer
  std::size_t next_read = 0;                   // the first read that was not submitted
  std::size_t reads_left = 0;                  // pending reads

  /// Empties the window, which then starts at `first_batch`.
  void clear(std::uint64_t first_batch);
  /// Plans the reads of all ranges and sets them to pending.
  void plan_reads();
  /// Sets the final state of a read and wakes its waiters.
  void settle(std::size_t read, ReadState state);
  /// Marks pending reads as failed, which wakes their waiters.
  void give_up();
};

/// Returns whether the first pages of the ranges, with at most one exception, are in the page
/// cache.
bool in_page_cache(const std::vector<FileRange>& ranges, const ImageRanges& files);

/// Reads the bytes of windows, with dozens of reads in flight. Used by one thread.
class WindowReader {
 public:
  WindowReader(const ImageRanges& files, std::span<std::byte> memory);
  /// drain() must have been called.
  ~WindowReader() = default;
  WindowReader(const WindowReader&) = delete;
  WindowReader& operator=(const WindowReader&) = delete;

  /// Queues the reads of a planned window.
  void add(Window& window) { waiting_.push_back(&window); }
  /// Returns whether all reads have been submitted.
  [[nodiscard]] bool all_begun() const { return waiting_.empty(); }
  /// Returns whether all reads have completed.
  [[nodiscard]] bool idle() const { return waiting_.empty() && in_flight_ == 0; }
  /// Submits as many reads as may be in flight, and waits for some to complete.
  void step();
  /// Waits for the reads in flight. Returns false if the queue is broken: some reads may then still
  /// write to the memory at any time.
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
  std::vector<std::uint32_t> idle_;  // unused tags
  std::size_t in_flight_ = 0;
  std::vector<ReadResult> results_;
  std::size_t open_number_ = 0;
  std::shared_ptr<const FileReader> open_;  // the file of the latest read
};

}  // namespace trainctl::data
