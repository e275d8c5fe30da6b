#pragma once

#include "base/state_archive.hpp"
#include "data/loader/batch_assembler.hpp"
#include "data/loader/ring.hpp"
#include "data/read_ahead/read_ahead.hpp"
#include "data/remote/fetch_ahead.hpp"

#include <condition_variable>
#include <stop_token>
#include <thread>

namespace trainctl::data {

/// What a row of a batch was made of.
struct RowSample {
  std::int64_t index = 0;  // in the data set
  std::string name;        // a path, an entry of an archive, "sample 7"
};

/// Batches in an order fixed by (seed, epoch) alone: the same bytes for any worker count and
/// prefetch depth. Owns the ring of slots and the threads, which live as long as the loader; one
/// consumer. Workers expect epoch e + 1 behind epoch e and start on it early; any other epoch
/// restarts the ring.
class Loader {
 public:
  /// Throws Error(config) where no batch comes out or a transform does not fit, Error(resource)
  /// where the ring would exceed its memory budget.
  Loader(Pipeline pipeline, LoaderOptions options);
  ~Loader();
  Loader(const Loader&) = delete;
  Loader& operator=(const Loader&) = delete;

  /// After the transforms: of the samples, even where a batch has plans in place of their images.
  [[nodiscard]] const Layout& layout() const { return assembler_.layout(); }
  /// Null where the batches have the pixels themselves.
  [[nodiscard]] const std::shared_ptr<const HeldImages>& held() const {
    return assembler_.pipeline().held;
  }
  [[nodiscard]] const std::optional<Normalization>& normalization() const {
    return assembler_.pipeline().normalization;
  }
  [[nodiscard]] std::int64_t classes() const { return assembler_.pipeline().dataset->classes(); }
  /// Of an epoch.
  [[nodiscard]] std::int64_t samples() const { return orders_.positions(); }
  /// The same on every rank.
  [[nodiscard]] std::int64_t batches_per_epoch() const { return plan_.batches(); }
  /// The damaged samples of the batches that next() has given, each once.
  [[nodiscard]] std::vector<SkippedSample> skipped() const { return assembler_.skipped().list(); }
  /// Which samples count as damaged; those of an earlier process are not among skipped().
  void serialize(StateArchive& archive);

  /// Begins `epoch`; with workers its first batches may already be there. With `first_batch` the
  /// epoch resumes there, with the same bytes as if it had begun at 0: (epoch, batch) is all the
  /// state there is.
  void start_epoch(std::int64_t epoch, std::int64_t first_batch = 0);
  /// The next batch of the epoch, or nullptr at its end. Rethrows what a worker threw, with the
  /// sample's name; the call after that goes on with the next batch.
  const Batch* next();

  /// No batch is wanted for now: the workers end the tiles under way and take no others. The batch
  /// that next() gave is no longer held; start_epoch() restarts the ring.
  void rest();

  /// The samples of the rows of a batch that count. One that could not be read is named though
  /// another stands in its place.
  [[nodiscard]] std::vector<RowSample> samples_of(const Batch& batch) const;

  /// The whole ring, for a layer above that page-locks it; every batch's fields lie in it.
  [[nodiscard]] std::span<const std::byte> memory() const { return arena_.bytes(); }

 private:
  std::unique_ptr<ReadAhead> make_ahead();
  void make_threads();
  void join_threads();
  void run_worker(BatchAssembler::Scratch& scratch);
  void finish_tile(const Ring::Ticket& ticket, BatchAssembler::Scratch& scratch);
  void run_tile(const Ring::Ticket& ticket, const AheadTile& ahead,
                BatchAssembler::Scratch& scratch);
  void help(std::uint64_t number);
  void make_inline(std::uint64_t number);
  void make_or_await(std::uint64_t number);
  void charge_skipped(std::uint64_t number);
  void fill_in(std::uint64_t number);
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

  LoaderOptions options_;
  BatchAssembler assembler_;
  Orders orders_;
  BatchPlan plan_;
  FetchAhead fetches_;  // of a remote data set
  Ring ring_;
  Arena arena_;
  std::unique_ptr<ReadAhead> ahead_;  // null: nothing is read ahead
  // The caller makes batches rather than wait, where a tile is a whole batch of rows that are
  // merely copied (a decoded tile may take longer than the wait), and the workers leave it a core
  // (else it may be put to sleep in the middle of a batch, and all would wait for that one).
  const bool helps_;

  // The consumer's: batches are numbered from base_batch_ of base_epoch_, across epochs.
  std::int64_t base_epoch_ = -1;
  std::int64_t base_batch_ = 0;
  std::uint64_t epoch_end_ = 0;
  std::uint64_t next_ = 0;
  std::optional<std::uint64_t> lent_;  // the batch that the caller may be reading
  Batch batch_;
  BatchAssembler::Scratch inline_scratch_;

  std::stop_source stop_;  // of transfers that a worker waits for
  // Starting and parking the threads; never touched while batches flow.
  std::mutex mutex_;
  std::condition_variable changed_;
  std::uint64_t round_ = 0;
  int running_ = 0;
  bool quit_ = false;
  std::vector<std::thread> threads_;
};

}  // namespace trainctl::data
