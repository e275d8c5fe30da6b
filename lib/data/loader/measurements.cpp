#include "data/loader/measurements.hpp"

#include "base/hash.hpp"
#include "base/machine/machine.hpp"
#include "base/statistics.hpp"
#include "data/cache/cached_dataset.hpp"

#include <time.h>

#include <cstring>
#include <numeric>

namespace trainctl::data {
namespace {

double process_cpu_s() {
  timespec time{};
  ::clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &time);
  return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_nsec) * 1e-9;
}

}  // namespace

LoaderFigures measure_loader(const Pipeline& pipeline, const LoaderOptions& options,
                             const MeasureLength& length, const Clock& clock,
                             const Consumer& consumer) {
  LoaderOptions undigested = options;
  undigested.digests = false;  // the warm-up computes them, outside of the measured time
  Loader loader(pipeline, undigested);
  LoaderFigures figures;
  loader.start_epoch(0);  // the warm-up
  while (const Batch* batch = loader.next()) figures.digest += digest_of(*batch, loader.layout());
  std::int64_t epoch = 1;
  loader.start_epoch(epoch);
  volatile unsigned sink = 0;
  const auto next_batch = [&]() -> const Batch& {
    const Batch* batch = loader.next();
    for (; batch == nullptr; batch = loader.next()) loader.start_epoch(++epoch);
    // The labels are the last field of every layout.
    const auto labels = batch->fields.back();
    const auto add = [](unsigned sum, std::byte byte) {
      return sum + std::to_integer<unsigned>(byte);
    };
    sink = std::accumulate(labels.begin(), labels.end(), sink, add);
    return *batch;
  };
  for (int ready = options.num_workers * options.prefetch_factor; ready > 0; --ready) next_batch();

  const auto wanted =
      static_cast<std::size_t>(length.epochs.value_or(0) * loader.batches_per_epoch());
  std::vector<double> intervals_ms;
  std::int64_t samples = 0;
  const double cpu_start = process_cpu_s();
  const double start = clock.now();
  double last = start;
  while (length.epochs ? intervals_ms.size() < wanted : last - start < length.seconds) {
    const Batch& batch = next_batch();
    if (consumer) consumer(batch);
    samples += batch.valid;
    const double now = clock.now();
    intervals_ms.push_back((now - last) * 1e3);
    last = now;
  }
  figures.cpu_s_per_1k = (process_cpu_s() - cpu_start) / static_cast<double>(samples) * 1e3;
  figures.samples_per_s = static_cast<double>(samples) / (last - start);
  figures.p50_ms = median(intervals_ms);
  figures.p99_ms = quantile(intervals_ms, 0.99);
  figures.skipped = loader.skipped();
  return figures;
}

namespace {

/// Decodes the input of the pipeline's first step, with the same draws, and discards it.
class DecodeOnly final : public CropTransform {
 public:
  explicit DecodeOnly(const Pipeline& pipeline) {
    if (!pipeline.transforms.empty())
      crop_ = dynamic_cast<const CropTransform*>(pipeline.transforms.front().get());
  }
  [[nodiscard]] ImageShape output(const ImageShape& input) const override {
    return {1, 1, input.channels};
  }
  [[nodiscard]] bool random() const override { return crop_ != nullptr && crop_->random(); }
  [[nodiscard]] Box box(const ImageShape& input, CounterRng& rng) const override {
    return crop_ != nullptr ? crop_->box(input, rng) : Box{0, 0, input.height, input.width};
  }
  void apply_to_box(const ImageView& window, const ImageShape&, ImageTarget& output,
                    CounterRng&) const override {
    std::fill_n(output.resize({1, 1, window.shape.channels}), window.shape.channels,
                std::uint8_t{0});
  }

 private:
  const CropTransform* crop_ = nullptr;
};

/// Presents the first few images of a data set as if they were all images.
class FewImages final : public Dataset, public ImageStore {
 public:
  explicit FewImages(const Dataset& all)
      : all_(all), count_(std::min<std::int64_t>(8, all.size())) {}
  [[nodiscard]] std::int64_t size() const override { return all_.size(); }
  [[nodiscard]] const Layout& layout() const override { return all_.layout(); }
  [[nodiscard]] std::int64_t classes() const override { return all_.classes(); }
  void fill(std::span<const std::int64_t> indices, Rows rows) const override {
    all_.fill(indices, rows);
  }
  [[nodiscard]] const ImageStore* images() const override { return this; }
  [[nodiscard]] std::string fingerprint() const override { return all_.fingerprint(); }
  [[nodiscard]] StoredImage read(std::int64_t index,
                                 std::vector<std::byte>& scratch) const override {
    return all_.images()->read(index % count_, scratch);
  }
  [[nodiscard]] std::string name(std::int64_t index) const override {
    return all_.images()->name(index % count_);
  }

 private:
  const Dataset& all_;
  std::int64_t count_;
};

/// Samples as rows of bytes, in the order in which they are copied.
struct StoredRows {
  std::vector<const std::byte*> rows;
  std::size_t bytes = 0;  // per row
  Arena copy;             // the rows, unless the data set has each one contiguous
};

double gather_rate(const StoredRows& stored, std::int64_t batch_size, double seconds,
                   const Clock& clock) {
  const std::size_t count = stored.rows.size();
  const auto batch = static_cast<std::size_t>(batch_size);
  Arena slot(batch * stored.bytes);
  const double start = clock.now();
  double elapsed = 0;
  std::size_t copied = 0;
  while (elapsed < seconds) {
    for (std::size_t i = 0; i < count; ++i) {
      if (i + kRowsAhead < count) prefetch_row(stored.rows[i + kRowsAhead], stored.bytes);
      std::memcpy(slot.bytes().data() + i % batch * stored.bytes, stored.rows[i], stored.bytes);
    }
    copied += count;
    elapsed = clock.now() - start;
  }
  return static_cast<double>(copied) / elapsed;
}

std::vector<std::int64_t> positions(std::int64_t samples, const LoaderOptions& options) {
  std::vector<std::int64_t> order(static_cast<std::size_t>(samples));
  std::iota(order.begin(), order.end(), 0);
  if (options.order == Order::shuffled) {
    Permutation shuffled(order.size());
    shuffle(shuffled, options.seed, 1);
    std::copy(shuffled.begin(), shuffled.end(), order.begin());
  }
  return order;
}

/// Returns nothing when the image is damaged and may be skipped.
std::optional<StoredImage> read_sound(const ImageStore& images, std::int64_t index,
                                      const LoaderOptions& options,
                                      std::vector<std::byte>& scratch) {
  try {
    return images.read(index, scratch);
  } catch (const Error& error) {
    if (options.on_error == OnError::fail || error.kind() != ErrorKind::data) throw;
    return std::nullopt;
  }
}

/// Returns the raw shape of the first readable image.
ImageShape raw_shape(const Pipeline& pipeline, const LoaderOptions& options) {
  std::vector<std::byte> scratch;
  for (std::int64_t index = 0; index < pipeline.dataset->size(); ++index) {
    if (const auto image = read_sound(*pipeline.dataset->images(), index, options, scratch))
      return image->raw;
  }
  return {};
}

/// Returns pointers to the images, or nothing when the store creates them on demand or they differ
/// in size.
std::optional<StoredRows> images_in_memory(const Pipeline& pipeline, const LoaderOptions& options) {
  const Dataset& dataset = *pipeline.dataset;
  std::vector<std::byte> scratch;
  StoredRows stored;
  ImageShape shape;
  for (const std::int64_t index : positions(dataset.size(), options)) {
    const auto image = read_sound(*dataset.images(), index, options, scratch);
    if (!image) continue;
    if (stored.rows.empty()) shape = image->raw;
    if (!image->raw.fixed() || image->raw != shape || image->bytes.data() == scratch.data())
      return std::nullopt;
    stored.rows.push_back(image->bytes.data());
  }
  stored.bytes = shape.bytes();
  return stored;
}

/// Copies samples that are not images to contiguous rows, at most as many as fit into a quarter of
/// the available memory.
StoredRows copied_rows(const Pipeline& pipeline, const LoaderOptions& options) {
  const Dataset& dataset = *pipeline.dataset;
  StoredRows stored;
  for (const Field& field : dataset.layout()) stored.bytes += field.bytes();
  const auto most = static_cast<std::int64_t>(available_memory() / 4 / stored.bytes);
  const std::int64_t samples = std::clamp<std::int64_t>(most, 1, dataset.size());
  stored.copy = Arena(static_cast<std::size_t>(samples) * stored.bytes);
  std::byte* row = stored.copy.bytes().data();
  for (std::int64_t index = 0; index < samples; ++index) {
    std::vector<std::span<std::byte>> fields;
    for (const Field& field : dataset.layout()) {
      fields.emplace_back(row, field.bytes());
      row += field.bytes();
    }
    dataset.fill(std::array{index}, fields);
  }
  for (const std::int64_t index : positions(samples, options)) {
    stored.rows.push_back(stored.copy.bytes().data() +
                          static_cast<std::size_t>(index) * stored.bytes);
  }
  return stored;
}

bool changes_size(const Transform& transform, const ImageShape& input, const ImageShape& output) {
  const auto* crop = dynamic_cast<const CropTransform*>(&transform);
  if (crop == nullptr) return input.height != output.height || input.width != output.width;
  CounterRng rng(0, 0, 0, 0);
  const Box box = crop->box(input, rng);
  return box.height != output.height || box.width != output.width;
}

bool resizes(const Pipeline& pipeline, ImageShape shape) {
  for (const auto& transform : pipeline.transforms) {
    const ImageShape output = transform->output(shape);
    if (!output.fixed() || changes_size(*transform, shape, output)) return true;
    shape = output;
  }
  return false;
}

/// Fills the cache, because the limit applies to the epochs after the first.
void fill_cache(const Pipeline& pipeline, std::int64_t batch_size) {
  if (dynamic_cast<const CachedDataset*>(pipeline.dataset.get()) == nullptr) return;
  Loader loader(pipeline, {.batch_size = batch_size,
                           .num_workers = usable_cores(),
                           .order = Order::sequential,
                           .on_error = OnError::skip,
                           .max_skipped = pipeline.dataset->size()});
  loader.start_epoch(0);
  while (loader.next() != nullptr) {
  }
}

double loader_rate(const Pipeline& pipeline, LoaderOptions options, double seconds,
                   const Clock& clock) {
  options.num_workers = 0;
  options.max_skipped = pipeline.dataset->size();  // few images are repeated instead of all
  return measure_loader(pipeline, options, {.seconds = seconds}, clock).samples_per_s;
}

}  // namespace

ThroughputLimit measure_throughput_limit(const Pipeline& pipeline, const LoaderOptions& options,
                                         double seconds, const Clock& clock) {
  fill_cache(pipeline, options.batch_size);
  const ImageStore* images = pipeline.dataset->images();
  const auto gathered = [&](const StoredRows& rows) {
    return ThroughputLimit{"gather", gather_rate(rows, options.batch_size, seconds, clock), false};
  };
  if (images == nullptr) return gathered(copied_rows(pipeline, options));
  const ImageShape raw = raw_shape(pipeline, options);
  Pipeline part = pipeline;
  if (raw.fixed() && resizes(pipeline, raw)) {
    part.dataset = std::make_shared<const FewImages>(*pipeline.dataset);
    return {"transforms", loader_rate(part, options, seconds, clock), true};
  }
  if (const auto rows = raw.fixed() ? images_in_memory(pipeline, options) : std::nullopt)
    return gathered(*rows);
  part.transforms = {std::make_shared<const DecodeOnly>(pipeline)};
  return {"decode", loader_rate(part, options, seconds, clock), true};
}

EpochDigests digest_epochs(const Pipeline& pipeline, LoaderOptions options, std::int64_t epochs) {
  EpochDigests out;
  out.epochs.resize(static_cast<std::size_t>(epochs));
  for (int rank = 0; rank < options.shard.world_size; ++rank) {
    options.shard.rank = rank;
    options.digests = true;
    Loader loader(pipeline, options);
    for (std::int64_t epoch = 0; epoch < epochs; ++epoch) {
      loader.start_epoch(epoch);
      while (const Batch* batch = loader.next())
        out.epochs[static_cast<std::size_t>(epoch)] += batch->digest;
    }
    for (const SkippedSample& sample : loader.skipped()) {
      const auto same = [&](const SkippedSample& one) { return one.name == sample.name; };
      if (std::ranges::none_of(out.skipped, same)) out.skipped.push_back(sample);
    }
  }
  Hasher all;
  for (const std::uint64_t epoch : out.epochs) all.add(epoch);
  out.digest = all.value();
  return out;
}

}  // namespace trainctl::data
