#pragma once

#include "data/core/dataset.hpp"
#include "data/loader/order.hpp"
#include "data/read_ahead/read_window.hpp"

#include <array>
#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <thread>
#include <vector>

namespace trainctl::data {

/// Reads files from front to back into the page cache, in a thread of its own: where an epoch takes
/// many small samples from few files, and memory holds them all, that is sooner done than reading
/// each sample at its turn. Who needs a sample before it has come reads it as ever.
class FileStream {
 public:
  /// `part`: of each file, what is read of it.
  FileStream(const ImageRanges& ranges, std::vector<FileRange> parts);
  /// Ends the thread after the read it is at.
  ~FileStream();
  FileStream(const FileStream&) = delete;
  FileStream& operator=(const FileStream&) = delete;

 private:
  void run();
  void read(const FileRange& part, std::vector<std::byte>& buffer) const;

  const ImageRanges& ranges_;
  std::vector<FileRange> parts_;
  std::atomic<bool> stopped_{false};
  std::thread thread_;
};

/// What of each file the samples lie in, by file, where streaming is worth it: small samples that
/// fill few local files, which fit a quarter of `memory`. Else empty.
std::vector<FileRange> parts_to_stream(const ImageRanges& ranges, std::int64_t samples,
                                       std::uint64_t memory);

class ReadAhead;

/// What was read ahead of one batch, lent to one of its tiles.
class AheadTile {
 public:
  /// Waits until the batch has its window. Without an owner nothing is read ahead.
  AheadTile(ReadAhead* owner, std::uint64_t batch);
  ~AheadTile();
  AheadTile(const AheadTile&) = delete;
  AheadTile& operator=(const AheadTile&) = delete;

  /// Whether any of it was; if not, the page cache has it.
  [[nodiscard]] bool reads() const { return window_ != nullptr && !window_->plan.reads.empty(); }
  /// The image of a row; waits for it. Nothing where the sample `index` was not read ahead for that
  /// row. Throws Error(data) naming file and offset.
  [[nodiscard]] std::optional<StoredImage> image(std::int64_t row, std::int64_t index,
                                                 std::vector<std::byte>& scratch) const;

 private:
  ReadAhead* owner_;
  std::uint64_t batch_;
  Window* window_;  // null where nothing is read ahead, or no more
};

/// Reads the images of a loader ahead of the tiles, since the order of an epoch is known: some
/// batches at a time, a window, sorted by where they lie on disk. One window is filled while
/// another is used. What it could not read is left to the tile, which tries again and tells the
/// error. Owned by the loader; never changes a byte of a batch.
class ReadAhead {
 public:
  /// What it shares with its loader.
  struct Shared {
    const Dataset& dataset;
    Orders& orders;
    const BatchPlan& plan;
    int tiles = 1;  // of a batch: AheadTiles that are taken of each
  };

  /// `bytes` as ahead_bytes() tells them.
  ReadAhead(const Shared& shared, const LoaderOptions& options, std::uint64_t bytes);
  ~ReadAhead();
  ReadAhead(const ReadAhead&) = delete;
  ReadAhead& operator=(const ReadAhead&) = delete;

  /// Begins with a batch of an epoch, which has the number 0; stopped before.
  void start(std::int64_t epoch, std::int64_t first_batch);
  /// Ends; who waits gets nothing.
  void stop();
  /// Whether tiles may have to wait for the disk, as the latest window tells. From any thread.
  [[nodiscard]] bool reads() const { return reads_.load(std::memory_order_relaxed); }

  static constexpr std::size_t kWindows = 2;

 private:
  friend class AheadTile;
  enum class Wait { no, yes };

  Window* window_of(std::uint64_t batch);
  void give_back(Window& window);

  void run();
  void read_windows();
  bool plan_next(Wait wait);
  Window* free_window(Wait wait);
  void choose_batches(Window& window);
  [[nodiscard]] bool is_cached(const Window& window);
  void stream_files();
  void choose_rows(Window& window);
  bool add_batch(Window& window, const Extent& extent, const Permutation* order);

  Shared shared_;
  const ImageRanges& ranges_;
  std::int64_t batch_size_;
  std::optional<int> requested_batches_;
  bool takes_most_;  // of the samples, all ranks of an epoch together
  std::optional<FileStream> stream_;
  Arena arena_;
  std::array<Window, kWindows> windows_;
  std::unique_ptr<WindowReader> reader_;  // of the thread
  bool broken_ = false;                   // reads may be under way that nobody can wait for

  std::int64_t base_epoch_ = 0;
  std::int64_t base_batch_ = 0;
  std::int64_t next_batches_ = 1;  // of the next window, at most
  std::atomic<bool> reads_{false};

  std::mutex mutex_;
  std::condition_variable changed_;
  std::uint64_t planned_ = 0;  // the first batch without a window
  bool stopped_ = true;
  std::thread thread_;
};

/// Memory that reading ahead takes, at most `left`; 0 where it is off, or the data set has no files
/// to read.
std::uint64_t ahead_bytes(const Dataset& dataset, const LoaderOptions& options, std::uint64_t left);

}  // namespace trainctl::data
