#include "base/json_memo.hpp"
#include "stages/builtin.hpp"
#include "stages/support.hpp"
#include "support/catch.hpp"

#include <ATen/TensorOperators.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/full.h>
#include <ATen/ops/ones.h>

#include <cmath>
#include <cstring>
#include <map>
#include <string>
#include <utility>
#include <vector>

using namespace trainctl;

namespace {

struct Variant {
  std::string type;
  std::string options;
};

using Tensors = std::vector<stage::NamedTensor>;

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

/// The names of those whose bits differ.
std::vector<std::string> differing(const Tensors& a, const Tensors& b) {
  REQUIRE(a.size() == b.size());
  std::vector<std::string> names;
  for (std::size_t i = 0; i < a.size(); ++i) {
    if (a[i].name != b[i].name || !same_bits(a[i].tensor, b[i].tensor)) names.push_back(a[i].name);
  }
  return names;
}

struct Kept {
  Tensors weights;
  Tensors state;
  std::string memo;
};

/// Gradients depend on the weights and the step; some are missing in some steps, some steps are
/// left out, and rate and momentum change early on.
class Training {
 public:
  explicit Training(const Variant& variant)
      : weights_(network()),
        optimizer_(stages::builtin_catalogue().optimizers.build(
            stages_test::stage("optimizer", variant.type, variant.options), {weights_})) {}

  void steps(int from, int to) {
    for (int step = from; step < to; ++step) take(step);
  }

  [[nodiscard]] Kept keep() const {
    return {copies(weights_), copies(optimizer_->state()), to_line(remember(*optimizer_))};
  }

  void take_back(const Kept& kept, const std::string& left_out = "") {
    copy_into(weights_, kept.weights);
    copy_into(optimizer_->state(), kept.state, left_out);
    recall(*optimizer_, Json::parse(kept.memo));
  }

 private:
  void take(int step) {
    if (step < 6) optimizer_->set_lr(optimizer_->initial_lr() * std::pow(0.9, step));
    if (step == 4 && optimizer_->has_momentum()) optimizer_->set_momentum(0.8);
    for (std::size_t i = 0; i < weights_.size(); ++i) give_gradient(i, step);
    const bool is_left_out = step == 5 || step == 9;
    if (step % 2 == 1) {
      optimizer_->step_unless(at::full({1}, is_left_out ? 1.0F : 0.0F));
    } else {
      optimizer_->step();
    }
  }

  void give_gradient(std::size_t i, int step) {
    const auto& [name, weight] = weights_[i];
    const bool is_missing =
        name == "late.weight" ? step < 8 : name == "patchy.weight" && (step == 3 || step == 10);
    const double size = 1 + 0.9 * std::sin(0.9 * step);
    const at::Tensor phase = weight.detach() * 7 + (1.3 * step + static_cast<double>(i));
    weight.mutable_grad() = is_missing ? at::Tensor() : phase.sin() * size;
  }

  Tensors weights_;
  std::unique_ptr<stage::Optimizer> optimizer_;
};

/// What every optimizer is tried with, then what only some have.
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
      {"muon", {"nesterov: false", "adamw_lr: 0.01"}}};
  std::vector<Variant> all;
  for (const std::string& type : stages::builtin_catalogue().optimizers.names()) {
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

/// Without a decay of its rate Adagrad only counts its steps.
bool is_idle(const Variant& variant, const std::string& entry) {
  return variant.type == "adagrad" && entry.ends_with(".step") &&
         variant.options.find("lr_decay") == std::string::npos;
}

std::vector<std::string> state_names(const Variant& variant) {
  const Tensors parameters{{"fc.weight", at::ones({2, 3}).requires_grad_()},
                           {"fc.bias", at::ones({2}).requires_grad_()}};
  const auto optimizer = stages::builtin_catalogue().optimizers.build(
      stages_test::stage("optimizer", variant.type, variant.options), {parameters});
  std::vector<std::string> names;
  for (const auto& [name, tensor] : optimizer->state()) {
    if (name.starts_with("fc.bias.")) names.push_back(name.substr(8));
  }
  return names;
}

}  // namespace

TEST_CASE("an optimizer that takes back its state goes on bit for bit") {
  for (const Variant& variant : variants()) {
    INFO(variant.type << " " << variant.options);
    for (const int before : {0, 1, 7}) {
      INFO("after " << before << " steps");
      Training whole(variant);
      whole.steps(0, before);
      const Kept kept = whole.keep();
      whole.steps(before, before + 5);
      Training resumed(variant);
      resumed.take_back(kept);
      resumed.steps(before, before + 5);
      const Kept expected = whole.keep();
      const Kept found = resumed.keep();
      CHECK(differing(expected.weights, found.weights).empty());
      CHECK(differing(expected.state, found.state).empty());
      CHECK(expected.memo == found.memo);
      CHECK_FALSE(differing(kept.weights, found.weights).empty());
    }
  }
}

TEST_CASE("a tensor that is left out of an optimizer's state leads elsewhere") {
  for (const Variant& variant : variants()) {
    INFO(variant.type << " " << variant.options);
    const Kept fresh = Training(variant).keep();
    Training whole(variant);
    whole.steps(0, 7);
    const Kept kept = whole.keep();
    whole.steps(7, 12);
    const Kept expected = whole.keep();
    for (const std::string& entry : differing(fresh.state, kept.state)) {
      if (is_idle(variant, entry)) continue;
      INFO("without " << entry);
      Training resumed(variant);
      resumed.take_back(kept, entry);
      resumed.steps(7, 12);
      CHECK_FALSE(differing(expected.weights, resumed.keep().weights).empty());
    }
  }
}

TEST_CASE("an optimizer's state has PyTorch's names") {
  using Names = std::vector<std::string>;
  const std::vector<std::pair<Variant, Names>> rows{
      {{"sgd", "{lr: 0.1}"}, {}},
      {{"sgd", "{lr: 0.1, momentum: 0.9}"}, {"momentum_buffer"}},
      {{"sgd", "{lr: 0.1, momentum: 0.9, dampening: 0.1}"}, {"momentum_buffer", "started"}},
      {{"adam", "{}"}, {"exp_avg", "exp_avg_sq", "step"}},
      {{"adamw", "{amsgrad: true}"}, {"exp_avg", "exp_avg_sq", "max_exp_avg_sq", "step"}},
      {{"adagrad", "{}"}, {"sum", "step"}},
      {{"rmsprop", "{}"}, {"square_avg"}},
      {{"rmsprop", "{centered: true, momentum: 0.9}"},
       {"square_avg", "grad_avg", "momentum_buffer"}},
      {{"nadam", "{}"}, {"exp_avg", "exp_avg_sq", "step", "mu_product"}},
      {{"lion", "{}"}, {"exp_avg"}},
      {{"lamb", "{}"}, {"exp_avg", "exp_avg_sq", "step"}},
      {{"muon", "{}"}, {"exp_avg", "exp_avg_sq", "step"}}};
  for (const auto& [variant, names] : rows) {
    INFO(variant.type << " " << variant.options);
    CHECK(state_names(variant) == names);
  }
}
