#pragma once

#include "base/random.hpp"
#include "data/core/dataset.hpp"
#include "data/core/pixel_plan.hpp"
#include "data/image/geometry.hpp"
#include "data/image/image.hpp"

#include <optional>

namespace trainctl::data {

/// Records the effect of transforms that only move, mirror and paint over pixels, without touching
/// a pixel.
class PlannedImage {
 public:
  /// Starts with the unchanged source, whose height and width must be fixed.
  explicit PlannedImage(const ImageShape& source);

  [[nodiscard]] const ImageShape& shape() const { return shape_; }
  /// Crops to `window`; the part of the window outside of the image is filled.
  void crop(const Box& window);
  /// Crops the source, or its mirror image, to `window`. The part of the window outside of the
  /// image is reflected without the outermost pixel; it may be as large as the image without this
  /// pixel.
  void crop_reflected(const Box& window);
  void mirror_columns();
  void mirror_rows();
  /// Paints over a box within the image. A plan holds at most one box.
  void erase(const Box& box);

  /// Returns the recorded plan for the image `sample` on the device.
  [[nodiscard]] PixelPlan plan(std::int64_t sample) const;

 private:
  ImageShape shape_;
  PixelPlan plan_;
};

/// Per-channel normalization that the device applies when it converts uint8: (x / 255 - mean) /
/// std.
struct Normalization {
  std::vector<float> mean;
  std::vector<float> std;
  bool operator==(const Normalization&) const = default;
};

/// The fill colors of a step that only moves, mirrors and paints over pixels.
struct Paint {
  std::optional<Fill> outside;  // fill outside of the image, if it can become visible
  std::optional<Fill> erased;
  bool reflects = false;  // the image at its border; only a plan's first step can do this
};

/// One step on one uint8 HWC image, with torchvision's semantics for uint8 tensors. Stateless;
/// called from several threads at once. All randomness comes from `rng`, which is keyed by (seed,
/// epoch, global position, index in the list), see also alternates().
class Transform {
 public:
  virtual ~Transform() = default;
  /// Returns the shape after the step, or throws Error(config) when it cannot take this shape. A
  /// height or width of 0 means that samples differ in size, in the input and in the output. Called
  /// at startup, never per sample.
  [[nodiscard]] virtual ImageShape output(const ImageShape& input) const { return input; }
  /// Returns whether two calls with the same input may differ. Caches store the output of the steps
  /// before the first random one.
  [[nodiscard]] virtual bool random() const { return true; }
  /// Returns whether an image gets the draws of epoch 0 in every even epoch, and inverted ones in
  /// every odd epoch. `rng` is then keyed by (seed, sample, index in the list).
  [[nodiscard]] virtual bool alternates() const { return false; }
  /// Resizes `output` to the shape of this sample and writes all of it. Throws Error(data).
  virtual void apply(const ImageView& input, ImageTarget& output, CounterRng& rng) const = 0;
  /// Returns the largest shape that apply() may output for images up to `input`, which must be
  /// fixed.
  [[nodiscard]] virtual ImageShape largest(const ImageShape& input) const { return output(input); }
  /// Returns the bytes that apply() keeps per thread between calls, for images up to that shape.
  [[nodiscard]] virtual std::uint64_t scratch_bytes(const ImageShape& /*input*/) const { return 0; }
  /// Returns a cheaper step that replaces this one and `next`, if neither draws; otherwise null.
  [[nodiscard]] virtual std::shared_ptr<const Transform> then(const Transform& /*next*/) const {
    return nullptr;
  }
  /// Returns the fill colors if the step only moves, mirrors and paints over the pixels of images
  /// of that shape; such a step implements apply_to_plan(). Otherwise returns nothing.
  [[nodiscard]] virtual std::optional<Paint> paints(const ImageShape& /*input*/) const {
    return std::nullopt;
  }
  /// Applies the step to the plan, with the same draws as apply().
  virtual void apply_to_plan(PlannedImage& image, CounterRng& rng) const;
};

/// A transform that reads only one box of its input. If it is the first transform, only that box is
/// decoded.
class CropTransform : public Transform {
 public:
  /// Returns the required box of an image of that shape. Draws from `rng`.
  [[nodiscard]] virtual Box box(const ImageShape& input, CounterRng& rng) const = 0;
  /// Applies the step to the pixels of that box of an image of shape `whole`. `rng` must be in the
  /// state in which box() left it.
  virtual void apply_to_box(const ImageView& window, const ImageShape& whole, ImageTarget& output,
                            CounterRng& rng) const = 0;

  void apply(const ImageView& input, ImageTarget& output, CounterRng& rng) const final {
    apply_to_box(input.window(box(input.shape, rng)), input.shape, output, rng);
  }
};

constexpr int kMixSteps = 256;

/// How an image of a batch and its partner are mixed. Both get the same treatment.
struct Mix {
  int own = kMixSteps;  // weight of the original pixel in units of 1/256; the partner has the rest
  Box swapped;          // region that the two images exchange; empty if its height or width is 0
  float lambda = 1;     // weight of the original label, equal to the pixel share
};

/// Decides how the rows of a batch are mixed. Stateless; `rng` is keyed by (seed, epoch, global
/// batch).
class BatchTransform {
 public:
  virtual ~BatchTransform() = default;
  [[nodiscard]] virtual Mix draw(const ImageShape& image, CounterRng& rng) const = 0;
};

struct HeldImages;

/// A data set with its transforms, ready for a loader.
struct Pipeline {
  std::shared_ptr<const Dataset> dataset;
  std::vector<std::shared_ptr<const Transform>> transforms;
  /// Index of the first transform in the config's list, which keys its draws. It is above 0 when a
  /// cache has already applied the transforms before it.
  std::size_t first_operation = 0;
  std::optional<Normalization> normalization;
  std::vector<std::shared_ptr<const BatchTransform>>
      batch_transforms;            // one of them is drawn for each batch
  std::vector<std::string> names;  // names of the transforms, or empty
  /// Set when a device holds the images: the image field of a batch then contains one PixelPlan per
  /// row.
  std::shared_ptr<const HeldImages> held;
};

}  // namespace trainctl::data
