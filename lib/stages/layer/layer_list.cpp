#include "stages/layer/layer_list.hpp"

#include "spec/layer_shapes.hpp"
#include "stages/builtin.hpp"

#include <algorithm>
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

LayerList::LayerList(const std::vector<config::Stage>& layers, stage::LayerContext context) {
  const stage::Catalog catalog = builtin_catalog();
  bool merges = false;
  for (std::size_t i = 0; i < layers.size(); ++i) {
    const config::Stage& layer = layers[i];
    context.relu_follows =
        i + 1 < layers.size() && layer.type == "batch_norm2d" && layers[i + 1].type == "relu";
    is_merged_.push_back(merges);
    merges = context.relu_follows;
    add(std::to_string(i), catalog.layers.build(layer, context));
    context.input.shape = spec::step_of(layer, context.input).shape;
    context.input.tokens = false;
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
