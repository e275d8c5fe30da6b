#include "data/cache/held_dataset.hpp"

#include "base/error.hpp"
#include "data/cache/planned_tail.hpp"

#include <algorithm>
#include <cstring>
#include <utility>

namespace trainctl::data {
namespace {

/// Makes the images of [first, first + count) one behind the other in `to`.
void make_images(const Prefix& prefix, std::int64_t first, std::span<std::byte> to,
                 HeldImages& held, std::vector<std::byte>& scratch) {
  const std::size_t bytes = held.shape.bytes();
  for (std::int64_t index = first; !to.empty(); ++index, to = to.subspan(bytes)) {
    try {
      const StoredImage image = prefix.make(index, scratch);
      ENSURE(data, image.raw == held.shape, "its pixels are {}x{}x{}, those of the set {}x{}x{}",
             image.raw.height, image.raw.width, image.raw.channels, held.shape.height,
             held.shape.width, held.shape.channels);
      std::memcpy(to.data(), image.bytes.data(), bytes);
      held.sound[static_cast<std::size_t>(index)] = true;
    } catch (const Error& error) {
      if (error.kind() != ErrorKind::data) throw;
      std::memset(to.data(), 0, bytes);
    }
  }
}

void upload(const Prefix& prefix, HeldImages& held, const Progress& progress) {
  const std::size_t bytes = held.shape.bytes();
  const std::int64_t samples = prefix.dataset()->size();
  std::vector<std::byte> scratch;
  for (std::int64_t first = 0; first < samples;) {
    if (progress) progress(first, samples);
    const std::span<std::byte> stage = held.memory->stage();
    const std::int64_t count =
        std::min(static_cast<std::int64_t>(stage.size() / bytes), samples - first);
    ASSERT(count > 0);
    const std::size_t length = static_cast<std::size_t>(count) * bytes;
    make_images(prefix, first, stage.first(length), held, scratch);
    held.memory->send(static_cast<std::uint64_t>(first) * bytes, length);
    first += count;
  }
  held.memory->finish();
  if (progress) progress(samples, samples);
}

}  // namespace

HeldDataset::HeldDataset(std::shared_ptr<const Prefix> prefix)
    : prefix_(std::move(prefix)), source_(prefix_->dataset()), layout_(source_->layout()) {
  const auto image = std::find_if(layout_.begin(), layout_.end(),
                                  [](const Field& field) { return field.name == "image"; });
  ASSERT(image != layout_.end());
  *image = image_field(prefix_->shape());
}

Pipeline hold_images(Pipeline pipeline, const ImageDevice& device, const Progress& progress) {
  const auto prefix = std::make_shared<const Prefix>(pipeline);
  PlannedTail tail = planned_tail(pipeline, prefix->shape());
  ENSURE(config, tail.obstacle.empty(), "dataset.cache.mode=device: {}", tail.obstacle);
  ENSURE(config, pipeline.batch_transforms.empty(),
         "dataset.cache.mode=device: batch_transforms mix pixels, which a device does not; remove "
         "them, or write 'mode: decoded'");
  HeldImages held;
  held.shape = prefix->shape();
  held.colors = std::move(tail.colors);
  held.sound.resize(static_cast<std::size_t>(pipeline.dataset->size()));
  held.memory = device.allocate(held.sound.size() * held.shape.bytes(), held.shape.bytes());
  upload(*prefix, held, progress);
  drop_fixed_prefix(pipeline);
  pipeline.dataset = std::make_shared<const HeldDataset>(prefix);
  pipeline.held = std::make_shared<const HeldImages>(std::move(held));
  return pipeline;
}

}  // namespace trainctl::data
