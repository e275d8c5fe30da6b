#include "data/loader/batch_assembler.hpp"

#include "data/core/image_probe.hpp"
#include "data/formats/file_reader.hpp"
#include "data/read_ahead/read_ahead.hpp"
#include "data/remote/local_tier.hpp"

namespace trainctl::data {
namespace {

// Samples per pass through a thread's scratch buffers: few enough to stay in its CPU cache.
constexpr std::int64_t kBlockRows = 16;
// Samples per tile if each is decoded: few, so that threads share a batch evenly.
constexpr std::int64_t kDecodedTileRows = 16;
// Attempts to replace a damaged sample. So many damaged samples in a row are not a coincidence.
constexpr int kMostDraws = 100;
// No transform has this index, so these draws are independent of all others.
constexpr std::size_t kReplacementDraws = 0xFFFF;

std::int64_t rows_of_tile(const Pipeline& pipeline, const LoaderOptions& options) {
  std::int64_t wanted = options.tile_rows > 0 ? options.tile_rows : pipeline.dataset->tile_rows();
  const Facts facts{.layout = pipeline.dataset->layout()};
  const bool decodes = facts.image() != nullptr && !image_shape(*facts.image()).fixed();
  if (wanted == 0 && decodes) wanted = kDecodedTileRows;
  if (!pipeline.batch_transforms.empty()) wanted += wanted % 2;  // a tile consists of pairs
  return wanted > 0 ? std::min(wanted, options.batch_size) : options.batch_size;
}

void copy_to(std::span<std::byte> to, std::span<const std::byte> bytes) {
  ASSERT(bytes.size() == to.size());
  std::memcpy(to.data(), bytes.data(), bytes.size());
}

Layout with_plans(Layout layout, const Pipeline& pipeline) {
  if (!pipeline.held) return layout;
  const std::size_t image = find_field(layout, "image");
  if (image < layout.size()) layout[image].shape = {static_cast<std::int64_t>(sizeof(PixelPlan))};
  return layout;
}

}  // namespace

SlotShape::SlotShape(const Layout& layout, std::int64_t rows) {
  for (const Field& field : layout) {
    offsets.push_back(bytes);
    bytes += aligned(field.bytes() * static_cast<std::size_t>(rows));
  }
}

Layout transformed(Layout layout, const std::vector<std::shared_ptr<const Transform>>& transforms) {
  const std::size_t image = find_field(layout, "image");
  if (image == layout.size()) {
    ENSURE(config, transforms.empty(),
           "transforms need images, but the data set has none\nhint: remove the transforms");
    return layout;
  }
  ImageShape shape = image_shape(layout[image]);
  for (const auto& transform : transforms) shape = transform->output(shape);
  ENSURE(config, shape.fixed(), "the images have no common size\nhint: {}", kSizeHint);
  layout[image] = image_field(shape);
  return layout;
}

Layout batch_layout(const Pipeline& pipeline, const LoaderOptions& options) {
  Layout layout = transformed(pipeline.dataset->layout(), pipeline.transforms);
  return pipeline.batch_transforms.empty() ? layout
                                           : mixed_layout(std::move(layout), options.batch_size);
}

BatchAssembler::BatchAssembler(Pipeline pipeline, const LoaderOptions& options)
    : pipeline_(std::move(pipeline)),
      on_error_(options.on_error),
      skipped_(std::make_unique<SkippedSamples>(
          options.max_skipped.value_or(default_max_skipped(pipeline_.dataset->size())))),
      seed_(options.seed),
      layout_(batch_layout(pipeline_, options)),
      slot_layout_(with_plans(layout_, pipeline_)),
      slot_shape_(slot_layout_, options.batch_size),
      batch_size_(options.batch_size),
      tile_rows_(rows_of_tile(pipeline_, options)),
      block_rows_(transforms() ? std::min(kBlockRows, tile_rows_) : tile_rows_),
      tiles_(static_cast<int>((options.batch_size + tile_rows_ - 1) / tile_rows_)) {
  if (!pipeline_.batch_transforms.empty()) {
    mixer_.emplace(pipeline_.batch_transforms, seed_, layout_, slot_shape_.offsets);
  }
  image_ = find_field(layout_, "image");
  if (image_ < layout_.size()) image_bytes_ = slot_layout_[image_].bytes();
  if (!transforms()) return;
  ASSERT(pipeline_.dataset->images() != nullptr && !(pipeline_.held && mixer_));
  shape_ = image_shape(layout_[image_]);
  if (pipeline_.held) return;
  verified_ = std::make_unique<VerifiedSamples>(pipeline_.dataset->size());
  join_steps();
  crop_ = dynamic_cast<const CropTransform*>(steps_.front().transform.get());
}

/// Merges adjacent steps where possible; the other steps keep the indices that key their draws.
void BatchAssembler::join_steps() {
  for (std::size_t i = 0; i < pipeline_.transforms.size(); ++i) {
    const auto& transform = pipeline_.transforms[i];
    const auto joined = steps_.empty() ? nullptr : steps_.back().transform->then(*transform);
    if (joined) {
      steps_.back().transform = joined;
    } else {
      steps_.push_back({transform, pipeline_.first_operation + i});
    }
  }
}

BatchAssembler::Scratch BatchAssembler::scratch() const {
  Scratch scratch;
  scratch.indices.resize(static_cast<std::size_t>(block_rows_));
  scratch.rows.resize(layout_.size());
  return scratch;
}

/// With a mixer, a tile has rows and their partners, so that mixing needs no pixels of other tiles.
template <class Body>
void BatchAssembler::for_each_range(int tile, const Body& body) const {
  if (!mixer_) return body(tile * tile_rows_, tile_rows_);
  const std::int64_t half = batch_size_ / 2;
  const std::int64_t first = tile * (tile_rows_ / 2);
  const std::int64_t count = std::min(tile_rows_ / 2, half - first);
  body(first, count);
  body(half + first, count);
}

void BatchAssembler::make(const TileJob& job, Scratch& scratch) const {
  std::int64_t rows = 0;  // in each range
  for_each_range(job.tile, [&](std::int64_t first, std::int64_t count) {
    make_rows(job, first, count, scratch);
    rows = count;
  });
  if (!mixer_) return;
  mixer_->mix(
      mixer_->draw(job.epoch, job.batch),
      {job.tile * (tile_rows_ / 2), rows, batch_size_ / 2, job.extent.rows, job.extent.valid},
      job.slot);
}

std::uint64_t BatchAssembler::digest(const TileJob& job, Scratch& scratch) const {
  describe(job, scratch.hashed);
  std::uint64_t sum = 0;
  for_each_range(job.tile, [&](std::int64_t first, std::int64_t count) {
    sum += digest_of_rows(scratch.hashed, layout_, first, first + count);
  });
  return sum;
}

void BatchAssembler::describe(const TileJob& job, Batch& batch) const {
  batch.epoch = job.epoch;
  batch.index = job.batch;
  batch.rows = job.extent.rows;
  batch.valid = job.extent.valid;
  batch.global_valid = job.extent.global_valid;
  batch.position = job.extent.first;
  batch.position_step = job.extent.step;
  batch.fields.resize(slot_layout_.size());
  for (std::size_t field = 0; field < slot_layout_.size(); ++field) {
    batch.fields[field] =
        job.slot.subspan(slot_shape_.offsets[field],
                         slot_layout_[field].bytes() * static_cast<std::size_t>(batch.rows));
  }
}

void BatchAssembler::make_rows(const TileJob& job, std::int64_t first, std::int64_t count,
                               Scratch& scratch) const {
  const std::int64_t end = std::min(first + count, job.extent.rows);
  for (std::int64_t row = first; row < end; row += block_rows_) {
    fill_block(job, row, std::min(block_rows_, end - row), scratch);
  }
}

void BatchAssembler::fill_block(const TileJob& job, std::int64_t first, std::int64_t count,
                                Scratch& scratch) const {
  for (std::int64_t i = 0; i < count; ++i) {
    scratch.indices[static_cast<std::size_t>(i)] =
        sample_of(job.extent, first + i, scratch.order.get());
  }
  const auto indices = std::span(scratch.indices).first(static_cast<std::size_t>(count));
  bool filled = true;
  try {
    fill_fields(job, first, indices, scratch);
  } catch (const Error& error) {
    if (on_error_ == OnError::fail || !is_damage(error)) throw;
    filled = false;  // then read the samples one by one
  }
  if (filled && !makes_images(job)) return;
  for (std::size_t i = 0; i < indices.size(); ++i) {
    if (makes_images(job) && i + 1 < indices.size())
      pipeline_.dataset->images()->prefetch(indices[i + 1]);
    const RowJob row{job, first + static_cast<std::int64_t>(i), indices[i]};
    try {
      if (!filled) fill_fields(job, row.row, indices.subspan(i, 1), scratch);
      if (makes_images(job)) make_image(row, scratch);
    } catch (const Error& error) {
      if (on_error_ == OnError::fail || !is_damage(error)) throw;
      replace_row(row, error, scratch);
    }
  }
}

/// Fills all fields except images that are made by transforms.
void BatchAssembler::fill_fields(const TileJob& job, std::int64_t first,
                                 std::span<const std::int64_t> indices, Scratch& scratch) const {
  for (std::size_t field = 0; field < slot_layout_.size(); ++field) {
    const std::size_t bytes = slot_layout_[field].bytes();
    scratch.rows[field] =
        job.slot.subspan(slot_shape_.offsets[field] + static_cast<std::size_t>(first) * bytes,
                         indices.size() * bytes);
  }
  if (makes_images(job)) scratch.rows[image_] = {};
  pipeline_.dataset->fill(indices, Rows(scratch.rows).first(pipeline_.dataset->layout().size()));
}

/// Replaces a damaged sample. The draw depends only on the row's position, so every worker draws
/// the same replacement.
void BatchAssembler::replace_row(RowJob job, Error error, Scratch& scratch) const {
  CounterRng rng = draws(job, kReplacementDraws);
  for (int draw = 0; draw < kMostDraws; ++draw) {
    skipped_->record({job.tile.epoch, job.tile.batch, job.tile.tile, job.row, job.sample},
                     {sample_name(*pipeline_.dataset, job.sample), error.message()});
    job.sample =
        static_cast<std::int64_t>(rng.below(static_cast<std::uint64_t>(pipeline_.dataset->size())));
    try {
      fill_fields(job.tile, job.row, std::span(&job.sample, 1), scratch);
      if (makes_images(job.tile)) make_image(job, scratch);
      return;
    } catch (const Error& next) {
      if (!is_damage(next)) throw;
      error = next;
    }
  }
  throw error;
}

void BatchAssembler::make_image(const RowJob& job, Scratch& scratch) const {
  try {
    if (pipeline_.held) return make_plan(job, scratch);
    std::optional<StoredImage> ahead;
    if (job.tile.ahead != nullptr)
      ahead = job.tile.ahead->image(job.row, job.sample, scratch.stored);
    const StoredImage stored =
        ahead ? *ahead : pipeline_.dataset->images()->read(job.sample, scratch.stored);
    if (!transforms()) return copy_to(image_slot(job), stored.bytes);
    if (!stored.raw.fixed())
      return report_local_copy(*pipeline_.dataset, job.sample,
                               [&] { decode(job, stored, scratch); });
    transform(ImageView(reinterpret_cast<const std::uint8_t*>(stored.bytes.data()), stored.raw), 0,
              job, scratch);
  } catch (Error& error) {
    error.add_frame(sample_name(*pipeline_.dataset, job.sample));
    throw;
  }
}

/// Returns the bytes of a row's image or plan.
std::span<std::byte> BatchAssembler::image_slot(const RowJob& job) const {
  return job.tile.slot.subspan(
      slot_shape_.offsets[image_] + static_cast<std::size_t>(job.row) * image_bytes_, image_bytes_);
}

void BatchAssembler::make_plan(const RowJob& job, Scratch& scratch) const {
  const HeldImages& held = *pipeline_.held;
  if (!held.sound[static_cast<std::size_t>(job.sample)]) {
    (void)pipeline_.dataset->images()->read(job.sample, scratch.stored);  // throws the actual error
    throw Error(ErrorKind::data,
                "the sample could not be read when the images were copied to the device, but can "
                "be read now\nhint: run the command again");
  }
  PlannedImage image(held.shape);
  for (std::size_t i = 0; i < pipeline_.transforms.size(); ++i) {
    const Transform& transform = *pipeline_.transforms[i];
    CounterRng rng = draws(job, pipeline_.first_operation + i, &transform);
    transform.apply_to_plan(image, rng);
  }
  const PixelPlan plan = image.plan(job.sample);
  copy_to(image_slot(job), std::as_bytes(std::span(&plan, 1)));
}

void BatchAssembler::decode(const RowJob& job, const StoredImage& stored, Scratch& scratch) const {
  const ImageShape whole = scratch.decoder.open(stored.bytes);
  CounterRng rng = draws(job, steps_.front().operation, steps_.front().transform.get());
  const Box box = crop_ != nullptr ? crop_->box(whole, rng) : Box{0, 0, whole.height, whole.width};
  ImageTarget window(scratch.decoded);
  window.resize({box.height, box.width, whole.channels});
  scratch.decoder.decode(box,
                         verified_->has(job.sample) ? Reading::needed_part : Reading::whole_file,
                         window.pixels());
  verified_->add(job.sample);
  if (crop_ == nullptr) return transform(window.view(), 0, job, scratch);
  ImageTarget out = target(job, 0, scratch);
  crop_->apply_to_box(window.view(), whole, out, rng);
  transform(out.view(), 1, job, scratch);
}

CounterRng BatchAssembler::draws(const RowJob& job, std::size_t operation,
                                 const Transform* transform) const {
  const bool alternates = transform != nullptr && transform->alternates();
  const std::int64_t epoch = alternates ? 0 : job.tile.epoch;
  CounterRng rng(seed_, static_cast<std::uint32_t>(epoch),
                 alternates ? static_cast<std::uint64_t>(job.sample) : job.position(),
                 static_cast<std::uint16_t>(operation));
  if (alternates && job.tile.epoch % 2 == 1) rng.invert();
  return rng;
}

/// Returns the output of a step; the last step writes to the slot.
ImageTarget BatchAssembler::target(const RowJob& job, std::size_t step, Scratch& scratch) const {
  if (step + 1 < steps_.size()) return ImageTarget(scratch.between[step % 2]);
  return {image_slot(job), shape_};
}

void BatchAssembler::transform(ImageView image, std::size_t first_step, const RowJob& job,
                               Scratch& scratch) const {
  for (std::size_t step = first_step; step < steps_.size(); ++step) {
    ImageTarget out = target(job, step, scratch);
    const Step& now = steps_[step];
    CounterRng rng = draws(job, now.operation, now.transform.get());
    now.transform->apply(image, out, rng);
    image = out.view();
  }
}

}  // namespace trainctl::data
