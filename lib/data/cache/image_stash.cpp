#include "data/cache/image_stash.hpp"

#include "base/error.hpp"
#include "data/loader/prefetch.hpp"

#include <algorithm>
#include <cstring>
#include <limits>

namespace trainctl::data {

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

}  // namespace trainctl::data
