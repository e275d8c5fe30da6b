#include "stages/layer/layer_list.hpp"

#include "spec/layer_shapes.hpp"
#include "stages/builtin.hpp"

#include <utility>

namespace trainctl::stages {
namespace {

using Layers = std::vector<std::unique_ptr<stage::Model>>;
using Ask = std::vector<stage::NamedTensor> (stage::Model::*)() const;

std::vector<stage::NamedTensor> named(const Layers& layers, Ask ask) {
  std::vector<stage::NamedTensor> all;
  for (std::size_t i = 0; i < layers.size(); ++i) {
    for (stage::NamedTensor& one : ((*layers[i]).*ask)())
      all.push_back({std::to_string(i) + "." + one.name, std::move(one.tensor)});
  }
  return all;
}

}  // namespace

LayerList::LayerList(const std::vector<config::Stage>& layers, spec::layer::LayerInput input) {
  const stage::Catalog catalog = builtin_catalog();
  for (const config::Stage& layer : layers) {
    layers_.push_back(catalog.layers.build(layer, {input}));
    input.shape = spec::step_of(layer, input).shape;
    input.tokens = false;
  }
}

at::Tensor LayerList::forward(const at::Tensor& inputs) {
  at::Tensor x = inputs;
  for (const auto& layer : layers_) x = layer->forward(x);
  return x;
}

std::vector<stage::NamedTensor> LayerList::parameters() const {
  return named(layers_, &stage::Model::parameters);
}

std::vector<stage::NamedTensor> LayerList::buffers() const {
  return named(layers_, &stage::Model::buffers);
}

void LayerList::set_mode(stage::RunMode mode) {
  for (const auto& layer : layers_) layer->set_mode(mode);
}

void LayerList::to(at::Device device) {
  for (const auto& layer : layers_) layer->to(device);
}

}  // namespace trainctl::stages
