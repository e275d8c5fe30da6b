#include "data/tiles.hpp"

#include "base/error.hpp"

#include <algorithm>
#include <utility>

namespace trainctl::data {
namespace {

// Samples that pass through a thread's scratch at once: small enough to stay in its cache.
constexpr std::int64_t kBlockRows = 16;

std::int64_t rows_of_tile(const Pipeline& pipeline, const LoaderOptions& options) {
  std::int64_t wished = options.tile_rows > 0 ? options.tile_rows : pipeline.dataset->tile_rows();
  if (!pipeline.batch_transforms.empty()) wished += wished % 2;  // pairs
  return wished > 0 ? std::min(wished, options.batch_size) : options.batch_size;
}

Layout layout_of(const Pipeline& pipeline, const LoaderOptions& options) {
  Layout layout = transformed(pipeline.dataset->layout(), pipeline.transforms);
  return pipeline.batch_transforms.empty() ? layout : mixed_layout(std::move(layout), options.batch_size);
}

}  // namespace

SlotShape::SlotShape(const Layout& layout, std::int64_t rows) {
  for (const Field& field : layout) {
    offsets.push_back(bytes);
    bytes += aligned(field.bytes() * static_cast<std::size_t>(rows));
  }
}

Layout transformed(Layout layout, const std::vector<std::shared_ptr<const Transform>>& transforms) {
  const auto image =
      std::find_if(layout.begin(), layout.end(), [](const Field& field) { return field.name == "image"; });
  if (image == layout.end()) {
    ENSURE(config, transforms.empty(), "the data set has no images, so its transforms have nothing to work on");
    return layout;
  }
  ImageShape shape = image_shape(*image);
  for (const auto& transform : transforms) shape = transform->output(shape);
  ENSURE(
      config, shape.fixed(),
      "the images differ in size, and a batch needs one size; add a transform that gives it, such as "
      "{{type: random_resized_crop, size: 224}}, or {{type: resize, size: 256}} and {{type: center_crop, size: 224}}");
  *image = image_field(shape);
  return layout;
}

TileMaker::TileMaker(Pipeline pipeline, const LoaderOptions& options)
    : pipeline_(std::move(pipeline)),
      seed_(options.seed),
      layout_(layout_of(pipeline_, options)),
      slot_shape_(layout_, options.batch_size),
      batch_size_(options.batch_size),
      tile_rows_(rows_of_tile(pipeline_, options)),
      block_rows_(makes_images() ? std::min(kBlockRows, tile_rows_) : tile_rows_),
      tiles_(static_cast<int>((options.batch_size + tile_rows_ - 1) / tile_rows_)) {
  if (!pipeline_.batch_transforms.empty()) {
    mixer_.emplace(pipeline_.batch_transforms, seed_, layout_, slot_shape_.offsets);
  }
  while (image_ < layout_.size() && layout_[image_].name != "image") ++image_;
  if (!makes_images()) return;
  ASSERT(pipeline_.dataset->images() != nullptr);
  shape_ = image_shape(layout_[image_]);
}

TileMaker::Scratch TileMaker::scratch() const {
  Scratch scratch;
  scratch.indices.resize(static_cast<std::size_t>(block_rows_));
  scratch.rows.resize(layout_.size());
  return scratch;
}

void TileMaker::make(const TileJob& job, Scratch& scratch) const {
  if (!mixer_) return make_rows(job, job.tile * tile_rows_, tile_rows_, scratch);
  // A tile makes rows and their partners, so that mixing needs no other tile's pixels.
  const std::int64_t half = batch_size_ / 2;
  const std::int64_t first = job.tile * (tile_rows_ / 2);
  const std::int64_t count = std::min(tile_rows_ / 2, half - first);
  make_rows(job, first, count, scratch);
  make_rows(job, half + first, count, scratch);
  mixer_->mix(mixer_->draw(job.epoch, job.batch), {first, count, half, job.extent.rows, job.extent.valid}, job.slot);
}

void TileMaker::make_rows(const TileJob& job, std::int64_t first, std::int64_t count, Scratch& scratch) const {
  const std::int64_t end = std::min(first + count, job.extent.rows);
  for (std::int64_t row = first; row < end; row += block_rows_) {
    fill_block(job, row, std::min(block_rows_, end - row), scratch);
  }
}

void TileMaker::fill_block(const TileJob& job, std::int64_t first, std::int64_t count, Scratch& scratch) const {
  for (std::int64_t i = 0; i < count; ++i) {
    // Padding repeats the batch's first position: a real sample, of weight 0.
    const std::int64_t row = first + i;
    const Extent& extent = job.extent;
    const std::int64_t position =
        row < extent.valid ? extent.first + row * extent.step : extent.first - extent.first % extent.step;
    scratch.indices[static_cast<std::size_t>(i)] =
        scratch.order ? (*scratch.order)[static_cast<std::size_t>(position)] : position;
  }
  for (std::size_t field = 0; field < layout_.size(); ++field) {
    const std::size_t bytes = layout_[field].bytes();
    scratch.rows[field] = job.slot.subspan(slot_shape_.offsets[field] + static_cast<std::size_t>(first) * bytes,
                                           static_cast<std::size_t>(count) * bytes);
  }
  if (makes_images()) scratch.rows[image_] = {};
  const auto indices = std::span(scratch.indices).first(static_cast<std::size_t>(count));
  pipeline_.dataset->fill(indices, Rows(scratch.rows).first(pipeline_.dataset->layout().size()));
  if (!makes_images()) return;
  for (std::size_t i = 0; i < indices.size(); ++i) {
    if (i + 1 < indices.size()) pipeline_.dataset->images()->prefetch(indices[i + 1]);
    make_image(job, first + static_cast<std::int64_t>(i), indices[i], scratch);
  }
}

void TileMaker::make_image(const TileJob& job, std::int64_t row, std::int64_t index, Scratch& scratch) const {
  const ImageStore& images = *pipeline_.dataset->images();
  const std::size_t bytes = shape_.bytes();
  const ImageTarget target(job.slot.subspan(slot_shape_.offsets[image_] + static_cast<std::size_t>(row) * bytes, bytes),
                           shape_);
  const auto position = static_cast<std::uint64_t>(job.extent.first + row * job.extent.step);
  try {
    const StoredImage stored = images.read(index, scratch.stored);
    const ImageView image(reinterpret_cast<const std::uint8_t*>(stored.bytes.data()), stored.raw);
    transform(image, position, job, target, scratch);
  } catch (Error& error) {
    error.add_frame(images.name(index));
    throw;
  }
}

void TileMaker::transform(ImageView image, std::uint64_t position, const TileJob& job, ImageTarget target,
                          Scratch& scratch) const {
  const std::size_t count = pipeline_.transforms.size();
  for (std::size_t op = 0; op < count; ++op) {
    ImageTarget out = op + 1 == count ? target : ImageTarget(scratch.between[op % 2]);
    CounterRng rng(seed_, static_cast<std::uint32_t>(job.epoch), position,
                   static_cast<std::uint16_t>(pipeline_.first_operation + op));
    pipeline_.transforms[op]->apply(image, out, rng);
    image = out.view();
  }
}

}  // namespace trainctl::data
