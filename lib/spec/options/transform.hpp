#pragma once

#include "config/schema/describe.hpp"
#include "spec/experiment/enums.hpp"

#include <array>
#include <optional>
#include <vector>

namespace trainctl::spec::transform {

struct Resize {
  static constexpr auto kSummary =
      "Resizes the image, as torchvision's Resize; bilinear is antialiased.";

  config::OneOrMore<int> size;
  std::optional<int> max_size;
  Interpolation interpolation = Interpolation::bilinear;

  static void describe(auto& options) {
    options.field(
        "size", &Resize::size,
        {.required = true, .at_least = 1, .at_most = 65'535, .example = "256"},
        "Length of the shorter side, keeping the aspect ratio, or [height, width], in pixels.");
    options.field("max_size", &Resize::max_size,
                  {.at_least = 1, .at_most = 65'535, .example = "512"},
                  "Maximum length of the longer side in pixels, if size is one number.");
    options.field("interpolation", &Resize::interpolation,
                  "Interpolation mode; nearest: pixel floor(i * input / output), as torchvision's "
                  "InterpolationMode.NEAREST on tensors.");
  }
};

struct CenterCrop {
  static constexpr auto kSummary =
      "Crops the center, as torchvision's CenterCrop; a smaller image is padded with black.";

  config::OneOrMore<int> size;

  static void describe(auto& options) {
    options.field("size", &CenterCrop::size,
                  {.required = true, .at_least = 1, .at_most = 65'535, .example = "224"},
                  "Height and width in pixels; one number for a square.");
  }
};

struct RandomCrop {
  static constexpr auto kSummary =
      "Pads the image, then crops it at a random position, as torchvision's RandomCrop.";

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
                  "Padding before the crop, in pixels: one number for all sides, [left and right, "
                  "top and bottom], or [left, top, right, bottom].");
    options.field("pad_if_needed", &RandomCrop::pad_if_needed,
                  "Pads further if the image is smaller than the crop.");
    options.field("fill", &RandomCrop::fill, {.at_least = 0, .at_most = 255},
                  "Value of the added pixels; one for all channels, or one for each.");
    options.field("padding_mode", &RandomCrop::padding_mode,
                  "Padding mode. constant: fill; edge: the outermost pixel; reflect: the image "
                  "mirrored without its outermost pixel; symmetric: mirrored with it.");
  }
};

struct RandomResizedCrop {
  static constexpr auto kSummary =
      "Crops a random area and resizes it, as torchvision's RandomResizedCrop; bilinear is "
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
                  "Smallest and largest area of the crop, as fractions of the image's area.");
    options.field("ratio", &RandomResizedCrop::ratio, {.at_least = 1e-3, .at_most = 1e3},
                  "Smallest and largest aspect ratio of the crop (width / height).");
    options.field("interpolation", &RandomResizedCrop::interpolation,
                  "Interpolation mode; nearest: pixel floor(i * input / output), as torchvision's "
                  "InterpolationMode.NEAREST on tensors.");
  }
};

struct RandomAffine {
  static constexpr auto kSummary =
      "Rotates, translates, scales and shears the image at random, as torchvision's RandomAffine.";

  config::OneOrMore<double> degrees;
  std::array<double, 2> translate{0, 0};
  std::array<double, 2> scale{1, 1};
  config::OneOrMore<double> shear{{0}};
  Interpolation interpolation = Interpolation::nearest;
  config::OneOrMore<int> fill{{0}};
  std::optional<std::array<double, 2>> center;

  static void describe(auto& options) {
    options.field(
        "degrees", &RandomAffine::degrees,
        {.required = true, .at_least = -3600, .at_most = 3600, .example = "15"},
        "Range of angles in degrees, clockwise: x for -x to x, or the smallest and largest.");
    options.field(
        "translate", &RandomAffine::translate, {.at_least = 0, .at_most = 1},
        "Largest horizontal and vertical shift, as fractions of the image's width and height.");
    options.field("scale", &RandomAffine::scale, {.at_least = 1e-3, .at_most = 1e3},
                  "Smallest and largest scale.");
    options.field("shear", &RandomAffine::shear, {.above = -90, .below = 90},
                  "Range of shear angles in degrees: x for -x to x; [min, max] along x; or [x min, "
                  "x max, y min, y max].");
    options.field("interpolation", &RandomAffine::interpolation, "Interpolation mode.");
    options.field(
        "fill", &RandomAffine::fill, {.at_least = 0, .at_most = 255},
        "Fill value of pixels outside the image: one for all channels, or one per channel.");
    options.field(
        "center", &RandomAffine::center, {.at_least = -1e6, .at_most = 1e6, .example = "[16, 16]"},
        "Center of rotation: [x, y] in pixels from the upper left; absent: the image's center.");
  }
};

struct RandomRotation {
  static constexpr auto kSummary =
      "Rotates the image by a random angle, as torchvision's RandomRotation.";

  config::OneOrMore<double> degrees;
  Interpolation interpolation = Interpolation::nearest;
  bool expand = false;
  std::optional<std::array<double, 2>> center;
  config::OneOrMore<int> fill{{0}};

  static void describe(auto& options) {
    options.field("degrees", &RandomRotation::degrees,
                  {.required = true, .at_least = -3600, .at_most = 3600, .example = "15"},
                  "Range of angles in degrees, counterclockwise: x for -x to x, or the smallest "
                  "and largest.");
    options.field("interpolation", &RandomRotation::interpolation, "Interpolation mode.");
    options.field("expand", &RandomRotation::expand,
                  "Enlarges the image so that nothing is cut off.");
    options.field(
        "center", &RandomRotation::center,
        {.at_least = -1e6, .at_most = 1e6, .example = "[16, 16]"},
        "Center of rotation: [x, y] in pixels from the upper left; absent: the image's center.");
    options.field(
        "fill", &RandomRotation::fill, {.at_least = 0, .at_most = 255},
        "Fill value of pixels outside the image: one for all channels, or one per channel.");
  }
};

struct RandomPerspective {
  static constexpr auto kSummary =
      "Applies a random perspective transformation with probability p, as torchvision's "
      "RandomPerspective.";

  double distortion_scale = 0.5;
  double p = 0.5;
  Interpolation interpolation = Interpolation::bilinear;
  config::OneOrMore<int> fill{{0}};

  static void describe(auto& options) {
    options.field("distortion_scale", &RandomPerspective::distortion_scale,
                  {.at_least = 0, .at_most = 1},
                  "Largest shift of a corner, as a fraction of half the image.");
    options.field("p", &RandomPerspective::p, {.at_least = 0, .at_most = 1}, "Probability.");
    options.field("interpolation", &RandomPerspective::interpolation, "Interpolation mode.");
    options.field(
        "fill", &RandomPerspective::fill, {.at_least = 0, .at_most = 255},
        "Fill value of pixels outside the image: one for all channels, or one per channel.");
  }
};

struct Flip {
  double p = 0.5;
  bool alternate = false;

  static void describe(auto& options) {
    options.field("p", &Flip::p, {.at_least = 0, .at_most = 1}, "Probability.");
    options.field(
        "alternate", &Flip::alternate,
        "Draws once per image: even epochs repeat the first epoch, and odd epochs flip the "
        "other images (alternating flip, Jordan 2024); requires p 0.5.");
  }
};

struct RandomHorizontalFlip : Flip {
  static constexpr auto kSummary =
      "Flips the image horizontally with probability p, as torchvision's RandomHorizontalFlip.";
};

struct RandomVerticalFlip : Flip {
  static constexpr auto kSummary =
      "Flips the image vertically with probability p, as torchvision's RandomVerticalFlip.";
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
                  "Range of the brightness factor: x for max(0, 1 - x) to 1 + x, or [min, max].");
    options.field("contrast", &ColorJitter::contrast,
                  {.at_least = 0, .at_most = 1000, .example = "0.4"}, "Same as brightness.");
    options.field("saturation", &ColorJitter::saturation,
                  {.at_least = 0, .at_most = 1000, .example = "[0.5, 1.5]"}, "Same as brightness.");
    options.field(
        "hue", &ColorJitter::hue, {.at_least = -0.5, .at_most = 0.5, .example = "0.1"},
        "Range of the hue shift, in turns of the color circle: x for -x to x, or [min, max].");
  }
};

struct RandomGrayscale {
  static constexpr auto kSummary =
      "Converts the image to grayscale with probability p, as torchvision's RandomGrayscale.";

  double p = 0.1;

  static void describe(auto& options) {
    options.field("p", &RandomGrayscale::p, {.at_least = 0, .at_most = 1}, "Probability.");
  }
};

struct RandomInvert {
  static constexpr auto kSummary =
      "Inverts the colors of the image with probability p, as torchvision's RandomInvert.";

  double p = 0.5;

  static void describe(auto& options) {
    options.field("p", &RandomInvert::p, {.at_least = 0, .at_most = 1}, "Probability.");
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
      "Blurs the image with a Gaussian of random width, as torchvision's GaussianBlur.";

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
      "Erases a random rectangle with probability p, as torchvision's RandomErasing.";

  double p = 0.5;
  std::array<double, 2> scale{0.02, 0.33};
  std::array<double, 2> ratio{0.3, 3.3};
  config::OneOrMore<int> value{{0}};

  static void describe(auto& options) {
    options.field("p", &RandomErasing::p, {.at_least = 0, .at_most = 1}, "Probability.");
    options.field("scale", &RandomErasing::scale, {.at_least = 0, .at_most = 1},
                  "Smallest and largest area of the rectangle, as fractions of the image's area.");
    options.field("ratio", &RandomErasing::ratio, {.at_least = 1e-3, .at_most = 1e3},
                  "Smallest and largest aspect ratio of the rectangle (height / width).");
    options.field(
        "value", &RandomErasing::value, {.at_least = 0, .at_most = 255},
        "Value of the rectangle's pixels, 0 to 255: one for all channels, or one per channel.");
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
    options.field("interpolation", &Augment::interpolation, "Interpolation mode.");
    options.field(
        "fill", &Augment::fill, {.at_least = 0, .at_most = 255, .example = "[124, 116, 104]"},
        "Fill value of pixels outside the image: one for all channels, or one per channel.");
  }
};

struct AutoAugment : Augment {
  static constexpr auto kSummary =
      "Applies two operations of a learned policy, as torchvision's AutoAugment.";

  AutoAugmentPolicy policy = AutoAugmentPolicy::imagenet;

  static void describe(auto& options) {
    options.field("policy", &AutoAugment::policy, "The data set that the policy was learned on.");
    Augment::describe(options);
  }
};

/// Options of augmentations whose operations have numbered magnitudes.
struct AugmentWithBins : Augment {
  int num_magnitude_bins = 31;

  static void describe(auto& options) {
    options.field("num_magnitude_bins", &AugmentWithBins::num_magnitude_bins,
                  {.at_least = 2, .at_most = 10'000}, "Number of magnitude levels.");
    Augment::describe(options);
  }
};

struct RandAugment : AugmentWithBins {
  static constexpr auto kSummary =
      "Applies random operations of one magnitude, as torchvision's RandAugment.";

  int num_ops = 2;
  int magnitude = 9;

  static void describe(auto& options) {
    options.field("num_ops", &RandAugment::num_ops, {.at_least = 0, .at_most = 100},
                  "Number of operations applied to each image in sequence.");
    options.field("magnitude", &RandAugment::magnitude, {.at_least = 0},
                  "Magnitude of all operations, below num_magnitude_bins.");
    AugmentWithBins::describe(options);
  }
};

struct TrivialAugmentWide : AugmentWithBins {
  static constexpr auto kSummary =
      "Applies one random operation of random magnitude, as torchvision's TrivialAugmentWide.";
};

}  // namespace trainctl::spec::transform
