#pragma once

#include "data/core/dataset.hpp"
#include "data/formats/file_reader.hpp"

#include <cstddef>
#include <cstdint>
#include <span>

namespace trainctl::data {

/// Consecutive bytes of one of the files of a data set.
struct FileRange {
  std::size_t file = 0;
  std::uint64_t offset = 0;
  std::uint64_t bytes = 0;
};

/// An image store whose images lie in files, each in one piece, so that they can be read long
/// before they are wanted. Called from several threads at once.
class ImageRanges {
 public:
  virtual ~ImageRanges() = default;
  /// Of all images.
  [[nodiscard]] virtual std::uint64_t bytes() const = 0;
  [[nodiscard]] virtual FileRange range(std::int64_t index) const = 0;
  /// Throws Error(data), also where the file has changed since it was listed.
  [[nodiscard]] virtual FileReader open(std::size_t file) const = 0;
  /// The image in the bytes of its range. Throws Error(data) where they are damaged.
  [[nodiscard]] virtual StoredImage image(std::int64_t index,
                                          std::span<const std::byte> bytes) const = 0;
};

}  // namespace trainctl::data
