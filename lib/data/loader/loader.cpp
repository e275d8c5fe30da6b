#include "data/loader/loader.hpp"

#include "base/machine/machine.hpp"
#include "base/machine/numa.hpp"
#include "base/numbers.hpp"
#include "data/core/run_control.hpp"
#include "data/loader/loading_plan.hpp"
#include "spec/experiment/experiment.hpp"

namespace trainctl::data {
namespace {

/// Allocates memory near options.cores: the kernel uses the NUMA node of the thread that first
/// touches a page.
Arena near_arena(std::size_t bytes, const LoaderOptions& options) {
  const CoreGuard guard(options.cores);
  return Arena(bytes);
}

/// Limits the batch size to the largest batch of an epoch.
LoaderOptions fitted(LoaderOptions options, const Dataset& dataset) {
  if (options.last_batch == LastBatch::keep && !options.sampling)
    options.batch_size =
        spec::rows_of_batch(options.batch_size, dataset.size(), options.shard.world_size);
  return options;
}

std::string frame_of(std::int64_t epoch, std::int64_t batch) {
  return fmt::format("epoch {}, batch {}", epoch + 1, batch + 1);
}

}  // namespace

Loader::Loader(Pipeline pipeline, LoaderOptions options)
    : options_(fitted(std::move(options), *pipeline.dataset)),
      assembler_(std::move(pipeline), options_),
      orders_(*assembler_.pipeline().dataset, options_),
      plan_(orders_.positions(), options_),
      fetches_(assembler_.pipeline().dataset, options_.shard.world_size),
      ring_(ring_slots(options_, assembler_.slot_shape().bytes), assembler_.tiles()),
      in_flight_(std::min(options_.in_flight, ring_.slots() - least_slots(options_))),
      digests_(static_cast<std::size_t>(ring_.slots())),
      arena_(near_arena(static_cast<std::size_t>(ring_.slots()) * assembler_.slot_shape().bytes,
                        options_)),
      ahead_(make_ahead()),
      consumer_makes_tiles_(assembler_.tiles() == 1 && options_.num_workers < usable_cores()),
      inline_scratch_(assembler_.scratch()) {
  make_threads();
}

Loader::~Loader() { join_threads(); }

std::unique_ptr<ReadAhead> Loader::make_ahead() {
  const Dataset& dataset = *assembler_.pipeline().dataset;
  const std::uint64_t bytes = read_ahead_within_budget(dataset, options_, arena_.bytes().size());
  if (bytes == 0) return nullptr;
  const int tiles = options_.num_workers > 0 ? assembler_.tiles() : 1;
  return std::make_unique<ReadAhead>(ReadAhead::Shared{dataset, orders_, plan_, tiles}, options_,
                                     bytes);
}

void Loader::make_threads() {
  threads_.reserve(static_cast<std::size_t>(std::max(0, options_.num_workers)));
  try {
    for (int i = 0; i < options_.num_workers; ++i) {
      threads_.emplace_back(
          [this, scratch = assembler_.scratch()]() mutable { run_worker(scratch); });
    }
  } catch (const std::exception& error) {
    const std::size_t started = threads_.size();
    join_threads();
    throw Error(
        ErrorKind::resource,
        fmt::format("cannot start loader thread {} of {}: {}\nhint: lower loader.num_workers",
                    started + 1, options_.num_workers, error.what()));
  }
}

void Loader::join_threads() {
  // The download threads stop first, because they hold locks that workers may wait for.
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

void Loader::run_worker(BatchAssembler::Scratch& scratch) {
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
    while (const auto ticket = ring_.take()) finish_tile(*ticket, scratch);
    const std::lock_guard lock(mutex_);
    if (--running_ == 0) changed_.notify_all();
  }
}

void Loader::finish_tile(const Ring::Ticket& ticket, BatchAssembler::Scratch& scratch) {
  std::exception_ptr error;
  try {
    const AheadTile ahead(ahead_.get(), ticket.batch);  // may wait until the loader stops
    if (!ring_.closed()) run_tile(ticket, ahead, scratch);
  } catch (...) {
    error = std::current_exception();
  }
  ring_.finish(ticket, std::move(error));
}

void Loader::make_tiles(std::uint64_t number) {
  // A tile that waits for the disk could finish later than the requested batch.
  while (!ring_.published(number) && !(ahead_ && ahead_->reads())) {
    const auto ticket = ring_.try_take();
    if (!ticket) return;
    finish_tile(*ticket, inline_scratch_);
  }
}

void Loader::run_tile(const Ring::Ticket& ticket, const AheadTile& ahead,
                      BatchAssembler::Scratch& scratch) {
  TileJob tile = job(ticket);
  tile.ahead = ahead.reads() ? &ahead : nullptr;
  try {
    if (scratch.epoch != tile.epoch) scratch.order = orders_.get(tile.epoch);
    scratch.epoch = tile.epoch;
    assembler_.make(tile, scratch);
    if (options_.digests && !held()) digest(ticket.batch) += assembler_.digest(tile, scratch);
    note_progress();
  } catch (Error& error) {
    error.add_frame(frame_of(tile.epoch, tile.batch));
    throw;
  }
  // One worker prepares the next epoch's order while the others load this epoch.
  if (ticket.tile == 0 && tile.batch == plan_.batches() / 2 && !threads_.empty())
    orders_.get(tile.epoch + 1);
}

TileJob Loader::job(const Ring::Ticket& ticket) {
  const std::int64_t batch = batch_of(ticket.batch);
  return {.epoch = epoch_of(ticket.batch),
          .batch = batch,
          .extent = plan_.extent(batch),
          .tile = ticket.tile,
          .slot = slot(ticket.batch)};
}

void Loader::stop_workers() {
  ring_.close();
  if (ahead_) ahead_->stop();
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [&] { return running_ == 0; });
}

void Loader::start_workers() {
  ring_.open();
  const std::lock_guard lock(mutex_);
  ++round_;
  running_ = static_cast<int>(threads_.size());
  changed_.notify_all();
}

void Loader::restart(std::int64_t epoch, std::int64_t first_batch) {
  stop_workers();
  base_epoch_ = epoch;
  base_batch_ = first_batch;
  next_ = released_ = 0;
  for (auto& sum : digests_) sum = 0;
  assembler_.skipped().discard_pending();
  if (ahead_) ahead_->start(epoch, first_batch);
  start_workers();
}

void Loader::pause() {
  stop_workers();
  released_ = next_;
  base_epoch_ = -1;  // makes any epoch restart the ring
}

void Loader::start_epoch(std::int64_t epoch, std::int64_t first_batch) {
  ENSURE(config, epoch >= 0 && epoch < std::numeric_limits<std::uint32_t>::max(),
         "epoch {} is out of range", epoch);
  ENSURE(config, first_batch >= 0 && first_batch <= plan_.batches(),
         "cannot start at batch {}: an epoch has {}\nhint: check whether the data or "
         "loader.batch_size has changed",
         first_batch, counted(plan_.batches(), "batch", "batches"));
  const bool follows =
      base_epoch_ >= 0 && next_ == epoch_end_ && epoch_of(epoch_end_) == epoch && first_batch == 0;
  if (fetches_.is_active() && first_batch < plan_.batches())
    fetches_.begin(sequence_from(epoch, first_batch));
  if (!follows) restart(epoch, first_batch);
  epoch_end_ = next_ + static_cast<std::uint64_t>(plan_.batches() - first_batch);
}

/// Returns this rank's part of the epoch's order.
Sequence Loader::sequence_from(std::int64_t epoch, std::int64_t first_batch) {
  const Extent from = plan_.extent(first_batch);
  const Extent last = plan_.extent(plan_.batches() - 1);
  const std::int64_t end = last.first + last.valid * last.step;
  return {orders_.get(epoch), from.first, from.step,
          (end - from.first + from.step - 1) / from.step};
}

void Loader::make_inline(std::uint64_t number) {
  const AheadTile ahead(ahead_.get(), number);
  for (int tile = 0; tile < assembler_.tiles(); ++tile)
    run_tile({number, tile}, ahead, inline_scratch_);
}

const Batch* Loader::next() {
  ASSERT(base_epoch_ >= 0);
  release_before(next_ - std::min(next_, static_cast<std::uint64_t>(in_flight_)));
  if (next_ == epoch_end_) return nullptr;
  const std::uint64_t number = next_++;
  try {
    make_or_await(number);
  } catch (...) {
    fetches_.used(plan_.extent(batch_of(number)).valid);
    throw;
  }
  count_skipped(number);
  assembler_.describe(job({number, 0}), batch_);
  batch_.digest = digest(number);
  fetches_.used(batch_.valid);
  return &batch_;
}

void Loader::release_before(std::uint64_t number) {
  for (; released_ < number; ++released_) {
    digest(released_) = 0;
    ring_.release(released_);
  }
}

void Loader::make_or_await(std::uint64_t number) {
  if (threads_.empty()) return make_inline(number);
  if (consumer_makes_tiles_) make_tiles(number);
  if (const std::exception_ptr error = ring_.await(number)) std::rethrow_exception(error);
}

void Loader::count_skipped(std::uint64_t number) {
  try {
    assembler_.skipped().count_batch(epoch_of(number), batch_of(number));
  } catch (Error& error) {
    error.add_frame(frame_of(epoch_of(number), batch_of(number)));
    throw;
  }
}

std::vector<std::int64_t> Loader::indices_of(const Batch& batch) const {
  const auto order = orders_.get(batch.epoch);
  const Extent extent = plan_.extent(batch.index);
  std::vector<std::int64_t> indices;
  for (std::int64_t row = 0; row < batch.valid; ++row)
    indices.push_back(sample_of(extent, row, order.get()));
  return indices;
}

std::vector<RowSample> Loader::samples_of(const Batch& batch) const {
  std::vector<RowSample> samples;
  for (const std::int64_t index : indices_of(batch))
    samples.push_back({index, sample_name(*assembler_.pipeline().dataset, index)});
  return samples;
}

void Loader::serialize(StateArchive& archive) {
  std::vector<std::uint64_t> counted = assembler_.skipped().indices();
  archive.value("skipped", &counted);
  assembler_.skipped().count_before(counted);
}

}  // namespace trainctl::data
