#include "data/loader/loader.hpp"

#include "base/error.hpp"
#include "base/machine/machine.hpp"
#include "base/machine/numa.hpp"
#include "data/core/parallel.hpp"
#include "data/core/run_control.hpp"
#include "data/loader/batch_assembler.hpp"
#include "data/loader/host_memory.hpp"
#include "data/loader/loading_plan.hpp"
#include "data/loader/order.hpp"
#include "data/loader/ring.hpp"
#include "data/read_ahead/read_ahead.hpp"
#include "data/remote/fetch_ahead.hpp"
#include "spec/experiment/run_size.hpp"

#include <algorithm>
#include <condition_variable>
#include <limits>
#include <mutex>
#include <stop_token>
#include <thread>
#include <utility>

namespace trainctl::data {
namespace {

/// The kernel takes memory where the thread runs that touches it first.
Arena near_arena(std::size_t bytes, const LoaderOptions& options) {
  const CoreGuard guard(options.cores);
  return Arena(bytes);
}

/// With no room for rows that no batch has.
LoaderOptions fitted(LoaderOptions options, const Dataset& dataset) {
  if (options.last_batch == LastBatch::keep && !options.sampling)
    options.batch_size =
        spec::rows_of_batch(options.batch_size, dataset.size(), options.shard.world_size);
  return options;
}

/// As people count.
std::string frame_of(std::int64_t epoch, std::int64_t batch) {
  return fmt::format("epoch {}, batch {}", epoch + 1, batch + 1);
}

}  // namespace

class Loader::Impl {
 public:
  Impl(Pipeline pipeline, LoaderOptions options);
  ~Impl();

  void start_epoch(std::int64_t epoch, std::int64_t first_batch);
  const Batch* next();
  void rest();

  [[nodiscard]] std::vector<RowSample> samples_of(const Batch& batch);
  [[nodiscard]] const TileMaker& maker() const { return maker_; }
  [[nodiscard]] const BatchPlan& plan() const { return plan_; }
  [[nodiscard]] const Orders& orders() const { return orders_; }
  [[nodiscard]] const Arena& arena() const { return arena_; }

 private:
  std::unique_ptr<ReadAhead> make_ahead();
  void make_threads();
  void join_threads();
  void run_worker(TileMaker::Scratch& scratch);
  void work(TileMaker::Scratch& scratch);
  void finish_tile(const Ring::Ticket& ticket, TileMaker::Scratch& scratch);
  void run_tile(const Ring::Ticket& ticket, const AheadTile& ahead, TileMaker::Scratch& scratch);
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
        static_cast<std::size_t>(ring_.slot_of(number)) * maker_.slot_shape().bytes,
        maker_.slot_shape().bytes);
  }

  LoaderOptions options_;
  TileMaker maker_;
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
  std::optional<std::uint64_t> held_;  // the batch that the caller may be reading
  Batch batch_;
  TileMaker::Scratch inline_scratch_;

  std::stop_source stop_;  // of transfers that a worker waits for
  // Starting and parking the threads; never touched while batches flow.
  std::mutex mutex_;
  std::condition_variable changed_;
  std::uint64_t round_ = 0;
  int running_ = 0;
  bool quit_ = false;
  std::vector<std::thread> threads_;
};

Loader::Impl::Impl(Pipeline pipeline, LoaderOptions options)
    : options_(fitted(std::move(options), *pipeline.dataset)),
      maker_(std::move(pipeline), options_),
      orders_(*maker_.pipeline().dataset, options_),
      plan_(orders_.positions(), options_),
      fetches_(maker_.pipeline().dataset, options_.shard.world_size),
      ring_(ring_slots(options_, maker_.slot_shape().bytes), maker_.tiles()),
      arena_(near_arena(static_cast<std::size_t>(ring_.slots()) * maker_.slot_shape().bytes,
                        options_)),
      ahead_(make_ahead()),
      helps_(maker_.tiles() == 1 && options_.num_workers < usable_cores()),
      inline_scratch_(maker_.scratch()) {
  batch_.fields.resize(maker_.slot_layout().size());
  make_threads();
}

Loader::Impl::~Impl() { join_threads(); }

std::unique_ptr<ReadAhead> Loader::Impl::make_ahead() {
  const Dataset& dataset = *maker_.pipeline().dataset;
  const std::uint64_t bytes = ahead_memory(dataset, options_, arena_.bytes().size());
  if (bytes == 0) return nullptr;
  const int tiles = options_.num_workers > 0 ? maker_.tiles() : 1;
  return std::make_unique<ReadAhead>(ReadAhead::Shared{dataset, orders_, plan_, tiles}, options_,
                                     bytes);
}

void Loader::Impl::make_threads() {
  threads_.reserve(static_cast<std::size_t>(std::max(0, options_.num_workers)));
  try {
    for (int i = 0; i < options_.num_workers; ++i) {
      threads_.emplace_back([this, scratch = maker_.scratch()]() mutable { run_worker(scratch); });
    }
  } catch (const std::exception& error) {
    const std::size_t started = threads_.size();
    join_threads();
    throw Error(ErrorKind::resource,
                fmt::format("could start {} of {} loader threads: {}; lower loader.num_workers",
                            started, options_.num_workers, error.what()));
  }
}

void Loader::Impl::join_threads() {
  // Those that fetch hold locks that the workers may wait for.
  fetches_.stop();
  stop_.request_stop();
  ring_.close();
  if (ahead_) ahead_->stop();
  {
    const std::lock_guard lock(mutex_);
    quit_ = true;
  }
  changed_.notify_all();
  for (std::thread& thread : threads_) thread.join();
}

void Loader::Impl::run_worker(TileMaker::Scratch& scratch) {
  prepare_thread("trainctl-loader", options_.priority);
  keep_to_cores(options_.cores);
  const StopScope scope(stop_.get_token());
  std::uint64_t seen = 0;
  while (true) {
    {
      std::unique_lock lock(mutex_);
      changed_.wait(lock, [&] { return quit_ || round_ != seen; });
      if (quit_) return;
      seen = round_;
    }
    work(scratch);
    const std::lock_guard lock(mutex_);
    if (--running_ == 0) changed_.notify_all();
  }
}

void Loader::Impl::work(TileMaker::Scratch& scratch) {
  while (const auto ticket = ring_.take()) finish_tile(*ticket, scratch);
}

void Loader::Impl::finish_tile(const Ring::Ticket& ticket, TileMaker::Scratch& scratch) {
  std::exception_ptr error;
  try {
    const AheadTile ahead(ahead_.get(), ticket.batch);  // it may wait, until the loader stops
    if (!ring_.closed()) run_tile(ticket, ahead, scratch);
  } catch (...) {
    error = std::current_exception();
  }
  ring_.finish(ticket, std::move(error));
}

void Loader::Impl::help(std::uint64_t number) {
  // A tile that waits for the disk may be later than the batch that is wanted.
  while (!ring_.published(number) && !(ahead_ && ahead_->reads())) {
    const auto ticket = ring_.try_take();
    if (!ticket) return;
    finish_tile(*ticket, inline_scratch_);
  }
}

void Loader::Impl::run_tile(const Ring::Ticket& ticket, const AheadTile& ahead,
                            TileMaker::Scratch& scratch) {
  const std::int64_t batch = batch_of(ticket.batch);
  TileJob job;
  job.epoch = epoch_of(ticket.batch);
  job.batch = batch;
  job.extent = plan_.extent(batch);
  job.tile = ticket.tile;
  job.slot = slot(ticket.batch);
  job.ahead = ahead.reads() ? &ahead : nullptr;
  try {
    if (scratch.epoch != job.epoch) scratch.order = orders_.get(job.epoch);
    scratch.epoch = job.epoch;
    maker_.make(job, scratch);
    note_progress();
  } catch (Error& error) {
    error.add_frame(frame_of(job.epoch, batch));
    throw;
  }
  // One worker makes the next epoch's order while the others go on with this epoch.
  if (ticket.tile == 0 && batch == plan_.batches() / 2 && !threads_.empty())
    orders_.get(job.epoch + 1);
}

void Loader::Impl::stop_workers() {
  ring_.close();
  if (ahead_) ahead_->stop();
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [&] { return running_ == 0; });
}

void Loader::Impl::start_workers() {
  ring_.open();
  const std::lock_guard lock(mutex_);
  ++round_;
  running_ = static_cast<int>(threads_.size());
  changed_.notify_all();
}

void Loader::Impl::restart(std::int64_t epoch, std::int64_t first_batch) {
  stop_workers();
  base_epoch_ = epoch;
  base_batch_ = first_batch;
  next_ = 0;
  held_.reset();
  maker_.skipped().forget();
  if (ahead_) ahead_->start(epoch, first_batch);
  start_workers();
}

void Loader::Impl::rest() {
  stop_workers();
  held_.reset();
  base_epoch_ = -1;  // whatever epoch comes, it does not follow
}

void Loader::Impl::start_epoch(std::int64_t epoch, std::int64_t first_batch) {
  ENSURE(config, epoch >= 0 && epoch < std::numeric_limits<std::uint32_t>::max(),
         "epoch {} is out of range", epoch);
  ENSURE(config, first_batch >= 0 && first_batch <= plan_.batches(),
         "batch {} is out of range: an epoch has {} batches; has the data or loader.batch_size "
         "changed?",
         first_batch, plan_.batches());
  const bool follows =
      base_epoch_ >= 0 && next_ == epoch_end_ && epoch_of(epoch_end_) == epoch && first_batch == 0;
  if (fetches_.is_active() && first_batch < plan_.batches())
    fetches_.begin(sequence_from(epoch, first_batch));
  if (!follows) restart(epoch, first_batch);
  epoch_end_ = next_ + static_cast<std::uint64_t>(plan_.batches() - first_batch);
}

/// What this rank uses of the epoch.
Sequence Loader::Impl::sequence_from(std::int64_t epoch, std::int64_t first_batch) {
  const Extent from = plan_.extent(first_batch);
  const Extent last = plan_.extent(plan_.batches() - 1);
  const std::int64_t end = last.first + last.valid * last.step;
  return {orders_.get(epoch), from.first, from.step,
          (end - from.first + from.step - 1) / from.step};
}

void Loader::Impl::make_inline(std::uint64_t number) {
  const AheadTile ahead(ahead_.get(), number);
  for (int tile = 0; tile < maker_.tiles(); ++tile)
    run_tile({number, tile}, ahead, inline_scratch_);
}

const Batch* Loader::Impl::next() {
  ASSERT(base_epoch_ >= 0);
  if (held_) ring_.release(*held_);
  held_.reset();
  if (next_ == epoch_end_) return nullptr;
  const std::uint64_t number = next_++;
  held_ = number;
  try {
    make_or_await(number);
  } catch (...) {
    fetches_.used(plan_.extent(batch_of(number)).valid);
    throw;
  }
  charge_skipped(number);
  fill_in(number);
  fetches_.used(batch_.valid);
  return &batch_;
}

void Loader::Impl::make_or_await(std::uint64_t number) {
  if (threads_.empty()) return make_inline(number);
  if (helps_) help(number);
  if (const std::exception_ptr error = ring_.await(number)) std::rethrow_exception(error);
}

void Loader::Impl::charge_skipped(std::uint64_t number) {
  try {
    maker_.skipped().charge(epoch_of(number), batch_of(number));
  } catch (Error& error) {
    error.add_frame(frame_of(epoch_of(number), batch_of(number)));
    throw;
  }
}

void Loader::Impl::fill_in(std::uint64_t number) {
  batch_.epoch = epoch_of(number);
  batch_.index = batch_of(number);
  const Extent extent = plan_.extent(batch_.index);
  batch_.rows = extent.rows;
  batch_.valid = extent.valid;
  batch_.global_valid = extent.global_valid;
  batch_.position = extent.first;
  batch_.position_step = extent.step;
  const std::span<const std::byte> bytes = slot(number);
  for (std::size_t field = 0; field < maker_.slot_layout().size(); ++field) {
    batch_.fields[field] =
        bytes.subspan(maker_.slot_shape().offsets[field],
                      maker_.slot_layout()[field].bytes() * static_cast<std::size_t>(extent.rows));
  }
}

std::vector<RowSample> Loader::Impl::samples_of(const Batch& batch) {
  const Dataset& dataset = *maker_.pipeline().dataset;
  const auto order = orders_.get(batch.epoch);
  const Extent extent = plan_.extent(batch.index);
  std::vector<RowSample> samples;
  for (std::int64_t row = 0; row < batch.valid; ++row) {
    const std::int64_t index = sample_of(extent, row, order.get());
    samples.push_back({index, dataset.images() != nullptr ? dataset.images()->name(index)
                                                          : fmt::format("sample {}", index)});
  }
  return samples;
}

Loader::Loader(Pipeline pipeline, LoaderOptions options)
    : impl_(std::make_unique<Impl>(std::move(pipeline), std::move(options))) {}
Loader::~Loader() = default;

const Layout& Loader::layout() const { return impl_->maker().layout(); }
const std::optional<Normalization>& Loader::normalization() const {
  return impl_->maker().pipeline().normalization;
}
const std::shared_ptr<const HeldImages>& Loader::held() const {
  return impl_->maker().pipeline().held;
}
std::int64_t Loader::classes() const { return impl_->maker().pipeline().dataset->classes(); }
std::int64_t Loader::samples() const { return impl_->orders().positions(); }
std::int64_t Loader::batches_per_epoch() const { return impl_->plan().batches(); }
std::vector<SkippedSample> Loader::skipped() const { return impl_->maker().skipped().list(); }
void Loader::serialize(StateArchive& archive) {
  SkippedSamples& skipped = impl_->maker().skipped();
  std::vector<std::uint64_t> counted = skipped.counted();
  archive.value("skipped", &counted);
  skipped.count_before(counted);
}
std::span<const std::byte> Loader::memory() const { return impl_->arena().bytes(); }
std::vector<RowSample> Loader::samples_of(const Batch& batch) const {
  return impl_->samples_of(batch);
}
void Loader::start_epoch(std::int64_t epoch, std::int64_t first_batch) {
  impl_->start_epoch(epoch, first_batch);
}
const Batch* Loader::next() { return impl_->next(); }
void Loader::rest() { impl_->rest(); }

}  // namespace trainctl::data
