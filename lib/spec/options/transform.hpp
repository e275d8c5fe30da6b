#pragma once

#include "config/schema/describe.hpp"
#include "spec/experiment/enums.hpp"

#include <array>
#include <optional>
#include <vector>

namespace trainctl::spec::transform {

struct Resize {
  static constexpr auto kSummary =
      "Scales the image, as torchvision's Resize; bilinear is antialiased.";

  config::OneOrMore<int> size;
  std::optional<int> max_size;
  Interpolation interpolation = Interpolation::bilinear;

  static void describe(auto& options) {
    options.field(
        "size", &Resize::size,
        {.required = true, .at_least = 1, .at_most = 65'535, .example = "256"},
        "Length of the shorter side, which keeps the proportions; or [height, width] in pixels.");
    options.field("max_size", &Resize::max_size,
                  {.at_least = 1, .at_most = 65'535, .example = "512"},
                  "Most pixels of the longer side, where size is one number.");
    options.field("interpolation", &Resize::interpolation,
                  "How a place between pixels is read; nearest: pixel floor(i * input / output), "
                  "as torchvision's InterpolationMode.NEAREST on tensors.");
  }
};

struct CenterCrop {
  static constexpr auto kSummary =
      "Cuts out the middle, as torchvision's CenterCrop; a smaller image gets a black margin.";

  config::OneOrMore<int> size;

  static void describe(auto& options) {
    options.field("size", &CenterCrop::size,
                  {.required = true, .at_least = 1, .at_most = 65'535, .example = "224"},
                  "Height and width in pixels; one number for a square.");
  }
};

struct RandomCrop {
  static constexpr auto kSummary =
      "Pads the image, then crops it at a random place, as torchvision's RandomCrop.";

  config::OneOrMore<int> size;
  config::OneOrMore<int> padding{{0}};
  bool pad_if_needed = false;
  config::OneOrMore<int> fill{{0}};
  PaddingMode padding_mode = PaddingMode::constant;

  static void describe(auto& options) {
    options.field("size", &RandomCrop::size,
                  {.required = true, .at_least = 1, .at_most = 65'535, .example = "28"},
                  "Height and width of the crop, in pixels; one number for a square.");
    options.field("padding", &RandomCrop::padding, {.at_least = 0, .at_most = 65'535},
                  "Pixels added first: on each side, or [left and right, top and bottom], or "
                  "[left, top, right, bottom].");
    options.field("pad_if_needed", &RandomCrop::pad_if_needed,
                  "Pads further where the image is smaller than the crop.");
    options.field("fill", &RandomCrop::fill, {.at_least = 0, .at_most = 255},
                  "Value of the added pixels; one for all channels, or one for each.");
    options.field("padding_mode", &RandomCrop::padding_mode,
                  "What is added: constant: fill; edge: the outermost pixel; reflect: the image "
                  "mirrored without its outermost pixel; symmetric: mirrored with it.");
  }
};

struct RandomResizedCrop {
  static constexpr auto kSummary =
      "Cuts out a random part and scales it, as torchvision's RandomResizedCrop; bilinear is "
      "antialiased.";

  config::OneOrMore<int> size;
  std::array<double, 2> scale{0.08, 1.0};
  std::array<double, 2> ratio{3.0 / 4.0, 4.0 / 3.0};
  Interpolation interpolation = Interpolation::bilinear;

  static void describe(auto& options) {
    options.field("size", &RandomResizedCrop::size,
                  {.required = true, .at_least = 1, .at_most = 65'535, .example = "224"},
                  "Height and width in pixels; one number for a square.");
    options.field("scale", &RandomResizedCrop::scale, {.above = 0, .at_most = 1},
                  "Least and most of the image's area that the part covers.");
    options.field("ratio", &RandomResizedCrop::ratio, {.at_least = 1e-3, .at_most = 1e3},
                  "Least and most of the part's width over its height.");
    options.field("interpolation", &RandomResizedCrop::interpolation,
                  "How a place between pixels is read; nearest: pixel floor(i * input / output), "
                  "as torchvision's InterpolationMode.NEAREST on tensors.");
  }
};

struct RandomAffine {
  static constexpr auto kSummary =
      "Turns, moves, scales and shears the image at random, as torchvision's RandomAffine.";

  config::OneOrMore<double> degrees;
  std::array<double, 2> translate{0, 0};
  std::array<double, 2> scale{1, 1};
  config::OneOrMore<double> shear{{0}};
  Interpolation interpolation = Interpolation::nearest;
  config::OneOrMore<int> fill{{0}};
  std::optional<std::array<double, 2>> center;

  static void describe(auto& options) {
    options.field("degrees", &RandomAffine::degrees,
                  {.required = true, .at_least = -3600, .at_most = 3600, .example = "15"},
                  "Angles, clockwise: x for -x to x; or the smallest and largest.");
    options.field("translate", &RandomAffine::translate, {.at_least = 0, .at_most = 1},
                  "Farthest move to each side, as shares of the image's width and height.");
    options.field("scale", &RandomAffine::scale, {.at_least = 1e-3, .at_most = 1e3},
                  "Smallest and largest scale.");
    options.field(
        "shear", &RandomAffine::shear, {.above = -90, .below = 90},
        "Angles: x for -x to x; [least, most] along x; or [x least, x most, y least, y most].");
    options.field("interpolation", &RandomAffine::interpolation,
                  "How a place between pixels is read.");
    options.field("fill", &RandomAffine::fill, {.at_least = 0, .at_most = 255},
                  "Color of pixels from outside: one value for all channels, or one for each.");
    options.field("center", &RandomAffine::center,
                  {.at_least = -1e6, .at_most = 1e6, .example = "[16, 16]"},
                  "The point that stays: [x, y] from the upper left; absent: the middle.");
  }
};

struct RandomRotation {
  static constexpr auto kSummary =
      "Turns the image by a random angle, as torchvision's RandomRotation.";

  config::OneOrMore<double> degrees;
  Interpolation interpolation = Interpolation::nearest;
  bool expand = false;
  std::optional<std::array<double, 2>> center;
  config::OneOrMore<int> fill{{0}};

  static void describe(auto& options) {
    options.field("degrees", &RandomRotation::degrees,
                  {.required = true, .at_least = -3600, .at_most = 3600, .example = "15"},
                  "Angles, counter-clockwise: x for -x to x; or the smallest and largest.");
    options.field("interpolation", &RandomRotation::interpolation,
                  "How a place between pixels is read.");
    options.field("expand", &RandomRotation::expand, "Grows the image so that nothing is cut off.");
    options.field("center", &RandomRotation::center,
                  {.at_least = -1e6, .at_most = 1e6, .example = "[16, 16]"},
                  "The point that stays: [x, y] from the upper left; absent: the middle.");
    options.field("fill", &RandomRotation::fill, {.at_least = 0, .at_most = 255},
                  "Color of pixels from outside: one value for all channels, or one for each.");
  }
};

struct RandomPerspective {
  static constexpr auto kSummary =
      "Tilts the image at random with probability p, as torchvision's RandomPerspective.";

  double distortion_scale = 0.5;
  double p = 0.5;
  Interpolation interpolation = Interpolation::bilinear;
  config::OneOrMore<int> fill{{0}};

  static void describe(auto& options) {
    options.field("distortion_scale", &RandomPerspective::distortion_scale,
                  {.at_least = 0, .at_most = 1},
                  "How far a corner may move, as a share of half the image.");
    options.field("p", &RandomPerspective::p, {.at_least = 0, .at_most = 1}, "Probability.");
    options.field("interpolation", &RandomPerspective::interpolation,
                  "How a place between pixels is read.");
    options.field("fill", &RandomPerspective::fill, {.at_least = 0, .at_most = 255},
                  "Color of pixels from outside: one value for all channels, or one for each.");
  }
};

struct Flip {
  double p = 0.5;

  static void describe(auto& options) {
    options.field("p", &Flip::p, {.at_least = 0, .at_most = 1}, "Probability.");
  }
};

struct RandomHorizontalFlip : Flip {
  static constexpr auto kSummary =
      "Mirrors left and right with probability p, as torchvision's RandomHorizontalFlip.";
};

struct RandomVerticalFlip : Flip {
  static constexpr auto kSummary =
      "Mirrors top and bottom with probability p, as torchvision's RandomVerticalFlip.";
};

struct ColorJitter {
  static constexpr auto kSummary =
      "Changes brightness, contrast, saturation and hue at random, in a random order, as "
      "torchvision's ColorJitter.";

  config::OneOrMore<double> brightness{{0}};
  config::OneOrMore<double> contrast{{0}};
  config::OneOrMore<double> saturation{{0}};
  config::OneOrMore<double> hue{{0}};

  static void describe(auto& options) {
    options.field("brightness", &ColorJitter::brightness,
                  {.at_least = 0, .at_most = 1000, .example = "0.4"},
                  "x: a factor from max(0, 1 - x) to 1 + x; or the smallest and largest factor.");
    options.field("contrast", &ColorJitter::contrast,
                  {.at_least = 0, .at_most = 1000, .example = "0.4"}, "As brightness.");
    options.field("saturation", &ColorJitter::saturation,
                  {.at_least = 0, .at_most = 1000, .example = "[0.5, 1.5]"}, "As brightness.");
    options.field("hue", &ColorJitter::hue, {.at_least = -0.5, .at_most = 0.5, .example = "0.1"},
                  "x: a shift from -x to x, in turns of the color circle; or the smallest and "
                  "largest shift.");
  }
};

struct RandomGrayscale {
  static constexpr auto kSummary =
      "Turns the image gray with probability p, as torchvision's RandomGrayscale.";

  double p = 0.1;

  static void describe(auto& options) {
    options.field("p", &RandomGrayscale::p, {.at_least = 0, .at_most = 1}, "Probability.");
  }
};

struct Normalize {
  static constexpr auto kSummary =
      "(x / 255 - mean) / std for each channel, as torchvision's ToTensor and Normalize.";

  std::vector<double> mean;
  std::vector<double> std;

  static void describe(auto& options) {
    options.field("mean", &Normalize::mean,
                  {.required = true,
                   .not_empty = true,
                   .at_least = -1e6,
                   .at_most = 1e6,
                   .example = "[0.1307]"},
                  "Mean of each channel, of pixels in [0, 1].");
    options.field("std", &Normalize::std,
                  {.required = true,
                   .not_empty = true,
                   .at_least = 1e-6,
                   .at_most = 1e6,
                   .example = "[0.3081]"},
                  "Standard deviation of each channel.");
  }
};

struct GaussianBlur {
  static constexpr auto kSummary =
      "Blurs with a Gauss curve of random width, as torchvision's GaussianBlur.";

  config::OneOrMore<int> kernel_size;
  config::OneOrMore<double> sigma{{0.1, 2.0}};

  static void describe(auto& options) {
    options.field("kernel_size", &GaussianBlur::kernel_size,
                  {.required = true, .at_least = 1, .at_most = 511, .example = "23"},
                  "Width and height of the kernel in pixels, odd; one number for a square.");
    options.field("sigma", &GaussianBlur::sigma,
                  {.at_least = 1e-3, .at_most = 1e4, .example = "[0.1, 2.0]"},
                  "Standard deviation in pixels: one number, or the smallest and largest.");
  }
};

struct RandomErasing {
  static constexpr auto kSummary =
      "Paints over a random rectangle with probability p, as torchvision's RandomErasing.";

  double p = 0.5;
  std::array<double, 2> scale{0.02, 0.33};
  std::array<double, 2> ratio{0.3, 3.3};
  config::OneOrMore<int> value{{0}};

  static void describe(auto& options) {
    options.field("p", &RandomErasing::p, {.at_least = 0, .at_most = 1}, "Probability.");
    options.field("scale", &RandomErasing::scale, {.at_least = 0, .at_most = 1},
                  "Smallest and largest share of the image's area.");
    options.field("ratio", &RandomErasing::ratio, {.at_least = 1e-3, .at_most = 1e3},
                  "Smallest and largest height over width.");
    options.field(
        "value", &RandomErasing::value, {.at_least = 0, .at_most = 255},
        "Color of the rectangle, of uint8 pixels: one value for all channels, or one for each.");
  }
};

enum class AutoAugmentPolicy { imagenet, cifar10, svhn };
constexpr std::array<const char*, 3> enum_names(AutoAugmentPolicy) {
  return {"imagenet", "cifar10", "svhn"};
}

/// Options of augmentations with a policy.
struct Augment {
  Interpolation interpolation = Interpolation::nearest;
  std::optional<config::OneOrMore<int>> fill;

  static void describe(auto& options) {
    options.field("interpolation", &Augment::interpolation, "How a place between pixels is read.");
    options.field("fill", &Augment::fill,
                  {.at_least = 0, .at_most = 255, .example = "[124, 116, 104]"},
                  "Color of pixels from outside: one value for all channels, or one for each.");
  }
};

struct AutoAugment : Augment {
  static constexpr auto kSummary =
      "A pair of operations from a learnt policy, as torchvision's AutoAugment.";

  AutoAugmentPolicy policy = AutoAugmentPolicy::imagenet;

  static void describe(auto& options) {
    options.field("policy", &AutoAugment::policy, "The data set that the policy was learnt on.");
    Augment::describe(options);
  }
};

/// Options of augmentations whose operations have numbered magnitudes.
struct AugmentWithBins : Augment {
  int num_magnitude_bins = 31;

  static void describe(auto& options) {
    options.field("num_magnitude_bins", &AugmentWithBins::num_magnitude_bins,
                  {.at_least = 2, .at_most = 10'000}, "Number of strengths.");
    Augment::describe(options);
  }
};

struct RandAugment : AugmentWithBins {
  static constexpr auto kSummary =
      "Some random operations of one strength, as torchvision's RandAugment.";

  int num_ops = 2;
  int magnitude = 9;

  static void describe(auto& options) {
    options.field("num_ops", &RandAugment::num_ops, {.at_least = 0, .at_most = 100},
                  "Operations on each image, one after the other.");
    options.field("magnitude", &RandAugment::magnitude, {.at_least = 0},
                  "Strength of all of them, below num_magnitude_bins.");
    AugmentWithBins::describe(options);
  }
};

struct TrivialAugmentWide : AugmentWithBins {
  static constexpr auto kSummary =
      "One random operation of random strength, as torchvision's TrivialAugmentWide.";
};

}  // namespace trainctl::spec::transform
