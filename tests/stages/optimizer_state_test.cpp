#include "stages/builtin.hpp"
#include "stages/optimizer_training.hpp"
#include "stages/support.hpp"
#include "support/catch.hpp"

#include <ATen/ops/ones.h>

#include <string>
#include <utility>
#include <vector>

using namespace trainctl;
using namespace stages_test;

namespace {

/// Returns whether no result depends on the entry: without lr_decay, Adagrad ignores its step.
bool is_unused(const Variant& variant, const std::string& entry) {
  return variant.type == "adagrad" && entry.ends_with(".step") &&
         variant.options.find("lr_decay") == std::string::npos;
}

std::vector<std::string> state_names(const Variant& variant) {
  const Tensors parameters{{"fc.weight", at::ones({2, 3}).requires_grad_()},
                           {"fc.bias", at::ones({2}).requires_grad_()}};
  const auto optimizer = stages::builtin_catalog().optimizers.build(
      stages_test::stage("optimizer", variant.type, variant.options), {parameters});
  std::vector<std::string> names;
  for (const auto& [name, tensor] : optimizer->state()) {
    if (name.starts_with("fc.bias.")) names.push_back(name.substr(8));
  }
  return names;
}

}  // namespace

TEST_CASE("optimizers: a restored optimizer is bitwise equal to an uninterrupted one") {
  for (const Variant& variant : variants()) {
    INFO(variant.type << " " << variant.options);
    for (const int before : {0, 1, 7}) {
      INFO("after " << before << " steps");
      Training whole(variant);
      whole.steps(0, before);
      const Kept kept = whole.keep();
      whole.steps(before, before + 5);
      Training resumed(variant);
      resumed.restore(kept);
      resumed.steps(before, before + 5);
      const Kept expected = whole.keep();
      const Kept found = resumed.keep();
      CHECK(differing(expected.weights, found.weights).empty());
      CHECK(differing(expected.state, found.state).empty());
      CHECK(expected.state_json == found.state_json);
      CHECK_FALSE(differing(kept.weights, found.weights).empty());
    }
  }
}

TEST_CASE("optimizers: resuming without one tensor of the state gives other results") {
  for (const Variant& variant : variants()) {
    INFO(variant.type << " " << variant.options);
    const Kept fresh = Training(variant).keep();
    Training whole(variant);
    whole.steps(0, 7);
    const Kept kept = whole.keep();
    whole.steps(7, 12);
    const Kept expected = whole.keep();
    for (const std::string& entry : differing(fresh.state, kept.state)) {
      if (is_unused(variant, entry)) continue;
      INFO("without " << entry);
      Training resumed(variant);
      resumed.restore(kept, entry);
      resumed.steps(7, 12);
      const Kept found = resumed.keep();
      // The weights alone may be equal, because lion applies only the sign of its update.
      const bool same = differing(expected.weights, found.weights).empty() &&
                        differing(expected.state, found.state).empty();
      CHECK_FALSE(same);
    }
  }
}

TEST_CASE("optimizers: tensors of the state have PyTorch's names") {
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
      {{"radam", "{}"}, {"exp_avg", "exp_avg_sq", "step"}},
      {{"lion", "{}"}, {"exp_avg"}},
      {{"lamb", "{}"}, {"exp_avg", "exp_avg_sq", "step"}},
      {{"muon", "{}"}, {"exp_avg", "exp_avg_sq", "step"}}};
  for (const auto& [variant, names] : rows) {
    INFO(variant.type << " " << variant.options);
    CHECK(state_names(variant) == names);
  }
}
