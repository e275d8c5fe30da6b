#include "data/cache/device_cache.hpp"

#include <fmt/format.h>

#include <cstring>

namespace trainctl::data {
namespace {

/// A data set whose images are on a device: fill() writes only the other fields. images() still
/// reads the files, so that the loader reports damaged images.
class HeldDataset final : public Dataset, public ImageStore {
 public:
  explicit HeldDataset(std::shared_ptr<const Prefix> prefix)
      : prefix_(std::move(prefix)), source_(prefix_->dataset()), layout_(source_->layout()) {
    const std::size_t image = find_field(layout_, "image");
    ASSERT(image < layout_.size());
    layout_[image] = image_field(prefix_->shape());
  }

  [[nodiscard]] std::int64_t size() const override { return source_->size(); }
  [[nodiscard]] const Layout& layout() const override { return layout_; }
  [[nodiscard]] std::int64_t classes() const override { return source_->classes(); }
  [[nodiscard]] std::vector<std::string> class_names() const override {
    return source_->class_names();
  }
  [[nodiscard]] bool in_memory() const override { return true; }
  void fill(std::span<const std::int64_t> indices, Rows rows) const override {
    source_->fill(indices, rows);
  }
  [[nodiscard]] const ImageStore* images() const override { return this; }
  [[nodiscard]] Mixture mixture() const override { return source_->mixture(); }
  [[nodiscard]] std::string fingerprint() const override { return source_->fingerprint(); }

  [[nodiscard]] StoredImage read(std::int64_t index,
                                 std::vector<std::byte>& scratch) const override {
    return prefix_->make(index, scratch);
  }
  [[nodiscard]] std::string name(std::int64_t index) const override {
    return source_->images()->name(index);
  }

 private:
  std::shared_ptr<const Prefix> prefix_;
  std::shared_ptr<const Dataset> source_;
  Layout layout_;
};

/// Writes the image of a sample to `to`, or zeros. Returns false when it could not be read.
bool make_image(const Prefix& prefix, std::int64_t index, const ImageShape& shape,
                std::span<std::byte> to) {
  thread_local std::vector<std::byte> scratch;
  try {
    const StoredImage image = prefix.make(index, scratch);
    ENSURE(data, image.raw == shape,
           "its size must be {3}x{4}x{5}, like all other images of the data set, got {0}x{1}x{2}",
           image.raw.height, image.raw.width, image.raw.channels, shape.height, shape.width,
           shape.channels);
    std::memcpy(to.data(), image.bytes.data(), to.size());
    return true;
  } catch (const Error& error) {
    if (error.kind() != ErrorKind::data) throw;
    std::memset(to.data(), 0, to.size());
    return false;
  }
}

/// Copies all images to the device, buffer by buffer: the threads fill one buffer while the
/// previous one is in flight.
void upload(const Prefix& prefix, HeldImages& held, int threads, const Progress& progress) {
  const std::int64_t samples = prefix.dataset()->size();
  const std::size_t bytes = held.shape.bytes();
  FetchAhead ahead(prefix.dataset(), 1);  // for a remote data set
  ahead.begin({.count = samples});
  for (std::int64_t first = 0; first < samples;) {
    const std::span<std::byte> stage = held.memory->stage();
    const std::int64_t count =
        std::min(static_cast<std::int64_t>(stage.size() / bytes), samples - first);
    ASSERT(count > 0);
    // Bytes are used because threads cannot write to neighbors in a vector<bool>.
    std::vector<std::uint8_t> sound(static_cast<std::size_t>(count));
    run_in_order(
        {.end = count,
         .ahead = count,
         .workers = static_cast<int>(std::min<std::int64_t>(threads, count))},
        [&](std::int64_t i) {
          const auto at = static_cast<std::size_t>(i);
          sound[at] = make_image(prefix, first + i, held.shape, stage.subspan(at * bytes, bytes));
        },
        [&](std::int64_t i) {
          if (progress) progress(first + i, samples);
          held.sound[static_cast<std::size_t>(first + i)] = sound[static_cast<std::size_t>(i)] != 0;
          ahead.used(1);
        });
    held.memory->send(static_cast<std::uint64_t>(first) * bytes,
                      static_cast<std::size_t>(count) * bytes);
    first += count;
  }
  held.memory->finish();
  if (progress) progress(samples, samples);
}

using Bytes = std::vector<std::uint8_t>;

std::string named(const Pipeline& pipeline, std::size_t i) {
  return i < pipeline.names.size() ? fmt::format("transform '{}'", pipeline.names[i])
                                   : fmt::format("transform {}", i + 1);
}

Bytes in_channels(const Fill& fill, std::int64_t channels) {
  Bytes colors;
  for (std::int64_t channel = 0; channel < channels; ++channel) colors.push_back(fill[channel]);
  return colors;
}

/// Adds the colors of one more step. Returns why that is impossible, or an empty string.
std::string add(const Paint& paint, bool is_first, std::int64_t channels, PlanColors& colors) {
  if (paint.reflects && !is_first)
    return "reflects an image that an earlier random transform has changed\nhint: move it before "
           "all other random transforms, or set dataset.cache.mode to decoded";
  if (paint.outside) {
    const Bytes fill = in_channels(*paint.outside, channels);
    if (!colors.outside.empty() && colors.outside != fill)
      return "fills with a different color than an earlier transform\nhint: give both transforms "
             "the same 'fill', or set dataset.cache.mode to decoded";
    colors.outside = fill;
  }
  if (paint.erased) {
    if (!colors.erased.empty())
      return "erases, but an earlier transform already erases, and only one may erase\nhint: "
             "remove one of these transforms, or set dataset.cache.mode to decoded";
    colors.erased = in_channels(*paint.erased, channels);
  }
  return "";
}

}  // namespace

Pipeline hold_images(Pipeline pipeline, const ImageDevice& device, const Progress& progress,
                     int threads) {
  const auto prefix = std::make_shared<const Prefix>(pipeline);
  PlannedTail tail = planned_tail(pipeline, prefix->shape());
  ENSURE(config, tail.obstacle.empty(), "dataset.cache.mode=device: {}", tail.obstacle);
  ENSURE(config, pipeline.batch_transforms.empty(),
         "dataset.cache.mode=device: batch_transforms are not supported\nhint: remove "
         "batch_transforms, or set dataset.cache.mode to decoded");
  HeldImages held;
  held.shape = prefix->shape();
  held.colors = std::move(tail.colors);
  held.sound.resize(static_cast<std::size_t>(pipeline.dataset->size()));
  held.memory = device.allocate(held.sound.size() * held.shape.bytes(), held.shape.bytes());
  upload(*prefix, held, threads, progress);
  drop_fixed_prefix(pipeline);
  pipeline.dataset = std::make_shared<const HeldDataset>(prefix);
  pipeline.held = std::make_shared<const HeldImages>(std::move(held));
  return pipeline;
}

PlannedTail planned_tail(const Pipeline& pipeline, const ImageShape& shape) {
  PlannedTail tail;
  const std::size_t first = fixed_prefix(pipeline);
  ImageShape now = shape;
  for (std::size_t i = first; i < pipeline.transforms.size(); ++i) {
    const Transform& transform = *pipeline.transforms[i];
    const auto paint = transform.paints(now);
    if (!paint) {
      tail.obstacle =
          named(pipeline, i) +
          " computes new pixels, but images cached in GPU memory can only be cropped, padded, "
          "flipped and erased\nhint: remove the transform, move it before all random transforms "
          "(if it is not random), or set dataset.cache.mode to decoded";
      return tail;
    }
    if (!now.fixed()) break;
    if (const std::string why = add(*paint, i == first, shape.channels, tail.colors);
        !why.empty()) {
      tail.obstacle = named(pipeline, i) + " " + why;
      return tail;
    }
    now = transform.output(now);
  }
  if (!shape.fixed())
    tail.obstacle =
        "the images must have equal sizes after the transforms that are not random\nhint: begin "
        "with 'resize' and 'center_crop', or set dataset.cache.mode to decoded";
  const auto channels = static_cast<std::size_t>(shape.channels);
  tail.colors.outside.resize(channels);
  tail.colors.erased.resize(channels);
  return tail;
}

}  // namespace trainctl::data
