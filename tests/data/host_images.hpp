#pragma once

#include "base/error.hpp"
#include "data/cache/device_images.hpp"
#include "data/core/pixel_plan.hpp"
#include "data/loader/loader.hpp"

#include <cstring>
#include <memory>
#include <vector>

namespace trainctl::data::testing {

/// Simulates device memory in host memory. Up to `staged` images are in flight.
class HostMemory final : public ImageMemory {
 public:
  HostMemory(std::uint64_t bytes, std::size_t staged) : bytes_(bytes), stage_(staged) {}

  std::span<std::byte> stage() override { return stage_; }
  void send(std::uint64_t offset, std::size_t bytes) override {
    ASSERT(offset == sent_ && offset + bytes <= bytes_.size());
    std::memcpy(bytes_.data() + offset, stage_.data(), bytes);
    sent_ = offset + bytes;
  }
  void finish() override { ASSERT(sent_ == bytes_.size()); }
  [[nodiscard]] const std::byte* address() const override { return bytes_.data(); }

 private:
  std::vector<std::byte> bytes_;
  std::vector<std::byte> stage_;
  std::uint64_t sent_ = 0;
};

class HostDevice final : public ImageDevice {
 public:
  explicit HostDevice(std::uint64_t room = 1 << 30, std::size_t staged_images = 3)
      : room_(room), staged_images_(staged_images) {}

  [[nodiscard]] std::uint64_t free_bytes() const override { return room_; }
  [[nodiscard]] std::unique_ptr<ImageMemory> allocate(std::uint64_t bytes,
                                                      std::size_t image_bytes) const override {
    return std::make_unique<HostMemory>(bytes, staged_images_ * image_bytes);
  }

 private:
  std::uint64_t room_;
  std::size_t staged_images_;
};

/// Renders a plan to pixels; `shape` is the shape of the result.
inline std::vector<std::byte> made_of(const PixelPlan& plan, const std::uint8_t* source,
                                      const ImageShape& source_shape, const ImageShape& shape,
                                      const PlanColors& colors) {
  std::vector<std::byte> out;
  for (std::int32_t y = 0; y < shape.height; ++y) {
    for (std::int32_t x = 0; x < shape.width; ++x) {
      const std::int64_t pixel = source_pixel(plan, static_cast<std::int32_t>(source_shape.height),
                                              static_cast<std::int32_t>(source_shape.width), y, x);
      ASSERT(pixel < source_shape.height * source_shape.width);
      for (std::int64_t c = 0; c < shape.channels; ++c) {
        const int code = pixel_code(source, pixel, shape.channels, c);
        const auto channel = static_cast<std::size_t>(c);
        const int value = code == kFilled   ? colors.outside[channel]
                          : code == kErased ? colors.erased[channel]
                                            : code;
        out.push_back(static_cast<std::byte>(value));
      }
    }
  }
  return out;
}

/// Renders the image field of a batch of plans to pixels.
inline std::vector<std::byte> pixels_of(const Batch& batch, const Loader& loader) {
  const HeldImages& held = *loader.held();
  const ImageShape shape = image_shape(loader.layout()[0]);
  std::vector<std::byte> all;
  for (std::int64_t row = 0; row < batch.rows; ++row) {
    PixelPlan plan;
    std::memcpy(&plan, batch.fields[0].data() + static_cast<std::size_t>(row) * sizeof plan,
                sizeof plan);
    const auto* source = reinterpret_cast<const std::uint8_t*>(held.memory->address()) +
                         static_cast<std::size_t>(plan.sample) * held.shape.bytes();
    const std::vector<std::byte> image = made_of(plan, source, held.shape, shape, held.colors);
    all.insert(all.end(), image.begin(), image.end());
  }
  return all;
}

}  // namespace trainctl::data::testing
