#pragma once

#include "config/schema/describe.hpp"
#include "spec/compatibility.hpp"
#include "spec/options/text_model.hpp"
#include "spec/sample.hpp"

#include <array>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

namespace trainctl::spec::model {

struct Linear {
  static constexpr auto kSummary =
      "One linear layer on the flattened input: multinomial logistic regression.";

  bool bias = true;

  static void describe(auto& options) {
    options.field("bias", &Linear::bias, "Adds a learnable bias.");
  }
};

enum class Activation { relu, gelu, tanh, sigmoid };
constexpr std::array<const char*, 4> enum_names(Activation) {
  return {"relu", "gelu", "tanh", "sigmoid"};
}

struct Mlp {
  static constexpr auto kSummary =
      "Fully connected layers with an activation between them, on the flattened input.";

  std::vector<std::int64_t> hidden{128, 64};
  Activation activation = Activation::relu;
  double dropout = 0;

  static void describe(auto& options) {
    options.field("hidden", &Mlp::hidden, {.at_least = 1, .at_most = 1 << 20},
                  "Width of each hidden layer.");
    options.field("activation", &Mlp::activation, "Activation after each hidden layer.");
    options.field("dropout", &Mlp::dropout, {.at_least = 0, .below = 1},
                  "Probability of dropping a unit after each activation.");
  }
};

struct Lenet {
  static constexpr auto kSummary =
      "LeNet-5 (LeCun et al. 1998): two convolutions with pooling, three linear layers.";

  Activation activation = Activation::relu;

  /// Accepts 32x32 as in the paper, and 28x28, which the first convolution pads.
  static constexpr bool takes(std::int64_t height, std::int64_t width) {
    return height == width && (height == 28 || height == 32);
  }

  static constexpr bool takes(Inputs inputs) { return inputs == Inputs::images; }

  static void describe(auto& options) {
    options.field("activation", &Lenet::activation, "Activation after each layer but the last.");
  }
};

/// Whether training rounds weights and activations as an int8 model does.
enum class Quantize { none, int8 };
constexpr std::array<const char*, 2> enum_names(Quantize) { return {"none", "int8"}; }

/// The option `quantize` of the models that can train for int8.
template <class Options>
void describe_quantize(auto& options) {
  options.field("quantize", &Options::quantize,
                "int8: rounds weights and activations in training as in an int8 model "
                "(quantization-aware training).");
}

/// The base of networks that accept only images.
struct OfImages {
  [[nodiscard]] static bool takes(Inputs inputs) { return inputs == Inputs::images; }
};

/// Returns the refusals of a convolutional network that halves the sides of images `halvings`
/// times: before the last time there must be more than one pixel.
std::vector<Refusal> refuse_small(const ModelInput& input, int halvings);

/// The base of networks that halve the sides of images five times.
struct HalvesImages : OfImages {
  [[nodiscard]] static std::vector<Refusal> refusals(const ModelInput& input) {
    return refuse_small(input, 5);
  }
};

/// Options of all sizes.
struct Resnet : HalvesImages {
  bool zero_init_residual = false;
  Quantize quantize = Quantize::none;

  /// Also refuses scales of 0, by which training for int8 divides.
  [[nodiscard]] std::vector<Refusal> refusals(const ModelInput& input) const;

  static void describe(auto& options) {
    options.field("zero_init_residual", &Resnet::zero_init_residual,
                  "Initializes the last batch normalization of each residual block to 0, so that "
                  "the block starts as the identity (Goyal et al. 2017).");
    describe_quantize<Resnet>(options);
  }
};

struct Resnet18 : Resnet {
  static constexpr auto kSummary =
      "ResNet-18 (He et al. 2015), as torchvision's: 11.7 million parameters for 1000 classes.";
};

struct Resnet34 : Resnet {
  static constexpr auto kSummary =
      "ResNet-34 (He et al. 2015), as torchvision's: 21.8 million parameters for 1000 classes.";
};

struct Resnet50 : Resnet {
  static constexpr auto kSummary =
      "ResNet-50 (He et al. 2015), as torchvision's: 25.6 million parameters for 1000 classes.";
};

struct Resnet101 : Resnet {
  static constexpr auto kSummary =
      "ResNet-101 (He et al. 2015), as torchvision's: 44.5 million parameters for 1000 classes.";
};

struct Resnet152 : Resnet {
  static constexpr auto kSummary =
      "ResNet-152 (He et al. 2015), as torchvision's: 60.2 million parameters for 1000 classes.";
};

struct SeResnet50 : Resnet {
  static constexpr auto kSummary =
      "SE-ResNet-50 (Hu et al. 2017): ResNet-50 with squeeze-and-excitation in each unit; the "
      "parameters have timm's names.";
};

enum class CifarShortcut { a, b };
constexpr std::array<const char*, 2> enum_names(CifarShortcut) { return {"a", "b"}; }

struct ResnetCifar : OfImages {
  static constexpr auto kSummary =
      "The small ResNet for 32x32 images (He et al. 2015, section 4.2): 16, 32 and 64 channels.";

  std::int64_t depth = 20;
  CifarShortcut shortcut = CifarShortcut::a;
  Quantize quantize = Quantize::none;

  /// Also refuses a depth that is not 6n + 2: three stages of n units with two layers each, and two
  /// more layers.
  [[nodiscard]] std::vector<Refusal> refusals(const ModelInput& input) const;

  static void describe(auto& options) {
    options.field("depth", &ResnetCifar::depth, {.at_least = 8, .at_most = 1202, .example = "56"},
                  "Number of layers with weights, 6n + 2: 20, 32, 44, 56 or 110 in the paper.");
    options.field("shortcut", &ResnetCifar::shortcut,
                  "Shortcut where the number of channels grows. a: zero padding, without "
                  "parameters, as in the paper; b: a 1x1 convolution.");
    describe_quantize<ResnetCifar>(options);
  }
};

/// Options of MobileNetV2 and V3.
struct Mobilenet : HalvesImages {
  double width_mult = 1;
  double dropout = 0.2;
  Quantize quantize = Quantize::none;

  static void describe(auto& options) {
    options.field("width_mult", &Mobilenet::width_mult,
                  {.above = 0, .at_most = 16, .example = "0.5"},
                  "Factor on the channels of every layer, rounded to multiples of 8.");
    options.field("dropout", &Mobilenet::dropout, {.at_least = 0, .below = 1},
                  "Dropout probability before the last linear layer.");
    describe_quantize<Mobilenet>(options);
  }
};

struct MobilenetV2 : Mobilenet {
  static constexpr auto kSummary =
      "MobileNetV2 (Sandler et al. 2018), as torchvision's: 3.5 million parameters.";
};

struct MobilenetV3Small : Mobilenet {
  static constexpr auto kSummary =
      "MobileNetV3-Small (Howard et al. 2019), as torchvision's: 2.5 million parameters.";
};

struct MobilenetV3Large : Mobilenet {
  static constexpr auto kSummary =
      "MobileNetV3-Large (Howard et al. 2019), as torchvision's: 5.5 million parameters.";
};

/// Options of all sizes; larger ones have a higher default dropout.
struct Efficientnet : HalvesImages {
  double dropout = 0.2;
  double stochastic_depth_prob = 0.2;

  static void describe(auto& options) {
    options.field("dropout", &Efficientnet::dropout, {.at_least = 0, .below = 1},
                  "Dropout probability before the last layer.");
    options.field("stochastic_depth_prob", &Efficientnet::stochastic_depth_prob,
                  {.at_least = 0, .at_most = 1},
                  "Probability that a sample skips the last block; it rises linearly from 0 at the "
                  "first block (Huang et al. 2016).");
  }
};

struct EfficientnetB0 : Efficientnet {
  static constexpr auto kSummary =
      "EfficientNet-B0 (Tan & Le 2019), as torchvision's: 5.3 million parameters, made for "
      "224x224.";
};

struct EfficientnetB1 : Efficientnet {
  static constexpr auto kSummary =
      "EfficientNet-B1 (Tan & Le 2019), as torchvision's: 7.8 million parameters, made for "
      "240x240.";
};

struct EfficientnetB2 : Efficientnet {
  static constexpr auto kSummary =
      "EfficientNet-B2 (Tan & Le 2019), as torchvision's: 9.1 million parameters, made for "
      "260x260.";

  EfficientnetB2() { dropout = 0.3; }
};

struct EfficientnetB3 : Efficientnet {
  static constexpr auto kSummary =
      "EfficientNet-B3 (Tan & Le 2019), as torchvision's: 12.2 million parameters, made for "
      "300x300.";

  EfficientnetB3() { dropout = 0.3; }
};

struct EfficientnetB4 : Efficientnet {
  static constexpr auto kSummary =
      "EfficientNet-B4 (Tan & Le 2019), as torchvision's: 19.3 million parameters, made for "
      "380x380.";

  EfficientnetB4() { dropout = 0.4; }
};

struct ConvnextTiny : OfImages {
  static constexpr auto kSummary =
      "ConvNeXt, tiny size (Liu et al. 2022), as torchvision's convnext_tiny.";

  double stochastic_depth_prob = 0.1;
  double layer_scale = 1e-6;

  /// The stem and the three downsampling layers divide height and width by 32.
  [[nodiscard]] std::vector<Refusal> refusals(const ModelInput& input) const;

  static void describe(auto& options) {
    options.field("stochastic_depth_prob", &ConvnextTiny::stochastic_depth_prob,
                  {.at_least = 0, .at_most = 1},
                  "Probability that a sample skips the last block; it rises linearly from 0 at the "
                  "first block.");
    options.field("layer_scale", &ConvnextTiny::layer_scale, {.at_least = 0},
                  "Initial value of the learnable scale of each block's output.");
  }
};

enum class Upsampling { transposed, bilinear };
constexpr std::array<const char*, 2> enum_names(Upsampling) { return {"transposed", "bilinear"}; }

struct Unet : OfImages {
  static constexpr auto kSummary =
      "U-Net (Ronneberger et al. 2015) with padded convolutions: gives each pixel a score for each "
      "class. The parameters have the names of milesial's Pytorch-UNet.";

  std::int64_t channels = 64;
  std::int64_t depth = 4;
  bool batch_norm = true;
  Upsampling upsampling = Upsampling::transposed;

  /// Refuses images that have no pixel left after the last pooling.
  [[nodiscard]] std::vector<Refusal> refusals(const ModelInput& input) const;

  static void describe(auto& options) {
    options.field("channels", &Unet::channels, {.at_least = 1, .at_most = 1 << 14},
                  "Channels of the first level; each level below has twice as many.");
    options.field("depth", &Unet::depth, {.at_least = 1, .at_most = 16},
                  "Number of times that the images are halved, and enlarged again.");
    options.field("batch_norm", &Unet::batch_norm,
                  "Normalizes after each convolution, which the paper does not; otherwise, the "
                  "convolutions have biases.");
    options.field("upsampling", &Unet::upsampling,
                  "transposed: a transposed convolution, as in the paper; bilinear: interpolates, "
                  "with fewer parameters. trainer.deterministic excludes bilinear on a GPU.");
  }
};

struct Autoencoder : OfImages {
  static constexpr auto kSummary =
      "Convolutional autoencoder (Hinton & Salakhutdinov 2006): encodes an image as a few numbers, "
      "and decodes them as an image of the same shape.";

  std::vector<std::int64_t> channels{32, 64};
  std::int64_t latent_dim = 32;

  /// Refuses targets that are not the pixels.
  [[nodiscard]] static std::vector<Refusal> refusals(const ModelInput& input);

  static void describe(auto& options) {
    options.field(
        "channels", &Autoencoder::channels, {.not_empty = true, .at_least = 1, .at_most = 1 << 14},
        "Channels of each convolution of the encoder, which halves the image; the decoder "
        "is its mirror image.");
    options.field("latent_dim", &Autoencoder::latent_dim, {.at_least = 1, .at_most = 1 << 24},
                  "Number of numbers that encode an image.");
  }
};

/// How DCGAN's networks make images from one pixel, and the reverse.
struct Pyramid {
  std::int64_t smallest = 0;  // side of the smallest images that it convolves
  int doublings = 0;          // of the side
};
/// Returns nullopt for shapes other than 1 or 3 channels of 28, 32 or 64 squared pixels.
std::optional<Pyramid> dcgan_pyramid(const std::vector<std::int64_t>& image);

struct DcganGenerator {
  static constexpr auto kSummary =
      "Generator of DCGAN (Radford et al. 2016): makes square images of 28, 32 or 64 pixels, with "
      "values from -1 to 1, from random numbers.";

  std::int64_t channels = 64;

  [[nodiscard]] static bool takes(Inputs inputs) { return inputs == Inputs::numbers; }
  /// Refuses other outputs than such images.
  [[nodiscard]] static std::vector<Refusal> refusals(const ModelInput& input);

  static void describe(auto& options) {
    options.field("channels", &DcganGenerator::channels, {.at_least = 1, .at_most = 1 << 14},
                  "Channels before the last layer; each layer before has twice as many.");
  }
};

struct DcganDiscriminator : OfImages {
  static constexpr auto kSummary =
      "Discriminator of DCGAN (Radford et al. 2016): scores square images of 28, 32 or 64 pixels.";

  std::int64_t channels = 64;
  bool batch_norm = true;

  [[nodiscard]] static std::vector<Refusal> refusals(const ModelInput& input);

  static void describe(auto& options) {
    options.field("channels", &DcganDiscriminator::channels, {.at_least = 1, .at_most = 1 << 14},
                  "Channels after the first layer; each layer after has twice as many.");
    options.field("batch_norm", &DcganDiscriminator::batch_norm,
                  "Normalizes after each convolution but the first and the last, as in the paper.");
  }
};

/// Options of the vision transformers.
struct VisionTransformer : OfImages {
  std::int64_t patch_size = 16;
  double dropout = 0;
  double attention_dropout = 0;

  /// Refuses images whose sides are not multiples of the patch size.
  [[nodiscard]] std::vector<Refusal> refusals(const ModelInput& input) const;

  static void describe(auto& options) {
    options.field("dropout", &VisionTransformer::dropout, {.at_least = 0, .below = 1},
                  "Dropout probability after the position embedding and at the end of attention "
                  "and MLP in each block.");
    options.field("attention_dropout", &VisionTransformer::attention_dropout,
                  {.at_least = 0, .below = 1}, "Dropout probability of the attention weights.");
  }
};

struct VitB16 : VisionTransformer {
  static constexpr auto kSummary =
      "Vision transformer, base size, with patches of 16x16 (Dosovitskiy et al. 2020), as "
      "torchvision's vit_b_16.";
};

struct VitTiny : VisionTransformer {
  static constexpr auto kSummary =
      "Vision transformer of DeiT's tiny size: 192 wide, 12 deep, 3 heads (Touvron et al. 2020).";

  static void describe(auto& options) {
    options.field("patch_size", &VitTiny::patch_size, {.at_least = 1, .at_most = 1024},
                  "Height and width of a patch; 4 suits images of 32x32.");
    VisionTransformer::describe(options);
  }
};

struct Gpt {
  static constexpr auto kSummary =
      "Decoder-only language model with GPT-2's layers and parameter names (Radford et al. 2019).";

  std::int64_t layers = 12;
  std::int64_t heads = 12;
  std::int64_t width = 768;
  std::int64_t context = 1024;
  double dropout = 0.1;

  [[nodiscard]] static bool takes(Inputs inputs) { return inputs == Inputs::tokens; }
  [[nodiscard]] std::vector<Refusal> refusals(const ModelInput& input) const;

  static void describe(auto& options) {
    options.field("layers", &Gpt::layers, {.at_least = 1, .at_most = 1024}, "Number of blocks.");
    options.field("heads", &Gpt::heads, {.at_least = 1, .at_most = 1024},
                  "Attention heads per block; must divide 'width'.");
    options.field("width", &Gpt::width, {.at_least = 1, .at_most = 1 << 17},
                  "Embedding size between the blocks.");
    options.field(
        "context", &Gpt::context, {.at_least = 1, .at_most = 1 << 24},
        "Longest sequence, in tokens; the size of the position embedding, 1024 in GPT-2.");
    options.field("dropout", &Gpt::dropout, {.at_least = 0, .below = 1},
                  "Dropout probability of the embeddings, the attention weights and the outputs of "
                  "attention and MLP.");
  }
};

struct Sequential {
  static constexpr auto kSummary = "A list of layers, applied in order, as torch's Sequential.";

  std::vector<config::Stage> layers;
  Quantize quantize = Quantize::none;

  [[nodiscard]] static bool takes(Inputs /*inputs*/) { return true; }
  /// Follows the shape of a sample through the layers, as far as they could be read.
  [[nodiscard]] std::vector<Refusal> refusals(const ModelInput& input) const;

  static void describe(auto& options) {
    options.stages("layers", &Sequential::layers, "layer",
                   {.required = true,
                    .not_empty = true,
                    .example = "[flatten, {type: linear, out_features: 64}, relu, linear]"},
                   "The layers, in order; parameters are named by the layer's index: 0.weight.");
    describe_quantize<Sequential>(options);
  }
};

struct Torchscript {
  static constexpr auto kSummary = "A module saved after torch.jit.script or torch.jit.trace.";

  std::filesystem::path path;
  std::optional<std::string> sha256;

  [[nodiscard]] static bool takes(Inputs /*inputs*/) { return true; }
  /// Returns the bytes of the file, after comparing them with `sha256`. Throws Error(config).
  [[nodiscard]] std::string read() const;

  static void describe(auto& options) {
    options.field(
        "path", &Torchscript::path, {.required = true, .example = "models/net.pt"},
        "File written by torch.jit.save; it contains code, so use only files that you trust.");
    options.field("sha256", &Torchscript::sha256,
                  {.not_empty = true,
                   .example = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"},
                  "SHA-256 of the file, 64 hex digits; if it is missing or wrong, the error shows "
                  "the correct one.");
  }
};

}  // namespace trainctl::spec::model
