#include "stages/layer/layer_list.hpp"

#include "spec/layer_shapes.hpp"
#include "stages/builtin.hpp"

#include <algorithm>
#include <array>
#include <string_view>
#include <utility>

namespace trainctl::stages {

std::vector<stage::NamedTensor> Container::parameters() const {
  std::vector<stage::NamedTensor> all;
  for (const auto& [name, model] : children_) {
    for (auto& [below, tensor] : model->parameters())
      all.push_back({name + "." + below, std::move(tensor)});
  }
  return all;
}

std::vector<stage::NamedTensor> Container::buffers() const {
  std::vector<stage::NamedTensor> all;
  for (const auto& [name, model] : children_) {
    for (auto& [below, tensor] : model->buffers())
      all.push_back({name + "." + below, std::move(tensor)});
  }
  return all;
}

void Container::set_mode(stage::RunMode mode) {
  for (const Child& child : children_) child.model->set_mode(mode);
}

void Container::to(at::Device device) {
  for (const Child& child : children_) child.model->to(device);
}

bool Container::has_blocks() const {
  return std::ranges::any_of(children_, [](const Child& one) { return one.model->has_blocks(); });
}

bool Container::checkpoint_activations() {
  for (const Child& child : children_) (void)child.model->checkpoint_activations();
  return has_blocks();
}

void Container::add(std::string name, std::unique_ptr<stage::Model> child) {
  children_.push_back({std::move(name), std::move(child)});
}

at::Tensor Container::forward_child(std::size_t index, const at::Tensor& inputs) {
  return children_[index].model->forward(inputs);
}

namespace {

/// Layers after which int8 numbers still have the scale of the layer before.
constexpr std::array<std::string_view, 6> kUnscaled{
    "max_pool2d", "avg_pool2d", "adaptive_avg_pool2d", "flatten", "dropout", "relu"};

}  // namespace

LayerList::LayerList(const std::vector<config::Stage>& layers, stage::LayerContext context) {
  const stage::Catalog catalog = builtin_catalog();
  const bool int8 = context.trains_for_int8;
  context.rounds_input = int8;
  is_merged_.resize(layers.size());
  for (std::size_t i = 0; i < layers.size(); ++i) {
    const std::string& type = layers[i].type;
    const auto follows = [&](const char* other) {
      return i + 1 < layers.size() && layers[i + 1].type == other;
    };
    context.convolution = int8 && type == "batch_norm2d" && i > 0 && layers[i - 1].type == "conv2d"
                              ? &child(i - 1)
                              : nullptr;
    context.relu_follows =
        follows("relu") && (type == "batch_norm2d" || (int8 && type == "conv2d"));
    if (context.relu_follows) is_merged_[i + 1] = true;
    if (context.convolution != nullptr) is_merged_[i - 1] = true;
    add(std::to_string(i), catalog.layers.build(layers[i], context));
    context.input.shape = spec::step_of(layers[i], context.input).shape;
    context.input.tokens = false;
    const bool is_int8 = type == "conv2d" || context.convolution != nullptr;
    if (std::ranges::find(kUnscaled, type) == kUnscaled.end())
      context.rounds_input = int8 && !is_int8;
  }
}

at::Tensor LayerList::forward(const at::Tensor& inputs) {
  at::Tensor x = inputs;
  for (std::size_t i = 0; i < size(); ++i) {
    if (!is_merged_[i]) x = forward_child(i, x);
  }
  return x;
}

}  // namespace trainctl::stages
