#pragma once

#include "data/image/geometry.hpp"

namespace trainctl::data {

/// How a warp samples its input.
struct Sampling {
  spec::transform::Interpolation interpolation = spec::transform::Interpolation::nearest;
  /// The color outside of the input. Without a value it is black, and bilinear edges are blended
  /// with it only once.
  std::optional<Fill> fill;
};

/// Maps an output pixel to an input position, both relative to the image centers: x_in = m[0] x +
/// m[1] y + m[2], y_in = m[3] x + m[4] y + m[5].
using AffineMatrix = std::array<double, 6>;

/// The parameters of torchvision's affine(), with shears as tangents instead of angles.
struct AffineMotion {
  double degrees = 0;
  double translate_x = 0;
  double translate_y = 0;
  double scale = 1;
  double shear_x = 0;
  double shear_y = 0;
  double center_x = 0;  // relative to the center of the image
  double center_y = 0;
};

/// Returns the matrix from output to input positions that applies the motion.
AffineMatrix inverse_of(const AffineMotion& motion);

/// Returns the smallest shape that contains the whole transformed image, as torchvision's
/// rotate(expand=True).
ImageShape expanded(const ImageShape& input, const AffineMatrix& matrix);

/// Writes an image of shape `size` whose pixels are sampled at the positions given by `matrix`,
/// like torchvision's affine_image in float32. `output` must not alias `input`.
void warp_affine(const ImageView& input, const AffineMatrix& matrix, const ImageShape& size,
                 const Sampling& sampling, ImageTarget& output);

/// The coefficients a ... h of x_in = (a x + b y + c) / (g x + h y + 1), y_in = (d x + e y + f) /
/// (g x + h y + 1), with the origin at the upper left.
using Perspective = std::array<float, 8>;
struct Point {
  std::int64_t x = 0;
  std::int64_t y = 0;
};
/// Returns the map from four points of the output, clockwise from the upper left, to the corners of
/// the input. Returns nothing when three of the points or of the corners are collinear.
std::optional<Perspective> perspective_of(const ImageShape& image,
                                          const std::array<Point, 4>& corners);

/// torchvision's perspective_image; keeps the size. `output` must not alias `input`.
void warp_perspective(const ImageView& input, const Perspective& perspective,
                      const Sampling& sampling, ImageTarget& output);

/// Whether a rotation crops the image or expands the output.
enum class Frame { kept, expanded };

/// The parameters of torchvision's rotate().
struct Rotation {
  double degrees = 0;  // counter-clockwise
  Frame frame = Frame::kept;
  std::optional<std::array<double, 2>> center;  // x and y from the upper left; default: the center
};

/// torchvision's rotate. Rotations by right angles about the center move pixels without sampling if
/// the frame allows it. `output` must not alias `input`.
void rotate(const ImageView& input, const Rotation& rotation, const Sampling& sampling,
            ImageTarget& output);

}  // namespace trainctl::data
