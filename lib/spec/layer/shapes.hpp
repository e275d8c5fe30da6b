#pragma once

#include <cstdint>
#include <string>
#include <vector>

// What the layers of a sequential model share: the shapes that flow between them.

namespace trainctl::spec::layer {

using Shape = std::vector<std::int64_t>;  // of one sample: (C, H, W) of images, (T) of tokens

struct LayerInput {
  Shape shape;
  bool tokens = false;       // the numbers of tokens, which only an embedding takes
  std::int64_t outputs = 0;  // asked of the model: the classes, the tokens there are
};

/// What a layer makes of its input, or why it does not take it.
struct LayerStep {
  Shape shape;          // empty: not known, since the input does not fit
  std::string problem;  // empty: none
  std::string hint;
};

/// "16x28x28".
std::string shape_text(const Shape& shape);

/// A square that slides over height and width.
struct Window {
  std::int64_t kernel_size = 1;
  std::int64_t stride = 1;
  std::int64_t padding = 0;
  std::int64_t dilation = 1;
};

/// The images of `channels` that it leaves of an image.
LayerStep slid(const Shape& shape, const Window& window, std::int64_t channels);

/// The refusal of what is no image, C x H x W.
LayerStep no_image();

}  // namespace trainctl::spec::layer
