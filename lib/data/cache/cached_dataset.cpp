#include "data/cache/cached_dataset.hpp"

#include "data/remote/local_tier.hpp"

namespace trainctl::data {
namespace {

constexpr std::size_t kMostFields = 64;
constexpr std::int64_t kProgressEvery = 64;

std::size_t image_field_of(const Layout& layout) {
  const std::size_t image = find_field(layout, "image");
  ASSERT(image < layout.size() && layout.size() <= kMostFields);
  return image;
}

}  // namespace

CachedDataset::CachedDataset(std::shared_ptr<const Dataset> source, std::uint64_t capacity)
    : source_(std::move(source)),
      layout_(source_->layout()),
      image_(image_field_of(layout_)),
      stash_(source_->size(), {}, capacity) {}

CachedDataset::CachedDataset(std::unique_ptr<const Prefix> prefix, std::uint64_t capacity)
    : source_(prefix->dataset()),
      prefix_(std::move(prefix)),
      layout_(source_->layout()),
      image_(image_field_of(layout_)),
      stash_(source_->size(), prefix_->shape(), capacity) {
  layout_[image_] = image_field(prefix_->shape());
}

StoredImage CachedDataset::read(std::int64_t index, std::vector<std::byte>& scratch) const {
  ASSERT(index >= 0 && index < size());
  if (const auto kept = stash_.find(index)) return *kept;
  const StoredImage image =
      prefix_ ? prefix_->make(index, scratch) : source_->images()->read(index, scratch);
  stash_.keep(index, image);
  return image;
}

std::uint64_t CachedDataset::fetch(std::int64_t index) const {
  return stash_.find(index) ? 0 : source_->fetchable()->fetch(index);
}

void CachedDataset::load(const Progress& progress) const {
  std::vector<std::byte> scratch;
  FetchAhead ahead(source_, 1);
  ahead.begin({.count = size()});
  for (std::int64_t index = 0; index < size(); ++index) {
    if (progress && index % kProgressEvery == 0) progress(index, size());
    try {
      (void)read(index, scratch);
    } catch (const Error& error) {
      if (error.kind() != ErrorKind::data) throw;
    }
    ahead.used(1);
  }
  if (progress) progress(size(), size());
}

void CachedDataset::fill(std::span<const std::int64_t> indices, Rows rows) const {
  if (rows[image_].empty()) return source_->fill(indices, rows);
  fill_images(indices, rows[image_]);
  std::array<std::span<std::byte>, kMostFields> others;
  std::copy(rows.begin(), rows.end(), others.begin());
  others[image_] = {};
  source_->fill(indices, std::span(others).first(rows.size()));
}

void CachedDataset::fill_images(std::span<const std::int64_t> indices,
                                std::span<std::byte> images) const {
  const std::size_t bytes = layout_[image_].bytes();
  std::vector<std::byte> scratch;  // stays empty when all images are cached
  for (std::size_t i = 0; i < std::min(kRowsAhead, indices.size()); ++i) prefetch(indices[i]);
  for (std::size_t i = 0; i < indices.size(); ++i) {
    if (i + kRowsAhead < indices.size()) prefetch(indices[i + kRowsAhead]);
    try {
      const StoredImage image = read(indices[i], scratch);
      ASSERT(image.bytes.size() == bytes);
      std::memcpy(images.data() + i * bytes, image.bytes.data(), bytes);
    } catch (Error& error) {
      error.add_frame(name(indices[i]));
      throw;
    }
  }
}

ImageStash::ImageStash(std::int64_t samples, const ImageShape& shape, std::uint64_t capacity)
    : shape_(shape),
      states_(static_cast<std::size_t>(samples)),
      places_(shape.fixed() ? 0 : static_cast<std::size_t>(samples)),
      bytes_(shape.fixed() ? static_cast<std::size_t>(samples) * shape.bytes() : capacity,
             Touch::on_use) {}

std::uint64_t ImageStash::bookkeeping(std::int64_t samples, const ImageShape& shape) {
  return static_cast<std::uint64_t>(samples) * (1 + (shape.fixed() ? 0 : sizeof(Place)));
}

std::optional<StoredImage> ImageStash::find(std::int64_t index) const {
  const auto at = static_cast<std::size_t>(index);
  if (states_[at].load(std::memory_order_acquire) != kKept) return std::nullopt;
  if (shape_.fixed())
    return StoredImage{bytes_.bytes().subspan(at * shape_.bytes(), shape_.bytes()), shape_};
  const Place& place = places_[at];
  return StoredImage{bytes_.bytes().subspan(place.offset, place.bytes),
                     {place.height, place.width, place.channels}};
}

std::optional<std::uint64_t> ImageStash::room_for(std::int64_t index, std::uint64_t bytes) {
  if (shape_.fixed()) return static_cast<std::uint64_t>(index) * shape_.bytes();
  if (bytes > std::numeric_limits<std::uint32_t>::max()) return std::nullopt;
  std::uint64_t used = used_.load(std::memory_order_relaxed);
  do {
    if (bytes > bytes_.bytes().size() - used) return std::nullopt;
  } while (!used_.compare_exchange_weak(used, used + bytes, std::memory_order_relaxed));
  return used;
}

void ImageStash::keep(std::int64_t index, const StoredImage& image) {
  const auto at = static_cast<std::size_t>(index);
  std::uint8_t expected = kAbsent;
  if (!states_[at].compare_exchange_strong(expected, kClaimed, std::memory_order_relaxed)) return;
  ASSERT(!shape_.fixed() || image.raw == shape_);
  const auto offset = room_for(index, image.bytes.size());
  if (!offset) return;
  if (!shape_.fixed()) {
    places_[at] = {*offset, static_cast<std::uint32_t>(image.bytes.size()),
                   static_cast<std::uint32_t>(image.raw.height),
                   static_cast<std::uint32_t>(image.raw.width),
                   static_cast<std::uint32_t>(image.raw.channels)};
  }
  std::memcpy(bytes_.bytes().data() + *offset, image.bytes.data(), image.bytes.size());
  states_[at].store(kKept, std::memory_order_release);
}

void ImageStash::prefetch(std::int64_t index) const {
  if (const auto image = find(index)) prefetch_row(image->bytes.data(), image->bytes.size());
}

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
