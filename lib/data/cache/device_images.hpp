#pragma once

#include "data/image/image.hpp"

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

namespace trainctl::data {

/// Memory of a device that keeps the images of a data set. Written once, from front to back; one
/// thread calls these, and several may fill a stage.
class ImageMemory {
 public:
  virtual ~ImageMemory() = default;
  /// Room on the host for some of the next images, at least for one. May wait for bytes on their
  /// way.
  virtual std::span<std::byte> stage() = 0;
  /// Sends the first `bytes` of stage() to `offset`.
  virtual void send(std::uint64_t offset, std::size_t bytes) = 0;
  /// Returns when all bytes have arrived.
  virtual void finish() = 0;
  /// Of the first byte, for the code that runs on the device.
  [[nodiscard]] virtual const std::byte* address() const = 0;
};

/// A device that has memory for images and makes batches of them: the layer above has it.
class ImageDevice {
 public:
  virtual ~ImageDevice() = default;
  [[nodiscard]] virtual std::uint64_t free_bytes() const = 0;
  /// Throws Error(resource) where so much is not there.
  [[nodiscard]] virtual std::unique_ptr<ImageMemory> allocate(std::uint64_t bytes,
                                                              std::size_t image_bytes) const = 0;
};

/// The colors in plans of images, a byte for each channel.
struct PlanColors {
  std::vector<std::uint8_t> outside;
  std::vector<std::uint8_t> erased;
};

/// The images of a data set on a device: their pixels behind the fixed transforms, one after the
/// other.
struct HeldImages {
  std::unique_ptr<ImageMemory> memory;
  ImageShape shape;
  PlanColors colors;
  std::vector<bool> sound;  // by sample; a damaged one is not there
};

}  // namespace trainctl::data
