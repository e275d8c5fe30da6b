#pragma once

#include "base/random.hpp"
#include "data/core/dataset.hpp"
#include "data/core/pixel_plan.hpp"
#include "data/image/geometry.hpp"
#include "data/image/image.hpp"

#include <optional>

namespace trainctl::data {

/// An image that cheap transforms change without touching a pixel: they move, mirror and paint.
class PlannedImage {
 public:
  /// The source as it is; its height and width are known.
  explicit PlannedImage(const ImageShape& source);

  [[nodiscard]] const ImageShape& shape() const { return shape_; }
  /// The part that `window` shows; what it shows outside of the image is filled.
  void crop(const Box& window);
  void mirror_columns();
  void mirror_rows();
  /// Paints over a box within the image; a plan holds one.
  void erase(const Box& box);

  [[nodiscard]] PixelPlan plan(std::int64_t sample) const;

 private:
  ImageShape shape_;
  PixelPlan plan_;
};

/// Per-channel scale that the device applies when it widens uint8: (x / 255 - mean) / std.
struct Normalization {
  std::vector<float> mean;
  std::vector<float> std;
  bool operator==(const Normalization&) const = default;
};

/// The colors that a step paints whose whole work it is to move, mirror and paint over pixels.
struct Paint {
  std::optional<Fill> outside;  // of the image, where the step shows what is there
  std::optional<Fill> erased;
};

/// One step on one uint8 HWC image, with torchvision's semantics on uint8 tensors. Stateless;
/// called from several threads at once. All its randomness comes from `rng`, which is keyed by
/// (seed, epoch, global position, place in the list).
class Transform {
 public:
  virtual ~Transform() = default;
  /// Shape after the step, or Error(config) where it cannot take this shape. A height or width of 0
  /// in the input means that each sample has its own; the same in the output. Called at start,
  /// never per sample.
  [[nodiscard]] virtual ImageShape output(const ImageShape& input) const { return input; }
  /// Whether two calls with one input may differ. A cache keeps what the steps before make.
  [[nodiscard]] virtual bool random() const { return true; }
  /// Resizes `output` to the shape of this sample and writes all of it. Throws Error(data).
  virtual void apply(const ImageView& input, ImageTarget& output, CounterRng& rng) const = 0;
  /// The largest shape that apply() may give for images up to the shape `input`, which is fixed.
  [[nodiscard]] virtual ImageShape largest(const ImageShape& input) const { return output(input); }
  /// Bytes that apply() keeps for each thread between calls, for images up to that shape.
  [[nodiscard]] virtual std::uint64_t scratch_bytes(const ImageShape& /*input*/) const { return 0; }
  /// One cheaper step in place of this one and `next`, which do not draw; null: there is none.
  [[nodiscard]] virtual std::shared_ptr<const Transform> then(const Transform& /*next*/) const {
    return nullptr;
  }
  /// Nothing where the step does more than to move, mirror and paint over the pixels of images of
  /// that shape; else it has apply_to_plan().
  [[nodiscard]] virtual std::optional<Paint> paints(const ImageShape& /*input*/) const {
    return std::nullopt;
  }
  /// What apply() would make of the image, with the same draws.
  virtual void apply_to_plan(PlannedImage& image, CounterRng& rng) const;
};

/// A transform that reads no more than one box of its input: where it comes first, only that box is
/// decoded.
class CropTransform : public Transform {
 public:
  /// The part of an image of that shape which is needed; takes its draws from `rng`.
  [[nodiscard]] virtual Box box(const ImageShape& input, CounterRng& rng) const = 0;
  /// The step on the pixels of that box of an image of shape `whole`; `rng` as box() left it.
  virtual void apply_to_box(const ImageView& window, const ImageShape& whole, ImageTarget& output,
                            CounterRng& rng) const = 0;

  void apply(const ImageView& input, ImageTarget& output, CounterRng& rng) const final {
    apply_to_box(input.window(box(input.shape, rng)), input.shape, output, rng);
  }
};

constexpr int kMixSteps = 256;

/// How each image of a batch and its partner become two others. Both are mixed in the same way.
struct Mix {
  int own = kMixSteps;  // of each byte: own / 256 of itself, the rest of its partner's
  Box swapped;          // pixels that the two exchange; none where its height or width is 0
  float lambda = 1;     // share of the label that is the image's own, exactly what the pixels got
};

/// Decides how the rows of one batch are mixed. Stateless; `rng` is keyed by (seed, epoch, global
/// batch).
class BatchTransform {
 public:
  virtual ~BatchTransform() = default;
  [[nodiscard]] virtual Mix draw(const ImageShape& image, CounterRng& rng) const = 0;
};

struct HeldImages;

/// A data set with its transforms, ready to be loaded.
struct Pipeline {
  std::shared_ptr<const Dataset> dataset;
  std::vector<std::shared_ptr<const Transform>> transforms;
  /// Index of the first of them in the config's list, which keys their draws; a cache did the
  /// others.
  std::size_t first_operation = 0;
  std::optional<Normalization> normalization;
  std::vector<std::shared_ptr<const BatchTransform>> batch_transforms;  // one for each batch
  std::vector<std::string> names;  // of the transforms, where they have any
  /// The images where a device keeps them: the image field of a batch then has a PixelPlan a row.
  std::shared_ptr<const HeldImages> held;
};

}  // namespace trainctl::data
