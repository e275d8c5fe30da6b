#include "base/hash.hpp"
#include "spec/checks/checks.hpp"
#include "spec/experiment_yaml.hpp"
#include "support/catch.hpp"
#include "support/temp_folder.hpp"

#include <fstream>

using namespace trainctl::spec;

namespace {

constexpr SampleKind kText{Inputs::tokens, Targets::tokens};
constexpr SampleKind kTexts{Inputs::tokens, Targets::classes, /*vocab_size=*/256};
const ModelInput kDigits{{}, {1, 28, 28}, 10};

/// Returns the problems of the model with such samples; the config itself may be wrong, too.
std::string model_problems(const std::string& model, const std::optional<ModelInput>& input) {
  trainctl::config::Diagnostics diagnostics;
  const TempFolder folder;
  std::ofstream(folder / "model.yaml") << kValidYaml;
  const Loaded loaded = read_experiment(folder / "model.yaml", {"model=" + model}, diagnostics);
  check_model(loaded, input, diagnostics);
  return diagnostics.render();
}

std::string sequential(const std::string& layers) {
  return "{type: sequential, layers: [" + layers + "]}";
}

}  // namespace

TEST_CASE("test_time_augmentation: needs a view, and images that it can move", "[spec]") {
  const auto problems = [](const std::string& views, std::vector<std::int64_t> shape) {
    trainctl::config::Diagnostics diagnostics;
    const TempFolder folder;
    std::ofstream(folder / "model.yaml") << kValidYaml;
    const Loaded loaded = read_experiment(folder / "model.yaml",
                                          {"trainer.test_time_augmentation=" + views}, diagnostics);
    check_model(loaded, ModelInput{{}, std::move(shape), 10}, diagnostics);
    return diagnostics.render();
  };
  CHECK_THAT(problems("{translate: 27}", {1, 28, 28}), !Contains("test-time augmentation"));
  CHECK_THAT(problems("{translate: 28}", {1, 28, 28}),
             Contains("larger than 'translate', but the samples have the shape 1x28x28"));
  CHECK_THAT(problems("{}", {784}), Contains("but the samples have the shape 784"));
  CHECK_THAT(problems_of({"trainer.test_time_augmentation={horizontal_flip: false}"}),
             Contains("has one view"));
}

TEST_CASE("sequential: layers that fit the data have no problems", "[spec]") {
  CHECK(model_problems(sequential("{type: conv2d, out_channels: 4, kernel_size: 5, stride: 2}, "
                                  "batch_norm2d, relu, {type: max_pool2d, kernel_size: 2}, "
                                  "{type: residual, layers: [gelu]}, flatten, dropout, "
                                  "{type: linear, out_features: 10}"),
                       kDigits)
            .empty());
  CHECK(model_problems(sequential("{type: embedding, embedding_dim: 8}, tanh, linear"),
                       ModelInput{kText, {16}, 100})
            .empty());
  CHECK(model_problems(sequential("linear"), ModelInput{{Inputs::numbers, {}}, {5}, 3}).empty());
}

TEST_CASE("sequential: the error for a layer contains the shape of its input", "[spec]") {
  CHECK_THAT(model_problems(sequential("{type: avg_pool2d, kernel_size: 7}, relu, "
                                       "{type: conv2d, out_channels: 3, kernel_size: 5}"),
                            kDigits),
             Contains("layer 2 (conv2d) cannot take an input of shape 1x4x4: a window of 5x5 is "
                      "larger than its input") &&
                 Contains("make 'kernel_size' smaller"));
  CHECK_THAT(model_problems(sequential("flatten, batch_norm2d, linear"), kDigits),
             Contains("layer 1 (batch_norm2d) cannot take an input of shape 784: its input must be "
                      "an image, C x H x W"));
  CHECK_THAT(model_problems(sequential("{type: conv2d, out_channels: 4, kernel_size: 3, dilation: "
                                       "14}, flatten, linear"),
                            kDigits),
             Contains("layer 0 (conv2d) cannot take an input of shape 1x28x28: a window of 29x29"));
  CHECK_THAT(model_problems(sequential("relu, linear"), ModelInput{kText, {16}, 100}),
             Contains("layer 0 (relu) cannot take an input of shape 16: its input must be numbers, "
                      "got tokens") &&
                 Contains("start with an embedding"));
  CHECK_THAT(
      model_problems(sequential("{type: embedding, embedding_dim: 8}, flatten, linear"), kDigits),
      Contains("layer 0 (embedding) cannot take an input of shape 1x28x28: its input must be "
               "tokens, got numbers"));
  CHECK_THAT(model_problems(sequential("{type: embedding, embedding_dim: 8}, linear"),
                            ModelInput{kText, {16}, 0}),
             Contains("add 'vocab_size' to dataset.train"));
}

TEST_CASE("sequential: all invalid layers are reported at once", "[spec]") {
  const std::string problems = model_problems(
      sequential("{type: conv2d, out_channels: 4, kernel_size: 3, groups: 3}, "
                 "{type: max_pool2d, kernel_size: 2, padding: 2}, {type: layer_norm, dims: 5}, "
                 "{type: linear, out_features: -1}, {type: conv2d, kernel_size: 3}, sofmax"),
      kDigits);
  CHECK_THAT(
      problems,
      Contains("layer 0 (conv2d) cannot take an input of shape 1x28x28: 3 groups must divide the 1 "
               "input "
               "channels and the 4 output channels") &&
          Contains(
              "layer 1 (max_pool2d) cannot take an input of shape 4x26x26: a padding of 2 is more "
              "than half of a window of 2x2") &&
          Contains("layer 2 (layer_norm) cannot take an input of shape 4x15x15: its input has "
                   "fewer than 5 dimensions"));
  CHECK_THAT(problems, Contains("out_features") &&
                           Contains("layer 'conv2d' needs 'out_channels'") &&
                           Contains("unknown layer 'sofmax'"));
  CHECK_THAT(problems, !Contains("the last layer"));
}

TEST_CASE("sequential: both branches of a residual are checked", "[spec]") {
  const std::string half = "{type: conv2d, out_channels: 8, kernel_size: 3, stride: 2, padding: 1}";
  CHECK_THAT(model_problems(sequential("{type: residual, layers: [" + half + "]}, flatten, linear"),
                            kDigits),
             Contains("layer 0 (residual) cannot take an input of shape 1x28x28: its layers output "
                      "8x14x14, but its shortcut outputs 1x28x28"));
  CHECK(model_problems(sequential("{type: residual, layers: [" + half + "], shortcut: [" + half +
                                  "]}, flatten, linear"),
                       kDigits)
            .empty());
  const std::string deep = model_problems(
      sequential("relu, {type: residual, layers: [tanh, {type: avg_pool2d, kernel_size: 99}], "
                 "shortcut: [{type: conv2d, out_channels: 4, kernel_size: 99}]}, flatten, linear"),
      kDigits);
  CHECK_THAT(deep, Contains("layer 1.layers.1 (avg_pool2d) cannot take an input of shape 1x28x28: "
                            "a window of 99x99") &&
                       Contains("layer 1.shortcut.0 (conv2d) cannot take an input of shape "
                                "1x28x28: a window of 99x99"));
}

TEST_CASE("sequential: the branches of a concat must fit together", "[spec]") {
  const auto concat = [](const std::string& first, const std::string& more) {
    return sequential("{type: concat, " + more + "branches: [{layers: [" + first +
                      "]}, {layers: []}]}, flatten, linear");
  };
  CHECK(model_problems(concat("{type: conv2d, out_channels: 8, kernel_size: 1}", ""), kDigits)
            .empty());
  CHECK_THAT(model_problems(concat("{type: avg_pool2d, kernel_size: 2}", ""), kDigits),
             Contains("layer 0 (concat) cannot take an input of shape 1x28x28: its branches output "
                      "1x14x14 and 1x28x28, which dimension 1 cannot join"));
  CHECK_THAT(model_problems(concat("tanh", "dim: 4, "), kDigits),
             Contains("its branches output 1x28x28 and 1x28x28, which dimension 4 cannot join"));
  CHECK_THAT(model_problems(concat("flatten", ""), kDigits),
             Contains("784 and 1x28x28, which dimension 1 cannot join"));
  CHECK_THAT(
      model_problems(concat("{type: conv2d, out_channels: 4, kernel_size: 99}", ""), kDigits),
      Contains("layer 0.branches.0.layers.0 (conv2d) cannot take an input of shape 1x28x28: "
               "a window of 99x99"));
  CHECK_THAT(model_problems(sequential("{type: concat, branches: []}"), kDigits),
             Contains("at least one entry"));
}

TEST_CASE("sequential: options that do not fit the input are refused", "[spec]") {
  struct Wrong {
    const char* layers;
    const char* problem;
    const char* hint;
  };
  const std::string rows = "{type: flatten, start_dim: 1, end_dim: 2}, ";  // 28x28
  for (const auto& [layers, problem, hint] : std::vector<Wrong>{
           {"{type: conv_transpose2d, out_channels: 2, kernel_size: 1, padding: 14}",
            "1x28x28: a padding of 14 removes the whole output", "make 'padding' smaller"},
           {"{type: conv_transpose2d, out_channels: 2, kernel_size: 1, output_padding: 1}",
            "an output_padding of 1 is not less than its stride or dilation (1)",
            "write 'output_padding: 0' or less"},
           {"{type: conv_transpose2d, out_channels: 3, kernel_size: 1, groups: 2}",
            "2 groups must divide the 1 input channels and the 3 output channels", "groups: 1"},
           {"{type: conv1d, out_channels: 2, kernel_size: 1}",
            "its input must have channels and a length, C x L", "flatten, start_dim: 1"},
           {"{type: group_norm, num_groups: 2}", "2 groups must divide its 1 channels",
            "num_groups: 1"},
           {"adaptive_avg_pool2d, {type: group_norm, num_groups: 1}",
            "1x1x1: it would normalize each value alone, to 0", "shrink the image"},
           {"adaptive_max_pool2d, instance_norm2d", "it would normalize each value alone, to 0",
            ""},
           {"{type: prelu, num_parameters: 2}", "2 parameters must be 1, or its 1 channels",
            "num_parameters: 1"},
           {"upsample", "it must have either 'size' or 'scale_factor'", "write one of them"},
           {"{type: upsample, size: 8, scale_factor: 2}", "it must have either 'size'", ""},
           {"{type: upsample, size: 8, align_corners: false}",
            "'align_corners' has no meaning for 'mode: nearest'", "mode: bilinear"},
           {"{type: upsample, scale_factor: 0.01}", "its output would be empty", "larger"},
           {"{type: flatten, start_dim: 3, end_dim: 2}", "its dimensions from 3 to 2 do not exist",
            "its dimensions are 1 to 3"},
           {"{type: flatten, end_dim: 4}", "its dimensions from 1 to 4 do not exist", ""},
           {"{type: permute, dims: [0, 2, 1]}",
            "'dims' must be 0 and then an order of its dimensions 1 to 3", "to swap"},
           {"{type: permute, dims: [1, 0, 2, 3]}", "'dims' must be 0 and then", ""},
           {"{type: multihead_attention, num_heads: 2}",
            "its input must be a sequence of vectors, T x E", "flatten, start_dim: 1"},
           {"{type: lstm, hidden_size: 4}", "its input must be a sequence of vectors", ""},
           {"positional_embedding", "its input must be a sequence of vectors", ""}}) {
    INFO(layers);
    CHECK_THAT(model_problems(sequential(layers + std::string(", flatten, linear")), kDigits),
               Contains(problem) && Contains(hint));
  }
  for (const auto& [layers, problem, hint] : std::vector<Wrong>{
           {"{type: conv1d, out_channels: 2, kernel_size: 29}",
            "28x28: a window of 29 is larger than its input", "make 'kernel_size' smaller"},
           {"{type: positional_embedding, num_embeddings: 27}",
            "a sequence of 28 has more positions than its 27 vectors", "num_embeddings: 28"},
           {"{type: multihead_attention, num_heads: 3}", "3 heads must divide its 28 features",
            "change the number of heads"},
           {"{type: transformer_encoder_layer, nhead: 5}", "5 heads must divide its 28 features",
            ""},
           {"{type: gru, hidden_size: 4, dropout: 0.5}",
            "its dropout acts between stacked layers, but it has only one", "num_layers: 2"}}) {
    INFO(layers);
    CHECK_THAT(model_problems(sequential(rows + layers + ", flatten, linear"), kDigits),
               Contains(problem) && Contains(hint));
  }
}

TEST_CASE("sequential: layers of sequences fit each other", "[spec]") {
  CHECK(model_problems(sequential("{type: flatten, start_dim: 1, end_dim: 2}, "
                                  "{type: permute, dims: [0, 2, 1]}, "
                                  "{type: conv1d, out_channels: 6, kernel_size: 3, padding: 1}, "
                                  "{type: permute, dims: [0, 2, 1]}, positional_embedding, "
                                  "{type: multihead_attention, num_heads: 2}, "
                                  "{type: transformer_encoder_layer, nhead: 3}, rms_norm, "
                                  "{type: lstm, hidden_size: 4, bidirectional: true}, "
                                  "{type: rnn, hidden_size: 5, output: last}, linear"),
                       kDigits)
            .empty());
  CHECK(model_problems(sequential("{type: embedding, embedding_dim: 8}, {type: gru, hidden_size: "
                                  "4}, linear"),
                       ModelInput{kText, {16}, 100})
            .empty());
}

TEST_CASE("sequential: the output of the last layer must match the data", "[spec]") {
  CHECK_THAT(
      model_problems(sequential("flatten, {type: linear, out_features: 7}"), kDigits),
      Contains("the last layer, layer 1 (linear), outputs the shape 7, but the data requires 10") &&
          Contains("'linear' without 'out_features'"));
  CHECK_THAT(
      model_problems(sequential("relu"), kDigits),
      Contains(
          "the last layer, layer 0 (relu), outputs the shape 1x28x28, but the data requires 10") &&
          Contains("put 'flatten' and 'linear' at the end"));
  CHECK_THAT(model_problems(sequential("{type: embedding, embedding_dim: 8}, flatten, linear"),
                            ModelInput{kText, {16}, 100}),
             Contains("outputs the shape 100, but the data requires 16x100"));
  CHECK_THAT(model_problems(sequential(""), kDigits), Contains("at least one entry"));
  CHECK_THAT(model_problems("sequential", kDigits), Contains("needs 'layers'"));
}

TEST_CASE("models: samples of a size that the model does not take are an error", "[spec]") {
  CHECK_THAT(model_problems("vit_b_16", kDigits),
             Contains("the images are 28x28, which patches of 16x16 do not cover exactly") &&
                 Contains("such as 32x32"));
  CHECK(model_problems("{type: vit_tiny, patch_size: 4}", kDigits).empty());
  CHECK_THAT(model_problems("convnext_tiny", kDigits), Contains("needs at least 32x32"));
  CHECK(model_problems("convnext_tiny", std::nullopt).empty());
  CHECK_THAT(model_problems("{type: gpt, heads: 7, context: 8}", ModelInput{kText, {9}, 0}),
             Contains("width must be a multiple of heads (7), got 768") &&
                 Contains("a sample has 9 tokens, but the model's longest sequence is 8") &&
                 Contains("add 'vocab_size: 50257' to dataset.train"));
  CHECK(model_problems("gpt", ModelInput{kText, {9}, 50}).empty());
  CHECK_THAT(model_problems("gpt", ModelInput{kTexts, {9}, 3}),
             Contains("gpt predicts the next token at each position, but the targets are classes"));
  CHECK(model_problems(sequential("{type: embedding, embedding_dim: 8}, flatten, linear"),
                       ModelInput{kTexts, {9}, 3})
            .empty());
}

TEST_CASE("convolutional models: images must be large enough for the downsampling", "[spec]") {
  const auto with = [](const std::string& model, const std::vector<std::int64_t>& size) {
    return model_problems(model, ModelInput{{}, {3, size[0], size[1]}, 10});
  };
  for (const char* model : {"resnet18", "se_resnet50", "mobilenet_v2", "mobilenet_v3_small",
                            "mobilenet_v3_large", "efficientnet_b4"}) {
    INFO(model);
    CHECK(with(model, {17, 40}).empty());
    CHECK_THAT(with(model, {40, 16}), Contains("the images are 40x16, but the model halves them 5 "
                                               "times and needs at least 17x17") &&
                                          Contains("resize them with a transform to that size"));
  }
  CHECK(with("resnet_cifar", {3, 3}).empty());
  CHECK_THAT(with("resnet_cifar", {2, 3}), Contains("needs at least 3x3"));
  CHECK_THAT(with("{type: resnet_cifar, depth: 21}", {32, 32}),
             Contains("depth must be 6n + 2 for an integer n, got 21") &&
                 Contains("write 20, 32, 44, 56 or 110"));
  CHECK(with("{type: resnet_cifar, depth: 8}", {32, 32}).empty());
}

TEST_CASE("torchscript: the file must have the SHA-256 of the config", "[spec]") {
  const TempFolder folder;
  const std::string path = (folder / "net.pt").string();
  std::ofstream(path) << "net";
  const std::string hash = trainctl::to_hex(trainctl::sha256("net"));
  const auto with = [&](const std::string& pin) {
    return model_problems("{type: torchscript, path: " + path + pin + "}", kDigits);
  };
  CHECK(with(", sha256: \"" + hash + "\"").empty());
  CHECK_THAT(with(""), Contains("add 'sha256: " + hash));
  CHECK_THAT(with(", sha256: \"" + std::string(64, 'a') + "\""),
             Contains("has the SHA-256 " + hash + ", but 'sha256' is aaaa"));
  CHECK_THAT(model_problems("{type: torchscript, path: nowhere.pt, sha256: ab}", std::nullopt),
             Contains("cannot read") && Contains("nowhere.pt"));
}
