#include "data/cache/fixed_prefix.hpp"

#include "data/remote/local_tier.hpp"

namespace trainctl::data {
std::size_t fixed_prefix(const Pipeline& pipeline) {
  const auto random = std::ranges::find_if(pipeline.transforms,
                                           [](auto& transform) { return transform->random(); });
  return static_cast<std::size_t>(random - pipeline.transforms.begin());
}

void drop_fixed_prefix(Pipeline& pipeline) {
  const std::size_t count = fixed_prefix(pipeline);
  const auto drop = [count](auto& list) {
    list.erase(list.begin(), list.begin() + static_cast<std::ptrdiff_t>(count));
  };
  drop(pipeline.transforms);
  if (!pipeline.names.empty()) drop(pipeline.names);
  pipeline.first_operation += count;
}

Prefix::Prefix(const Pipeline& pipeline) : dataset_(pipeline.dataset) {
  for (std::size_t i = 0; i < fixed_prefix(pipeline); ++i) {
    const auto& transform = pipeline.transforms[i];
    const auto joined = transforms_.empty() ? nullptr : transforms_.back()->then(*transform);
    if (joined) transforms_.pop_back();
    transforms_.push_back(joined ? joined : transform);
  }
  const std::size_t image = find_field(dataset_->layout(), "image");
  ASSERT(image < dataset_->layout().size());
  shape_ = shape_after(image_shape(dataset_->layout()[image]));
}

ImageShape Prefix::shape_before(const StoredImage& image) const {
  return Pool<Workspace>::Lease(pool_)->reader.shape(image);
}

ImageShape Prefix::shape_after(ImageShape shape) const {
  for (const auto& transform : transforms_) shape = transform->output(shape);
  return shape;
}

ImageView Prefix::run(std::int64_t index, Workspace& work) const {
  const StoredImage stored = dataset_->images()->read(index, work.stored);
  ImageView image = report_local_copy(*dataset_, index, [&] { return work.reader.read(stored); });
  for (std::size_t operation = 0; operation < transforms_.size(); ++operation) {
    ImageTarget out(work.between[operation % 2]);
    // Fixed transforms draw nothing, but the interface requires a generator.
    CounterRng rng(0, 0, 0, static_cast<std::uint16_t>(operation));
    transforms_[operation]->apply(image, out, rng);
    image = out.view();
  }
  return image;
}

StoredImage Prefix::make(std::int64_t index, std::vector<std::byte>& out) const {
  Pool<Workspace>::Lease work(pool_);
  const ImageView image = run(index, *work);
  if (out.size() < image.shape.bytes()) out.resize(image.shape.bytes());
  for (std::int64_t y = 0; y < image.shape.height; ++y) {
    std::memcpy(out.data() + static_cast<std::size_t>(y) * image.row_bytes(), image.row(y),
                image.row_bytes());
  }
  return {std::span(out).first(image.shape.bytes()), image.shape};
}

}  // namespace trainctl::data
