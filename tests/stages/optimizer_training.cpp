#include "stages/optimizer_training.hpp"

#include "base/json_archive.hpp"
#include "stages/builtin.hpp"
#include "stages/support.hpp"
#include "support/catch.hpp"

#include <ATen/TensorOperators.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/full.h>

#include <cmath>
#include <cstring>
#include <limits>
#include <map>
#include <utility>

using namespace trainctl;

namespace stages_test {
namespace {

Tensors network() {
  Tensors parameters;
  const auto add = [&](const char* name, const std::vector<std::int64_t>& shape) {
    std::int64_t count = 1;
    for (const std::int64_t size : shape) count *= size;
    parameters.push_back({name, at::arange(count, at::kFloat).mul(0.37).cos().view(shape)});
  };
  add("layers.0.weight", {8, 6});
  add("layers.0.bias", {32});
  add("conv.weight", {4, 3, 2, 2});
  parameters.back().tensor = parameters.back().tensor.contiguous(at::MemoryFormat::ChannelsLast);
  add("head.weight", {4, 8});
  add("patchy.weight", {40});
  add("late.weight", {24});
  for (const auto& [name, tensor] : parameters) tensor.requires_grad_(true);
  return parameters;
}

Tensors copies(const Tensors& tensors) {
  Tensors all;
  for (const auto& [name, tensor] : tensors) all.push_back({name, tensor.detach().clone()});
  return all;
}

void copy_into(const Tensors& to, const Tensors& from, const std::string& left_out = "") {
  const at::NoGradGuard guard;
  REQUIRE(to.size() == from.size());
  for (std::size_t i = 0; i < to.size(); ++i) {
    REQUIRE(to[i].name == from[i].name);
    if (to[i].name != left_out) to[i].tensor.copy_(from[i].tensor);
  }
}

bool same_bits(const at::Tensor& a, const at::Tensor& b) {
  const at::Tensor one = a.detach().contiguous();
  const at::Tensor other = b.detach().contiguous();
  return one.sizes() == other.sizes() &&
         std::memcmp(one.const_data_ptr(), other.const_data_ptr(), one.nbytes()) == 0;
}

}  // namespace

std::vector<std::string> differing(const Tensors& a, const Tensors& b) {
  REQUIRE(a.size() == b.size());
  std::vector<std::string> names;
  for (std::size_t i = 0; i < a.size(); ++i) {
    if (a[i].name != b[i].name || !same_bits(a[i].tensor, b[i].tensor)) names.push_back(a[i].name);
  }
  return names;
}

Training::Training(const Variant& variant)
    : weights_(network()),
      optimizer_(stages::builtin_catalog().optimizers.build(
          stage("optimizer", variant.type, variant.options), {weights_})) {}

void Training::steps(int from, int to) {
  for (int step = from; step < to; ++step) take(step);
}

Kept Training::keep() const {
  return {copies(weights_), copies(optimizer_->state()), to_line(remember(*optimizer_))};
}

void Training::restore(const Kept& kept, const std::string& left_out) {
  copy_into(weights_, kept.weights);
  copy_into(optimizer_->state(), kept.state, left_out);
  recall(*optimizer_, Json::parse(kept.state_json));
}

void Training::take(int step) {
  if (step < 6) optimizer_->set_lr(optimizer_->initial_lr() * std::pow(0.9, step));
  if (step == 4 && optimizer_->has_momentum()) optimizer_->set_momentum(0.8);
  give_gradients(step);
  const bool is_skipped = step == 5 || step == 9;
  if (is_skipped) corrupt_gradients();
  if (step % 2 == 1) {
    optimizer_->step_unless(at::full({1}, is_skipped ? 1.0F : 0.0F));
  } else {
    optimizer_->step();
  }
}

void Training::give_gradients(int step) {
  for (std::size_t i = 0; i < weights_.size(); ++i) {
    const auto& [name, weight] = weights_[i];
    const bool is_missing =
        name == "late.weight" ? step < 8 : name == "patchy.weight" && (step == 3 || step == 10);
    const double size = 1 + 0.9 * std::sin(0.9 * step);
    const at::Tensor phase = weight.detach() * 7 + (1.3 * step + static_cast<double>(i));
    weight.mutable_grad() = is_missing ? at::Tensor() : phase.sin() * size;
  }
}

void Training::corrupt_gradients() {
  for (const auto& [name, weight] : weights_) {
    if (weight.grad().defined()) weight.grad().fill_(std::numeric_limits<double>::quiet_NaN());
  }
}

std::vector<Variant> variants() {
  const std::map<std::string, std::vector<std::string>> own{
      {"sgd",
       {"momentum: 0.9", "momentum: 0.9, nesterov: true, weight_decay: 0.01",
        "momentum: 0.9, dampening: 0.5"}},
      {"adam", {"amsgrad: true, betas: [0.9, 0.9]"}},
      {"adamw", {"amsgrad: true, betas: [0.9, 0.9]"}},
      {"adagrad", {"lr_decay: 0.1, initial_accumulator_value: 0.1"}},
      {"rmsprop", {"momentum: 0.9", "centered: true", "centered: true, momentum: 0.5"}},
      {"nadam", {"decoupled_weight_decay: true, weight_decay: 0.1"}},
      {"radam", {"decoupled_weight_decay: true, weight_decay: 0.1"}},
      {"muon", {"nesterov: false", "adamw_lr: 0.01"}}};
  std::vector<Variant> all;
  for (const std::string& type : stages::builtin_catalog().optimizers.names()) {
    const std::string always = type == "lion" ? "{lr: 0.1, betas: [0.9, 0.5]" : "{lr: 0.1";
    all.push_back({type, always + ", weight_decay: 0.01}"});
    all.push_back({type, always +
                             ", weight_decay: 0.1, layer_decay: 0.5, no_weight_decay_on: [norm], "
                             "groups: [{match: [bias], lr_scale: 3, weight_decay: 0.02}]}"});
    if (!own.contains(type)) continue;
    for (const std::string& options : own.at(type))
      all.push_back({type, std::string(always).append(", ").append(options).append("}")});
  }
  return all;
}

}  // namespace stages_test
