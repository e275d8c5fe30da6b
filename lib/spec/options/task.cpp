#include "spec/options/task.hpp"

#include "base/strings.hpp"
#include "spec/layer_shapes.hpp"

#include <fmt/format.h>

#include <utility>

namespace trainctl::spec::task {

ModelInput Segmentation::model_input(ModelInput data) {
  if (data.shape.size() == 3) --data.shape[0];
  return data;
}

std::vector<Refusal> Reconstruction::refusals(const ModelInput& data) {
  if (data.kind.inputs != Inputs::tokens) return {};
  return {
      {"the task 'reconstruction' takes images or rows of numbers, but the samples of "
       "dataset.train are tokens",
       "choose the task masked_language_modeling"}};
}

ModelInput Reconstruction::model_input(ModelInput data) {
  data.kind.targets = Targets::numbers;
  data.outputs = data.shape.empty() ? 0 : layer::values_in(data.shape);
  return data;
}

std::vector<Refusal> MaskedLanguageModeling::refusals(const ModelInput& data) const {
  if (data.outputs == 0 || mask_token.value_or(0) < data.outputs) return {};
  return {
      {fmt::format("mask_token is {}, but the data has {} tokens", *mask_token.value, data.outputs),
       "write a token of the vocabulary, or auto", "mask_token"}};
}

ModelInput MaskedLanguageModeling::model_input(ModelInput data) const {
  if (mask_token.is_auto() && data.outputs > 0) ++data.outputs;
  return data;
}

std::vector<Refusal> Distillation::refusals(const ModelInput& data) const {
  if (spec::takes(teacher, data.kind.inputs)) return {};
  return {
      {fmt::format("the teacher '{}' does not take {}", teacher.type, enum_name(data.kind.inputs)),
       "choose the network that the weights belong to", "teacher"}};
}

std::vector<Refusal> Gan::refusals(const ModelInput& data) const {
  if (data.kind.inputs != Inputs::images)
    return {{fmt::format("the task 'gan' takes images, but the samples of dataset.train are {}",
                         enum_name(data.kind.inputs)),
             "choose a data set of images, or another task"}};
  if (!spec::takes(discriminator, Inputs::images))
    return {{fmt::format("the discriminator '{}' does not take images", discriminator.type),
             "choose a network for images, such as dcgan_discriminator", "discriminator"}};
  if (data.shape.empty()) return {};
  std::vector<Refusal> found = spec::refusals(discriminator, {data.kind, data.shape, 1});
  for (Refusal& one : found) one.key = "discriminator" + (one.key.empty() ? "" : "." + one.key);
  return found;
}

ModelInput Gan::model_input(ModelInput data) const {
  data.outputs = data.shape.empty() ? 0 : layer::values_in(data.shape);
  data.output_shape = std::exchange(data.shape, {latent_size});
  data.kind = {.inputs = Inputs::numbers, .targets = Targets::numbers};
  return data;
}

}  // namespace trainctl::spec::task
