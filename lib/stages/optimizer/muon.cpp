#include "spec/optimizer/muon.hpp"

#include "stages/builtin.hpp"
#include "stages/optimizer/step_counts.hpp"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/_foreach_lerp.h>
#include <ATen/ops/_foreach_mul.h>
#include <ATen/ops/_fused_adamw.h>
#include <ATen/ops/addmm.h>
#include <ATen/ops/linalg_vector_norm.h>

#include <algorithm>
#include <cmath>
#include <vector>

namespace trainctl::stages {
namespace {

using spec::optimizer::AdjustLr;

enum State : std::size_t { kAverage, kSquare };  // the latter of AdamW only

bool is_orthogonalised(const spec::optimizer::Muon& options, const stage::NamedTensor& parameter) {
  return parameter.tensor.dim() == 2 &&
         std::ranges::none_of(options.adamw_on, [&](const std::string& pattern) {
           return chooses(pattern, parameter);
         });
}

/// Those that stand there by default need not.
void check_patterns(const spec::optimizer::Muon& options, const stage::OptimizerContext& context) {
  const std::vector<std::string> defaults = spec::optimizer::Muon().adamw_on;
  for (const std::string& pattern : options.adamw_on) {
    if (std::ranges::find(defaults, pattern) == defaults.end())
      check_chooses("adamw_on", pattern, context.parameters);
  }
}

std::vector<ParameterSetting> settings_of(const spec::optimizer::Muon& options,
                                          const stage::OptimizerContext& context) {
  check_patterns(options, context);
  auto settings = parameter_settings(options, context.parameters, {"momentum_buffer"});
  for (std::size_t i = 0; i < settings.size(); ++i) {
    if (is_orthogonalised(options, context.parameters[i])) continue;
    settings[i].state = {"exp_avg", "exp_avg_sq"};
    settings[i].lr_scale *= options.adamw_lr.value_or(options.lr) / options.lr;
  }
  return settings;
}

/// The matrix with its singular values drawn to 1: the quintic iteration of
/// https://kellerjordan.github.io/posts/muon, in bfloat16 on GPUs as torch has it, in float32 on
/// CPUs, few of which multiply bfloat16 any faster.
at::Tensor orthogonalised(const at::Tensor& matrix, std::int64_t steps, double eps) {
  constexpr double kA = 3.4445, kB = -4.7750, kC = 2.0315;
  const bool tall = matrix.size(0) > matrix.size(1);
  at::Tensor x = matrix.to(matrix.is_cuda() ? at::kBFloat16 : at::kFloat);
  if (tall) x = x.t();
  x = x / at::linalg_vector_norm(x).clamp_min(eps);
  for (std::int64_t i = 0; i < steps; ++i) {
    const at::Tensor gram = x.mm(x.t());
    const at::Tensor update = at::addmm(gram, gram, gram, kB, kC);
    x = at::addmm(x, update, x, kA);
  }
  return tall ? x.t() : x;
}

double rate_factor(AdjustLr adjust, const at::Tensor& matrix) {
  const auto rows = static_cast<double>(matrix.size(0));
  const auto columns = static_cast<double>(matrix.size(1));
  if (adjust == AdjustLr::match_rms_adamw) return 0.2 * std::sqrt(std::max(rows, columns));
  return std::sqrt(std::max(1.0, rows / columns));
}

class Muon final : public FusedOptimizer {
 public:
  Muon(const spec::optimizer::Muon& options, const stage::OptimizerContext& context)
      : FusedOptimizer(context, options.lr, settings_of(options, context)), options_(options) {
    for (const ParameterGroup& group : groups()) counts_.emplace_back(group);
  }

  void take_step() override {
    const at::NoGradGuard guard;
    for (std::size_t i = 0; i < groups().size(); ++i) {
      ParameterGroup& group = groups()[i];
      group.collect();
      if (group.none_active()) continue;
      if (is_of_matrices(group)) {
        update_matrices(group);
      } else {
        update_others(group, counts_[i].advance(group));
      }
    }
  }

  [[nodiscard]] bool has_momentum() const override { return true; }
  void add_state_of(std::size_t group, std::vector<stage::NamedTensor>& all) const override {
    if (!is_of_matrices(groups()[group])) counts_[group].add_state(groups()[group], all);
  }
  void use_momentum(double momentum) override { options_.momentum = momentum; }

 private:
  static bool is_of_matrices(const ParameterGroup& group) { return group.state_kinds() == 1; }

  void update_matrices(const ParameterGroup& group) const {
    const std::vector<at::Tensor>& averages = group.state(kAverage);
    at::_foreach_lerp_(averages, group.gradients(), 1 - options_.momentum);
    const std::vector<at::Tensor> directions =
        options_.nesterov ? at::_foreach_lerp(group.gradients(), averages, options_.momentum)
                          : averages;
    if (group.weight_decay() > 0)
      at::_foreach_mul_(group.parameters(), 1 - group.lr * group.weight_decay());
    for (std::size_t i = 0; i < directions.size(); ++i) {
      const at::Tensor& parameter = group.parameters()[i];
      const at::Tensor step = orthogonalised(directions[i], options_.ns_steps, options_.eps);
      parameter.sub_(step * (group.lr * rate_factor(options_.adjust_lr, parameter)));
    }
  }

  void update_others(const ParameterGroup& group, at::TensorList steps) const {
    const auto& [decay, square_decay] = options_.adamw_betas;
    at::_fused_adamw_(group.parameters(), group.gradients(), group.state(kAverage),
                      group.state(kSquare), {}, steps, group.lr, decay, square_decay,
                      group.weight_decay(), options_.adamw_eps, /*amsgrad=*/false,
                      /*maximize=*/false, /*grad_scale=*/{}, /*found_inf=*/{});
  }

  spec::optimizer::Muon options_;
  std::vector<StepCounts> counts_;
};

}  // namespace

void register_optimizer_muon(stage::Catalogue& catalogue) {
  catalogue.optimizers.add<spec::optimizer::Muon>("muon",
                                                  [](const auto& options, const auto& context) {
                                                    return std::make_unique<Muon>(options, context);
                                                  });
}

}  // namespace trainctl::stages
