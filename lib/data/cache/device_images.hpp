#pragma once

#include "data/image/image.hpp"

#include <memory>

namespace trainctl::data {

/// Device memory that holds the images of a data set. It is written once, from front to back. One
/// thread calls these functions, but several may fill a staging buffer.
class ImageMemory {
 public:
  virtual ~ImageMemory() = default;
  /// Returns a host buffer for at least one of the next images. May wait for a copy in flight.
  virtual std::span<std::byte> stage() = 0;
  /// Starts to copy the first `bytes` of stage() to `offset` in device memory.
  virtual void send(std::uint64_t offset, std::size_t bytes) = 0;
  /// Waits until all copies have completed.
  virtual void finish() = 0;
  /// Returns the device address of the first byte.
  [[nodiscard]] virtual const std::byte* address() const = 0;
};

/// A device that stores images and assembles batches from them. The engine, a layer above,
/// implements it.
class ImageDevice {
 public:
  virtual ~ImageDevice() = default;
  [[nodiscard]] virtual std::uint64_t free_bytes() const = 0;
  /// Throws Error(resource) when the device does not have `bytes` of free memory.
  [[nodiscard]] virtual std::unique_ptr<ImageMemory> allocate(std::uint64_t bytes,
                                                              std::size_t image_bytes) const = 0;
};

/// The fill colors that image plans refer to, one byte per channel.
struct PlanColors {
  std::vector<std::uint8_t> outside;
  std::vector<std::uint8_t> erased;
};

/// The images of a data set on a device: their pixels after the fixed transforms, contiguous in the
/// order of the data set.
struct HeldImages {
  std::unique_ptr<ImageMemory> memory;
  ImageShape shape;
  PlanColors colors;
  std::vector<bool> sound;  // by sample; false where the image is damaged
};

}  // namespace trainctl::data
