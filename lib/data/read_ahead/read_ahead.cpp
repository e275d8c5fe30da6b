#include "data/read_ahead/read_ahead.hpp"

#include "base/error.hpp"
#include "base/machine/machine.hpp"
#include "data/formats/file_reader.hpp"

#include <system_error>

namespace trainctl::data {
namespace {

constexpr std::uint64_t kWindowBytes = 64 << 20;
constexpr std::int64_t kWindowRows = 16'384;
constexpr std::int64_t kCacheProbes = 32;                     // page cache probes per window
constexpr std::uint64_t kLeastBytes = 1 << 20;                // less does not justify a thread
constexpr std::uint64_t kMostBytes = std::uint64_t{1} << 30;  // limit of one image

/// Returns an estimate with a margin for batches of larger images.
std::uint64_t batch_bytes(const ImageRanges& ranges, std::int64_t samples, std::int64_t rows) {
  const std::uint64_t each = ranges.bytes() / static_cast<std::uint64_t>(samples) + kReadPage;
  return each * static_cast<std::uint64_t>(rows) / 8 * 9;
}

const ImageRanges* ranges_of(const Dataset& dataset) {
  return dataset.images() != nullptr ? dataset.images()->ranges() : nullptr;
}

constexpr std::uint64_t kLargeSample = 64
                                       << 10;  // larger samples are read at full speed in any order
constexpr std::size_t kMostFiles = 64;
constexpr std::uint64_t kChunk = 1 << 20;

}  // namespace

std::uint64_t read_ahead_bytes(const Dataset& dataset, const LoaderOptions& options,
                               std::uint64_t left) {
  const ImageRanges* ranges = ranges_of(dataset);
  if (ranges == nullptr || options.read_ahead == 0) return 0;
  const std::uint64_t batch = batch_bytes(*ranges, dataset.size(), options.batch_size);
  const std::uint64_t wanted = options.read_ahead
                                   ? batch * static_cast<std::uint64_t>(*options.read_ahead)
                                   : std::max(batch, kWindowBytes);
  const std::uint64_t whole = batch_bytes(*ranges, dataset.size(), dataset.size());
  const std::uint64_t window = std::min(wanted, whole) / kReadPage * kReadPage + kReadPage;
  const std::uint64_t room = left / ReadAhead::kWindows / kReadPage * kReadPage;
  if (room < std::min(kLeastBytes, window)) return 0;
  return std::min(window, room) * ReadAhead::kWindows;
}

AheadTile::AheadTile(ReadAhead* owner, std::uint64_t batch)
    : owner_(owner), batch_(batch), window_(owner != nullptr ? owner->window_of(batch) : nullptr) {}

AheadTile::~AheadTile() {
  if (window_ != nullptr) owner_->give_back(*window_);
}

std::optional<StoredImage> AheadTile::image(std::int64_t row, std::int64_t index,
                                            std::vector<std::byte>& scratch) const {
  if (!reads()) return std::nullopt;
  const auto place = static_cast<std::size_t>(
      static_cast<std::int64_t>(batch_ - window_->first) * owner_->batch_size_ + row);
  if (window_->samples[place] != index) return std::nullopt;
  const std::uint32_t number = window_->range_of[place];
  const RangeLocation& location = window_->plan.places[number];
  const FileRange& range = window_->ranges[number];
  std::atomic<ReadState>& state = window_->states[location.read];
  state.wait(ReadState::pending, std::memory_order_acquire);
  if (state.load(std::memory_order_acquire) == ReadState::done)
    return owner_->ranges_.image(index, window_->memory.subspan(location.at, range.bytes));
  // Several samples may share the failed read, and this one may be intact.
  if (scratch.size() < range.bytes) scratch.resize(range.bytes);
  const auto bytes = std::span(scratch).first(range.bytes);
  owner_->ranges_.open(range.file).read(range.offset, bytes);
  return owner_->ranges_.image(index, bytes);
}

ReadAhead::ReadAhead(const Shared& shared, const LoaderOptions& options, std::uint64_t bytes)
    : shared_(shared),
      ranges_(*ranges_of(shared.dataset)),
      batch_size_(options.batch_size),
      requested_batches_(options.read_ahead),
      takes_most_(shared.plan.batches() * options.batch_size * options.shard.world_size * 2 >=
                  shared.dataset.size()),
      arena_(bytes, Touch::on_use) {
  for (std::size_t i = 0; i < kWindows; ++i)
    windows_[i].memory = arena_.bytes().subspan(i * (bytes / kWindows), bytes / kWindows);
}

ReadAhead::~ReadAhead() {
  stop();
  stream_.reset();
  // The memory is leaked on purpose, because pending reads may still write to it.
  if (broken_) (void)new Arena(std::move(arena_));
}

void ReadAhead::start(std::int64_t epoch, std::int64_t first_batch) {
  base_epoch_ = epoch;
  base_batch_ = first_batch;
  next_batches_ = 1;  // the trainer waits for the first batch, so it gets a small window
  planned_ = 0;
  if (broken_) return;  // tiles read without it
  stopped_ = false;
  for (Window& window : windows_) {
    window.used = false;
    window.reads_left = 0;
  }
  try {
    thread_ = std::thread([this] { run(); });
  } catch (const std::system_error&) {
    stopped_ = true;  // tiles read without it
  }
}

void ReadAhead::stop() {
  {
    const std::lock_guard lock(mutex_);
    stopped_ = true;
  }
  changed_.notify_all();
  if (thread_.joinable()) thread_.join();
}

Window* ReadAhead::window_of(std::uint64_t batch) {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [&] { return stopped_ || batch < planned_; });
  if (batch >= planned_) return nullptr;
  const auto window = std::find_if(windows_.begin(), windows_.end(), [&](const Window& one) {
    return one.used && one.first <= batch && batch < one.end;
  });
  ASSERT(window != windows_.end());
  return &*window;
}

void ReadAhead::give_back(Window& window) {
  const std::lock_guard lock(mutex_);
  if (--window.tiles_left > 0) return;
  window.used = false;
  changed_.notify_all();
}

void ReadAhead::run() {
  prepare_thread("trainctl-ahead", Priority::normal);
  try {
    read_windows();
  } catch (const std::exception&) {
    // Tiles then read without it and report the error.
  }
  broken_ = reader_ && !reader_->drain();
  reader_.reset();
  reads_.store(false, std::memory_order_relaxed);
  {
    const std::lock_guard lock(mutex_);
    stopped_ = true;
  }
  changed_.notify_all();
  for (Window& window : windows_) window.give_up();
}

void ReadAhead::read_windows() {
  while (true) {
    const bool idle = !reader_ || reader_->idle();
    if (!reader_ || reader_->all_begun()) {
      if (plan_next(idle ? Wait::yes : Wait::no)) continue;
      if (idle) return;
    }
    reader_->step();
    const std::lock_guard lock(mutex_);
    if (stopped_) return;
  }
}

/// Returns false when there is no free window or nothing left to read.
bool ReadAhead::plan_next(Wait wait) {
  Window* window = free_window(wait);
  if (window == nullptr) return false;
  choose_batches(*window);
  if (requested_batches_ || !is_cached(*window)) {
    if (!requested_batches_) stream_files();
    choose_rows(*window);
    window->plan_reads();
  }
  const bool reads = window->reads_left > 0;
  reads_.store(reads, std::memory_order_relaxed);
  if (reads && !reader_) reader_ = std::make_unique<WindowReader>(ranges_, arena_.bytes());
  {
    const std::lock_guard lock(mutex_);
    window->used = true;
    window->tiles_left = static_cast<std::int64_t>(window->end - window->first) * shared_.tiles;
    planned_ = window->end;
  }
  changed_.notify_all();
  if (reads) reader_->add(*window);
  return true;
}

Window* ReadAhead::free_window(Wait wait) {
  std::unique_lock lock(mutex_);
  const auto find = [&] {
    return std::find_if(windows_.begin(), windows_.end(), [](const Window& window) {
      return !window.used && window.reads_left == 0;
    });
  };
  if (wait == Wait::yes) changed_.wait(lock, [&] { return stopped_ || find() != windows_.end(); });
  const auto found = find();
  return stopped_ || found == windows_.end() ? nullptr : &*found;
}

void ReadAhead::choose_batches(Window& window) {
  window.clear(planned_);
  const std::int64_t most =
      requested_batches_.value_or(std::max<std::int64_t>(1, kWindowRows / batch_size_));
  window.end = window.first + static_cast<std::uint64_t>(std::min(most, next_batches_));
  next_batches_ = std::min(most, 2 * next_batches_);
}

/// Probes some of the rows. If all are cached, even listing all rows would take too long.
bool ReadAhead::is_cached(const Window& window) {
  const std::int64_t batches = shared_.plan.batches();
  const std::int64_t rows = static_cast<std::int64_t>(window.end - window.first) * batch_size_;
  std::vector<FileRange> ranges;
  for (std::int64_t i = 0; i < std::min(kCacheProbes, rows); ++i) {
    const std::int64_t place = i * rows / std::min(kCacheProbes, rows);
    const std::int64_t at =
        base_batch_ + static_cast<std::int64_t>(window.first) + place / batch_size_;
    const auto order = shared_.orders.get(base_epoch_ + at / batches);
    const Extent extent = shared_.plan.extent(at % batches);
    const std::int64_t row = std::min(place % batch_size_, extent.rows - 1);
    const FileRange range = ranges_.range(sample_of(extent, row, order.get()));
    if (range.bytes > 0) ranges.push_back(range);
  }
  return in_page_cache(ranges, ranges_);
}

/// Starts the stream once, at the first window that is not in the page cache.
void ReadAhead::stream_files() {
  if (stream_ || !takes_most_) return;
  stream_.emplace(ranges_, parts_to_stream(ranges_, shared_.dataset.size(), available_memory()));
}

void ReadAhead::choose_rows(Window& window) {
  const std::int64_t batches = shared_.plan.batches();
  const std::uint64_t end = std::exchange(window.end, window.first);
  while (window.end < end) {
    const std::int64_t at = base_batch_ + static_cast<std::int64_t>(window.end);
    const auto order = shared_.orders.get(base_epoch_ + at / batches);
    if (!add_batch(window, shared_.plan.extent(at % batches), order.get())) break;
  }
}

/// Returns false when the batch does not fit into the window. Tiles read the rows of a first batch
/// that do not fit.
bool ReadAhead::add_batch(Window& window, const Extent& extent, const Permutation* order) {
  const std::size_t rows = window.samples.size();
  const std::size_t ranges = window.ranges.size();
  const std::uint64_t bytes = window.bytes;
  window.samples.resize(rows + static_cast<std::size_t>(batch_size_), -1);
  window.range_of.resize(window.samples.size());
  for (std::int64_t row = 0; row < extent.rows; ++row) {
    const std::int64_t sample = sample_of(extent, row, order);
    const FileRange range = ranges_.range(sample);
    const std::uint64_t wanted = in_pages(range);
    if (range.bytes == 0 || range.bytes > kMostBytes) continue;
    if (window.bytes + wanted > window.memory.size()) {
      if (window.end == window.first) continue;
      window.samples.resize(rows);
      window.range_of.resize(rows);
      window.ranges.resize(ranges);
      window.bytes = bytes;
      return false;
    }
    const std::size_t place = rows + static_cast<std::size_t>(row);
    window.samples[place] = sample;
    window.range_of[place] = static_cast<std::uint32_t>(window.ranges.size());
    window.ranges.push_back(range);
    window.bytes += wanted;
  }
  ++window.end;
  return true;
}

FileStream::FileStream(const ImageRanges& ranges, std::vector<FileRange> parts)
    : ranges_(ranges), parts_(std::move(parts)) {
  if (parts_.empty()) return;
  try {
    thread_ = std::thread([this] { run(); });
  } catch (const std::system_error&) {
    // Every sample is then read on demand.
  }
}

FileStream::~FileStream() {
  stopped_.store(true, std::memory_order_relaxed);
  if (thread_.joinable()) thread_.join();
}

void FileStream::run() {
  prepare_thread("trainctl-stream", Priority::below_trainer);
  std::vector<std::byte> buffer(kChunk);
  try {
    for (const FileRange& part : parts_) read(part, buffer);
  } catch (const std::exception&) {
    // The reader of the sample reports the error.
  }
}

void FileStream::read(const FileRange& part, std::vector<std::byte>& buffer) const {
  const FileReader file = ranges_.open(part.file);
  const std::uint64_t end = std::min(part.offset + part.bytes, file.size());
  for (std::uint64_t at = part.offset; at < end && !stopped_.load(std::memory_order_relaxed);) {
    const std::uint64_t bytes = std::min(kChunk, end - at);
    file.read(at, std::span(buffer).first(bytes));
    at += bytes;
  }
}

std::vector<FileRange> parts_to_stream(const ImageRanges& ranges, std::int64_t samples,
                                       std::uint64_t memory) {
  const std::uint64_t bytes = ranges.bytes();
  if (samples == 0 || bytes / static_cast<std::uint64_t>(samples) >= kLargeSample) return {};
  if (bytes > memory / 4) return {};
  std::map<std::size_t, std::pair<std::uint64_t, std::uint64_t>> spans;
  for (std::int64_t i = 0; i < samples; ++i) {
    const FileRange range = ranges.range(i);
    if (range.bytes == 0) continue;
    const auto [span, is_new] =
        spans.try_emplace(range.file, range.offset, range.offset + range.bytes);
    if (is_new && spans.size() > kMostFiles) return {};
    span->second.first = std::min(span->second.first, range.offset);
    span->second.second = std::max(span->second.second, range.offset + range.bytes);
  }
  std::vector<FileRange> parts;
  std::uint64_t all = 0;
  for (const auto& [file, span] : spans) {
    if (ranges.open(file).reads_remote()) return {};
    parts.push_back({file, span.first, span.second - span.first});
    all += parts.back().bytes;
  }
  return all <= 2 * bytes
             ? parts
             : std::vector<FileRange>();  // otherwise most of the bytes read would be unused
}

}  // namespace trainctl::data
