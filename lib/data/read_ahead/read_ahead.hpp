#pragma once

#include "data/loader/order.hpp"
#include "data/read_ahead/read_window.hpp"

#include <condition_variable>
#include <thread>

namespace trainctl::data {

/// Reads files sequentially into the page cache, in a separate thread. This is faster than reading
/// each sample on demand when an epoch uses many small samples of few files and all fit into
/// memory. A sample that is needed earlier is read normally.
class FileStream {
 public:
  /// `parts`: the range to read of each file.
  FileStream(const ImageRanges& ranges, std::vector<FileRange> parts);
  /// Stops the thread after its current read.
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

/// Returns the used range of each file if streaming pays off: small samples that fill few local
/// files and fit into a quarter of `memory`. Otherwise returns an empty list.
std::vector<FileRange> parts_to_stream(const ImageRanges& ranges, std::int64_t samples,
                                       std::uint64_t memory);

class ReadAhead;

/// Gives one tile access to the data that was read ahead for its batch.
class AheadTile {
 public:
  /// Waits until the batch has a window. Without an owner, nothing is read ahead.
  AheadTile(ReadAhead* owner, std::uint64_t batch);
  ~AheadTile();
  AheadTile(const AheadTile&) = delete;
  AheadTile& operator=(const AheadTile&) = delete;

  /// Returns whether any row was read ahead; otherwise the page cache has all of them.
  [[nodiscard]] bool reads() const { return window_ != nullptr && !window_->plan.reads.empty(); }
  /// Waits for the image of a row and returns it, or nothing if the sample `index` was not read
  /// ahead for that row. Throws Error(data) with file and offset.
  [[nodiscard]] std::optional<StoredImage> image(std::int64_t row, std::int64_t index,
                                                 std::vector<std::byte>& scratch) const;

 private:
  ReadAhead* owner_;
  std::uint64_t batch_;
  Window* window_;  // null if nothing is read ahead (any more)
};

/// Reads the images of a loader ahead of the tiles; this is possible because the order of an epoch
/// is known. It works on windows of several batches, sorted by position on disk, and fills one
/// window while another is in use. The tile retries a failed read and reports the error. Owned by
/// the loader; never changes the bytes of a batch.
class ReadAhead {
 public:
  /// The state that it shares with its loader.
  struct Shared {
    const Dataset& dataset;
    Orders& orders;
    const BatchPlan& plan;
    int tiles = 1;  // AheadTiles per batch
  };

  /// `bytes` comes from read_ahead_bytes().
  ReadAhead(const Shared& shared, const LoaderOptions& options, std::uint64_t bytes);
  ~ReadAhead();
  ReadAhead(const ReadAhead&) = delete;
  ReadAhead& operator=(const ReadAhead&) = delete;

  /// Starts at a batch of an epoch, which becomes batch 0. Must be stopped.
  void start(std::int64_t epoch, std::int64_t first_batch);
  /// Stops reading; waiting tiles get nothing.
  void stop();
  /// Returns whether tiles may have to wait for the disk, according to the latest window.
  /// Thread-safe.
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
  bool takes_most_;  // all ranks together use most samples in an epoch
  std::optional<FileStream> stream_;
  Arena arena_;
  std::array<Window, kWindows> windows_;
  std::unique_ptr<WindowReader> reader_;  // owned by the thread
  bool broken_ = false;                   // reads may be in flight that cannot be waited for

  std::int64_t base_epoch_ = 0;
  std::int64_t base_batch_ = 0;
  std::int64_t next_batches_ = 1;  // limit of the next window
  std::atomic<bool> reads_{false};

  std::mutex mutex_;
  std::condition_variable changed_;
  std::uint64_t planned_ = 0;  // the first batch without a window
  bool stopped_ = true;
  std::thread thread_;
};

/// Returns the memory for reading ahead, at most `left`; 0 if it is disabled or the data set has no
/// files to read.
std::uint64_t read_ahead_bytes(const Dataset& dataset, const LoaderOptions& options,
                               std::uint64_t left);

}  // namespace trainctl::data
