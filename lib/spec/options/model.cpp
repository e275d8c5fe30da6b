#include "spec/options/model.hpp"

#include "base/error.hpp"
#include "base/files.hpp"
#include "base/hash.hpp"
#include "base/strings.hpp"
#include "spec/layer_shapes.hpp"

#include <fmt/ranges.h>

#include <algorithm>
#include <cctype>

namespace trainctl::spec::model {

std::vector<Refusal> refuse_small(const ModelInput& input, int halvings) {
  if (input.shape.size() != 3) return {};
  const std::int64_t height = input.shape[1];
  const std::int64_t width = input.shape[2];
  const std::int64_t least = (std::int64_t{1} << (halvings - 1)) + 1;
  if (std::min(height, width) >= least) return {};
  return {{fmt::format(
               "the images are {}x{}, but the model halves them {} times and needs at least {}x{}",
               height, width, halvings, least, least),
           "resize them with a transform to that size, or choose model mlp"}};
}

std::vector<Refusal> Resnet::refusals(const ModelInput& input) const {
  std::vector<Refusal> all = HalvesImages::refusals(input);
  if (zero_init_residual && quantize == Quantize::int8) {
    all.push_back(
        {"quantize: int8 divides by the scales of batch norms, which zero_init_residual "
         "sets to 0",
         "set zero_init_residual to false", "zero_init_residual"});
  }
  return all;
}

std::vector<Refusal> ResnetCifar::refusals(const ModelInput& input) const {
  std::vector<Refusal> all = refuse_small(input, 2);
  if (depth % 6 != 2) {
    all.push_back({fmt::format("depth must be 6n + 2 for an integer n, got {}", depth),
                   "write 20, 32, 44, 56 or 110, as in the paper", "depth"});
  }
  return all;
}

std::vector<Refusal> ConvnextTiny::refusals(const ModelInput& input) const {
  constexpr std::int64_t kSmallest = 32;
  if (input.shape.size() != 3) return {};
  const std::int64_t height = input.shape[1];
  const std::int64_t width = input.shape[2];
  if (height >= kSmallest && width >= kSmallest) return {};
  return {{fmt::format("the images are {}x{}, but convnext_tiny needs at least {}x{}", height,
                       width, kSmallest, kSmallest),
           fmt::format("resize them with a transform to {}x{} or more", kSmallest, kSmallest)}};
}

std::vector<Refusal> Unet::refusals(const ModelInput& input) const {
  if (input.shape.size() != 3) return {};
  if (input.kind.targets != Targets::pixels)
    return {{fmt::format("unet predicts the class of each pixel, but the targets are {}",
                         enum_name(input.kind.targets)),
             "use the data set image_masks and 'task: segmentation', or another model"}};
  const std::int64_t least = std::int64_t{1} << depth;
  if (std::min(input.shape[1], input.shape[2]) >= least) return {};
  return {
      {fmt::format("the images are {}x{}, but the model halves them {} times and needs at least "
                   "{}x{}",
                   input.shape[1], input.shape[2], depth, least, least),
       "resize them with a transform to that size, or lower 'depth'", "depth"}};
}

std::vector<Refusal> Autoencoder::refusals(const ModelInput& input) {
  const bool pixels =
      input.kind.targets == Targets::numbers && input.outputs == layer::values_in(input.shape);
  if (pixels || input.shape.size() != 3) return {};
  return {{"autoencoder reproduces its input, but the targets are others",
           "write 'task: reconstruction', or choose another model"}};
}

std::optional<Pyramid> dcgan_pyramid(const std::vector<std::int64_t>& image) {
  if (image.size() != 3 || image[1] != image[2] || (image[0] != 1 && image[0] != 3)) return {};
  switch (image[1]) {
    case 28: return Pyramid{7, 2};
    case 32: return Pyramid{4, 3};
    case 64: return Pyramid{4, 4};
    default: return {};
  }
}

namespace {

/// Returns the refusal of `image` by one of DCGAN's networks; empty: it is not known.
std::vector<Refusal> refuse_other_squares(const std::vector<std::int64_t>& image,
                                          const char* model) {
  if (image.size() != 3 || dcgan_pyramid(image)) return {};
  return {{fmt::format("the images are {}, but {} needs 28x28, 32x32 or 64x64 pixels with 1 or 3 "
                       "channels",
                       fmt::join(image, "x"), model),
           "resize them with a transform to one of these sizes"}};
}

}  // namespace

std::vector<Refusal> DcganGenerator::refusals(const ModelInput& input) {
  if (input.output_shape.empty())
    return {{"dcgan_generator makes images from random numbers, which no data set has",
             "write a task of type gan, or choose another model"}};
  return refuse_other_squares(input.output_shape, "dcgan_generator");
}

std::vector<Refusal> DcganDiscriminator::refusals(const ModelInput& input) {
  return refuse_other_squares(input.shape, "dcgan_discriminator");
}

std::vector<Refusal> VisionTransformer::refusals(const ModelInput& input) const {
  if (input.shape.size() != 3) return {};
  const std::int64_t height = input.shape[1];
  const std::int64_t width = input.shape[2];
  if (height % patch_size == 0 && width % patch_size == 0) return {};
  const std::int64_t nearest = (height + patch_size - 1) / patch_size * patch_size;
  return {{fmt::format("the images are {}x{}, which patches of {}x{} do not cover exactly", height,
                       width, patch_size, patch_size),
           fmt::format("resize them with a transform to a multiple of {}, such as {}x{}",
                       patch_size, nearest, nearest)}};
}

namespace {

/// Refuses samples without tokens to predict, or with an unknown vocabulary.
void refuse_targets(const std::string& model, const ModelInput& input, std::vector<Refusal>& all) {
  if (input.kind.targets != Targets::tokens) {
    all.push_back(
        {fmt::format("{} predicts the next token at each position, but the targets are {}", model,
                     enum_name(input.kind.targets)),
         "choose model lstm_classifier, or model sequential with an embedding as its "
         "first layer"});
  } else if (input.outputs == 0) {
    all.push_back({model + " needs the vocabulary size",
                   "add 'vocab_size: 50257' to dataset.train for GPT-2's tokenizer, or the size of "
                   "yours"});
  }
}

/// Refuses a width that the heads cannot share, and samples that are longer than the context.
template <class Transformer>
void refuse_sizes(const Transformer& options, const ModelInput& input, std::vector<Refusal>& all) {
  if (options.width % options.heads != 0) {
    all.push_back({fmt::format("width must be a multiple of heads ({}), got {}", options.heads,
                               options.width),
                   fmt::format("write a multiple of {}", options.heads), "width"});
  }
  if (!input.shape.empty() && input.shape[0] > options.context) {
    all.push_back(
        {fmt::format("a sample has {} tokens, but the model's longest sequence is {}",
                     input.shape[0], options.context),
         fmt::format("raise model.context to {}, or lower {} of dataset.train", input.shape[0],
                     input.kind.targets == Targets::tokens ? "sequence_length" : "max_length")});
  }
}

}  // namespace

std::vector<Refusal> Gpt::refusals(const ModelInput& input) const {
  std::vector<Refusal> all;
  refuse_targets("gpt", input, all);
  refuse_sizes(*this, input, all);
  return all;
}

std::vector<Refusal> Bert::refusals(const ModelInput& input) const {
  std::vector<Refusal> all;
  if (input.kind.targets == Targets::tokens) refuse_targets("bert", input, all);
  refuse_sizes(*this, input, all);
  return all;
}

std::vector<Refusal> LstmClassifier::refusals(const ModelInput& input) {
  if (input.kind.targets != Targets::tokens) return {};
  return {{"lstm_classifier gives one answer for each text, but the targets are tokens",
           "choose model lstm_lm, or a dataset of type text"}};
}

std::vector<Refusal> LstmLm::refusals(const ModelInput& input) const {
  std::vector<Refusal> all;
  const std::int64_t width = embedding_dim.value_or(hidden_size);
  if (tie_weights && width != hidden_size) {
    all.push_back({fmt::format("with tie_weights, embedding_dim must be hidden_size ({}), got {}",
                               hidden_size, width),
                   "write 'embedding_dim: auto', or 'tie_weights: false'", "embedding_dim"});
  }
  refuse_targets("lstm_lm", input, all);
  return all;
}

namespace {

/// Returns the required output shape: one row of outputs per sample, or per token for token
/// targets.
layer::Shape wanted(const ModelInput& input) {
  if (input.kind.targets == Targets::tokens) return {input.shape[0], input.outputs};
  if (input.kind.targets == Targets::pixels) return {input.outputs, input.shape[1], input.shape[2]};
  return {input.outputs};
}

}  // namespace

std::vector<Refusal> Sequential::refusals(const ModelInput& input) const {
  const bool tokens = input.kind.inputs == Inputs::tokens;
  if (input.shape.empty() || (input.outputs == 0 && !tokens)) return {};  // unknown
  if (input.outputs == 0)
    return {{"the model needs the vocabulary size", "add 'vocab_size' to dataset.train"}};
  LayerWalk walk;
  const auto shape = walk.through(layers, layer::first_input(input), "layers.");
  std::vector<Refusal> all = walk.refusals();
  if (!all.empty() || !shape || *shape == wanted(input)) return all;
  const bool extents = shape->size() != wanted(input).size();
  all.push_back(
      {fmt::format("the last layer, layer {} ({}), outputs the shape {}, but the data requires {}",
                   layers.size() - 1, layers.back().type, layer::shape_text(*shape),
                   layer::shape_text(wanted(input))),
       extents ? "put 'flatten' and 'linear' at the end"
               : "let the last layer be 'linear' without 'out_features'"});
  return all;
}

std::string Torchscript::read() const {
  constexpr std::uint64_t kMostBytes = std::uint64_t{16} << 30;
  std::string bytes = read_file(path, kMostBytes, ReadFailure::config);
  const std::string found = to_hex(trainctl::sha256(bytes));
  ENSURE(config, sha256,
         "{} contains code that this run would execute, but its 'sha256' is not set\nhint: add "
         "'sha256: {}' if you trust the file",
         printable(path.string()), found);
  std::string pinned = *sha256;
  std::ranges::transform(pinned, pinned.begin(),
                         [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  ENSURE(config, pinned == found,
         "{} has the SHA-256 {}, but 'sha256' is {}\nhint: if you trust this version of the file, "
         "set 'sha256' to its SHA-256",
         printable(path.string()), found, printable(*sha256));
  return bytes;
}

}  // namespace trainctl::spec::model
