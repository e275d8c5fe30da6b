#pragma once

#include "base/state_archive.hpp"
#include "data/loader/batch_assembler.hpp"
#include "data/loader/ring.hpp"
#include "data/read_ahead/read_ahead.hpp"
#include "data/remote/fetch_ahead.hpp"

namespace trainctl::data {

/// The sample that a row of a batch was made from.
struct RowSample {
  std::int64_t index = 0;  // in the data set
  std::string name;        // a path, an archive entry, or "sample 7"
};

/// Yields batches in an order that depends only on (seed, epoch): the same bytes for any number of
/// workers and prefetch depth. Owns the ring of slots and the threads, which live as long as the
/// loader. There is one consumer. After epoch e the workers start on epoch e + 1 early; starting
/// any other epoch restarts the ring.
class Loader {
 public:
  /// Throws Error(config) when there would be no batch or a transform does not fit, Error(resource)
  /// when the ring would exceed its memory budget.
  Loader(Pipeline pipeline, LoaderOptions options);
  ~Loader();
  Loader(const Loader&) = delete;
  Loader& operator=(const Loader&) = delete;

  /// Returns the layout after the transforms, with images even if batches contain image plans.
  [[nodiscard]] const Layout& layout() const { return assembler_.layout(); }
  /// Null when the batches contain pixels.
  [[nodiscard]] const std::shared_ptr<const HeldImages>& held() const {
    return assembler_.pipeline().held;
  }
  [[nodiscard]] const std::optional<Normalization>& normalization() const {
    return assembler_.pipeline().normalization;
  }
  [[nodiscard]] std::int64_t classes() const { return assembler_.pipeline().dataset->classes(); }
  /// Samples per epoch.
  [[nodiscard]] std::int64_t samples() const { return orders_.positions(); }
  /// Returns the number of batches, which is the same on every rank.
  [[nodiscard]] std::int64_t batches_per_epoch() const { return plan_.batches(); }
  /// Returns the damaged samples of all batches that next() has returned, each once.
  [[nodiscard]] std::vector<SkippedSample> skipped() const { return assembler_.skipped().list(); }
  /// Saves or restores which samples count as damaged. Samples from an earlier process are not in
  /// skipped().
  void serialize(StateArchive& archive);

  /// Starts `epoch`; workers may have prepared its first batches already. With `first_batch` the
  /// epoch resumes there, with the same bytes as if it had started at 0: (epoch, batch) is the
  /// complete state.
  void start_epoch(std::int64_t epoch, std::int64_t first_batch = 0);
  /// Returns the next batch of the epoch, or nullptr at its end. Rethrows an error of a worker with
  /// the sample's name; the next call then continues with the next batch. The memory of the last
  /// in_flight() batches before it stays valid, unless the ring is restarted: a device must have
  /// copied them by then.
  const Batch* next();

  /// Pauses loading: workers finish their current tiles and take no others. Releases all batches.
  /// start_epoch() restarts the ring.
  void pause();

  /// LoaderOptions::in_flight, or fewer batches if the memory does not suffice.
  [[nodiscard]] int in_flight() const { return in_flight_; }

  /// Returns the index in the data set of the sample of each valid row.
  [[nodiscard]] std::vector<std::int64_t> indices_of(const Batch& batch) const;
  /// Returns the samples of the valid rows of a batch. For a row with a replacement, names the
  /// original sample that could not be read.
  [[nodiscard]] std::vector<RowSample> samples_of(const Batch& batch) const;

  /// Returns the memory of the whole ring, which holds every batch, so that the engine can
  /// page-lock it.
  [[nodiscard]] std::span<const std::byte> memory() const { return arena_.bytes(); }

 private:
  std::unique_ptr<ReadAhead> make_ahead();
  void make_threads();
  void join_threads();
  void run_worker(BatchAssembler::Scratch& scratch);
  void finish_tile(const Ring::Ticket& ticket, BatchAssembler::Scratch& scratch);
  void run_tile(const Ring::Ticket& ticket, const AheadTile& ahead,
                BatchAssembler::Scratch& scratch);
  void make_tiles(std::uint64_t number);
  void make_inline(std::uint64_t number);
  void make_or_await(std::uint64_t number);
  void count_skipped(std::uint64_t number);
  void release_before(std::uint64_t number);
  void restart(std::int64_t epoch, std::int64_t first_batch);
  void stop_workers();
  void start_workers();
  [[nodiscard]] Sequence sequence_from(std::int64_t epoch, std::int64_t first_batch);

  [[nodiscard]] std::int64_t epoch_of(std::uint64_t number) const {
    return base_epoch_ + (base_batch_ + static_cast<std::int64_t>(number)) / plan_.batches();
  }
  [[nodiscard]] std::int64_t batch_of(std::uint64_t number) const {
    return (base_batch_ + static_cast<std::int64_t>(number)) % plan_.batches();
  }
  [[nodiscard]] std::span<std::byte> slot(std::uint64_t number) {
    return arena_.bytes().subspan(
        static_cast<std::size_t>(ring_.slot_of(number)) * assembler_.slot_shape().bytes,
        assembler_.slot_shape().bytes);
  }
  [[nodiscard]] std::atomic<std::uint64_t>& digest(std::uint64_t number) {
    return digests_[static_cast<std::size_t>(ring_.slot_of(number))];
  }
  [[nodiscard]] TileJob job(const Ring::Ticket& ticket);

  LoaderOptions options_;
  BatchAssembler assembler_;
  Orders orders_;
  BatchPlan plan_;
  FetchAhead fetches_;  // downloads of a remote data set
  Ring ring_;
  const int in_flight_;
  std::vector<std::atomic<std::uint64_t>> digests_;  // by slot: sum over the finished tiles
  Arena arena_;
  std::unique_ptr<ReadAhead> ahead_;  // null: no read-ahead
  // Whether the consumer makes batches instead of waiting. This pays off when a tile is a whole
  // batch of copied rows (decoding a tile may take longer than the wait), and when the workers
  // leave a core to the consumer (otherwise it may be preempted in the middle of a batch that all
  // wait for).
  const bool consumer_makes_tiles_;

  // The state of the consumer: batches are numbered from base_batch_ of base_epoch_, across epochs.
  std::int64_t base_epoch_ = -1;
  std::int64_t base_batch_ = 0;
  std::uint64_t epoch_end_ = 0;
  std::uint64_t next_ = 0;
  std::uint64_t released_ = 0;  // the caller or a device may read the batches from here to next_
  Batch batch_;
  BatchAssembler::Scratch inline_scratch_;

  std::stop_source stop_;  // cancels transfers that a worker waits for
  // Starts and pauses the threads. Not used while batches are being made.
  std::mutex mutex_;
  std::condition_variable changed_;
  std::uint64_t round_ = 0;
  int running_ = 0;
  bool quit_ = false;
  std::vector<std::thread> threads_;
};

}  // namespace trainctl::data
