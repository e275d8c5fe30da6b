#include "data/tiles.hpp"

#include "base/error.hpp"

#include <algorithm>
#include <utility>

namespace trainctl::data {
namespace {

// Samples that pass through a thread's scratch at once: small enough to stay in its cache.
constexpr std::int64_t kBlockRows = 16;

Layout layout_after(Layout layout, const std::vector<Field>& steps) {
  for (Field& field : layout) {
    if (field.name == "image" && !steps.empty()) field = steps.back();
  }
  return layout;
}

std::int64_t rows_of_tile(const Pipeline& pipeline, const LoaderOptions& options) {
  const std::int64_t wished = options.tile_rows > 0 ? options.tile_rows : pipeline.dataset->tile_rows();
  return wished > 0 ? std::min(wished, options.batch_size) : options.batch_size;
}

}  // namespace

SlotShape::SlotShape(const Layout& layout, std::int64_t rows) {
  for (const Field& field : layout) {
    offsets.push_back(bytes);
    bytes += aligned(field.bytes() * static_cast<std::size_t>(rows));
  }
}

std::vector<Field> image_steps(const Layout& layout, const std::vector<std::shared_ptr<const Transform>>& transforms) {
  const auto image =
      std::find_if(layout.begin(), layout.end(), [](const Field& field) { return field.name == "image"; });
  if (image == layout.end()) {
    ENSURE(config, transforms.empty(), "the data set has no images, so its transforms have nothing to work on");
    return {};
  }
  std::vector<Field> steps{*image};
  for (const auto& transform : transforms) steps.push_back(transform->output(steps.back()));
  return steps;
}

TileMaker::TileMaker(Pipeline pipeline, const LoaderOptions& options)
    : pipeline_(std::move(pipeline)),
      seed_(options.seed),
      steps_(image_steps(pipeline_.dataset->layout(), pipeline_.transforms)),
      layout_(layout_after(pipeline_.dataset->layout(), steps_)),
      slot_shape_(layout_, options.batch_size),
      tile_rows_(rows_of_tile(pipeline_, options)),
      block_rows_(pipeline_.transforms.empty() ? tile_rows_ : std::min(kBlockRows, tile_rows_)),
      tiles_(static_cast<int>((options.batch_size + tile_rows_ - 1) / tile_rows_)) {
  while (image_ < layout_.size() && layout_[image_].name != "image") ++image_;
}

TileMaker::Scratch TileMaker::scratch() const {
  Scratch scratch;
  scratch.indices.resize(static_cast<std::size_t>(block_rows_));
  scratch.rows.resize(layout_.size());
  if (pipeline_.transforms.empty()) return scratch;
  std::size_t largest = 0;
  for (const Field& step : steps_) largest = std::max(largest, step.bytes());
  scratch.source.resize(static_cast<std::size_t>(block_rows_) * steps_.front().bytes());
  scratch.between.resize(2 * largest);
  return scratch;
}

void TileMaker::make(const TileJob& job, Scratch& scratch) const {
  const std::int64_t begin = job.tile * tile_rows_;
  const std::int64_t end = std::min(begin + tile_rows_, job.extent.rows);
  for (std::int64_t row = begin; row < end; row += block_rows_) {
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
  const bool transformed = !pipeline_.transforms.empty();
  if (transformed) scratch.rows[image_] = scratch.source;
  pipeline_.dataset->fill(std::span(scratch.indices).first(static_cast<std::size_t>(count)), scratch.rows);
  if (!transformed) return;
  const std::size_t source_bytes = steps_.front().bytes();
  for (std::int64_t i = 0; i < count; ++i) {
    const auto source = std::span(scratch.source).subspan(static_cast<std::size_t>(i) * source_bytes, source_bytes);
    try {
      transform(job, first + i, source, scratch);
    } catch (Error& error) {
      error.add_frame(fmt::format("sample {}", scratch.indices[static_cast<std::size_t>(i)]));
      throw;
    }
  }
}

void TileMaker::transform(const TileJob& job, std::int64_t row, std::span<const std::byte> source,
                          Scratch& scratch) const {
  const auto position = static_cast<std::uint64_t>(job.extent.first + row * job.extent.step);
  const std::size_t half = scratch.between.size() / 2;
  const std::size_t last = pipeline_.transforms.size() - 1;
  for (std::size_t op = 0; op <= last; ++op) {
    const std::size_t bytes = steps_[op + 1].bytes();
    const std::span<std::byte> out =
        op == last ? job.slot.subspan(slot_shape_.offsets[image_] + static_cast<std::size_t>(row) * bytes, bytes)
                   : std::span(scratch.between).subspan(op % 2 * half, bytes);
    CounterRng rng(seed_, static_cast<std::uint32_t>(job.epoch), position, static_cast<std::uint16_t>(op));
    pipeline_.transforms[op]->apply(source, steps_[op], out, steps_[op + 1], rng);
    source = out;
  }
}

}  // namespace trainctl::data
