#pragma once

#include "data/image/geometry.hpp"
#include "data/image/image.hpp"
#include "spec/experiment/enums.hpp"

#include <array>
#include <optional>

namespace trainctl::data {

/// How a warp reads its input.
struct Sampling {
  spec::transform::Interpolation interpolation = spec::transform::Interpolation::nearest;
  /// Of pixels from outside; none: black, which bilinear edges then blend with once only.
  std::optional<Fill> fill;
};

/// From a pixel of the output to a place in the input, about the centers of both: x_in = m[0] x +
/// m[1] y + m[2], y_in = m[3] x + m[4] y + m[5].
using AffineMatrix = std::array<double, 6>;

/// What torchvision's affine() is given. Shears are tangents, not angles.
struct AffineMotion {
  double degrees = 0;
  double translate_x = 0;
  double translate_y = 0;
  double scale = 1;
  double shear_x = 0;
  double shear_y = 0;
  double center_x = 0;  // from the middle of the image
  double center_y = 0;
};

AffineMatrix inverse_of(const AffineMotion& motion);

/// Smallest height and width that hold the whole image behind `matrix`, as torchvision's
/// rotate(expand=True).
ImageShape expanded(const ImageShape& input, const AffineMatrix& matrix);

/// Writes `height` x `width` pixels, each read where `matrix` leads: torchvision's affine_image in
/// its float32 arithmetic. `output` must lie elsewhere.
void warp_affine(const ImageView& input, const AffineMatrix& matrix, const ImageShape& size,
                 const Sampling& sampling, ImageTarget& output);

/// a ... h of x_in = (a x + b y + c) / (g x + h y + 1), y_in = (d x + e y + f) / (g x + h y + 1),
/// from the upper left.
using Perspective = std::array<float, 8>;
struct Point {
  std::int64_t x = 0;
  std::int64_t y = 0;
};
/// The one that takes four places of the output, clockwise from the upper left, to the corners of
/// the input; nothing where three of the places, or of the corners, lie on one line.
std::optional<Perspective> perspective_of(const ImageShape& image,
                                          const std::array<Point, 4>& corners);

/// torchvision's perspective_image; the size stays. `output` must lie elsewhere.
void warp_perspective(const ImageView& input, const Perspective& perspective,
                      const Sampling& sampling, ImageTarget& output);

/// How a rotation treats what leaves the frame.
enum class Frame { kept, expanded };

struct Rotation {
  double degrees = 0;  // counter-clockwise
  Frame frame = Frame::kept;
  std::optional<std::array<double, 2>> center;  // x and y from the upper left; none: the middle
};

/// torchvision's rotate; right angles about the middle are moves of pixels where the frame allows
/// it. `output` must lie elsewhere.
void rotate(const ImageView& input, const Rotation& rotation, const Sampling& sampling,
            ImageTarget& output);

}  // namespace trainctl::data
