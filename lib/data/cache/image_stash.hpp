#pragma once

#include "data/core/dataset.hpp"
#include "data/loader/host_memory.hpp"

#include <atomic>
#include <cstdint>
#include <optional>
#include <vector>

namespace trainctl::data {

/// Memory for the images of a data set, filled as they come: each image once, by any thread, found
/// without a lock. The memory is reserved at the start and taken as it is written.
class ImageStash {
 public:
  /// Images of one shape lie at their index; any others, or files, one behind the other up to
  /// `capacity` bytes in all.
  ImageStash(std::int64_t samples, const ImageShape& shape, std::uint64_t capacity);

  /// Bytes that the books of so many images take, beside the images.
  static std::uint64_t bookkeeping(std::int64_t samples, const ImageShape& shape);

  /// Nothing where the image is not kept (yet).
  [[nodiscard]] std::optional<StoredImage> find(std::int64_t index) const;
  /// Keeps a copy, unless another thread did or does, or there is no room left.
  void keep(std::int64_t index, const StoredImage& image);
  void prefetch(std::int64_t index) const;

 private:
  struct Place {
    std::uint64_t offset = 0;
    std::uint32_t bytes = 0;
    std::uint32_t height = 0;  // of raw pixels
    std::uint32_t width = 0;
    std::uint32_t channels = 0;
  };
  enum State : std::uint8_t {
    kAbsent,
    kClaimed,
    kKept
  };  // claimed for good where there was no room

  [[nodiscard]] std::optional<std::uint64_t> room_for(std::int64_t index, std::uint64_t bytes);

  ImageShape shape_;  // fixed, or not
  std::vector<std::atomic<std::uint8_t>> states_;
  std::vector<Place> places_;  // empty where the shape is fixed
  std::atomic<std::uint64_t> used_{0};
  Arena bytes_;
};

}  // namespace trainctl::data
