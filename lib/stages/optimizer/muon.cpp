#include "spec/options/optimizer.hpp"
#include "stages/builtin.hpp"
#include "stages/optimizer/fused.hpp"

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

using spec::optimizer::AdjustLrFn;
using spec::optimizer::NewtonSchulzDtype;

bool is_orthogonalised(const spec::optimizer::Muon& options, const stage::NamedTensor& parameter) {
  const bool is_filter = options.flatten_filters && parameter.tensor.dim() == 4;
  return (parameter.tensor.dim() == 2 || is_filter) &&
         std::ranges::none_of(options.adamw_on, [&](const std::string& pattern) {
           return chooses(pattern, parameter);
         });
}

/// Patterns from the defaults need not match any parameter.
void check_patterns(const spec::optimizer::Muon& options, const stage::OptimizerContext& context) {
  const std::vector<std::string> defaults = spec::optimizer::Muon().adamw_on;
  for (const std::string& pattern : options.adamw_on) {
    if (std::ranges::find(defaults, pattern) == defaults.end())
      (void)match_parameters("adamw_on", pattern, context.parameters);
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

/// Moves the singular values of a matrix toward 1 by the quintic Newton-Schulz iteration of
/// https://kellerjordan.github.io/posts/muon. Follows torch's _zeropower_via_newtonschulz operation
/// by operation, since bfloat16 rounds after each. Returns the matrix in that dtype.
at::Tensor orthogonalize(const at::Tensor& matrix, const spec::optimizer::Muon& options) {
  const auto [a, b, c] = options.ns_coefficients;
  const bool is_tall = matrix.size(0) > matrix.size(1);
  const bool in_bfloat16 = options.ns_dtype == NewtonSchulzDtype::bfloat16;
  at::Tensor x = matrix.to(in_bfloat16 ? at::kBFloat16 : at::kFloat);
  if (is_tall) x = x.t();
  x = x.div(at::linalg_vector_norm(x).clamp_min(options.eps));
  for (std::int64_t i = 0; i < options.ns_steps; ++i) {
    const at::Tensor gram = x.mm(x.t());
    const at::Tensor update = at::addmm(gram, gram, gram, b, c);
    x = at::addmm(x, update, x, a);
  }
  return is_tall ? x.t() : x;
}

double lr_factor(AdjustLrFn adjust, const at::Tensor& matrix) {
  const auto rows = static_cast<double>(matrix.size(0));
  const auto columns = static_cast<double>(matrix.size(1));
  if (adjust == AdjustLrFn::match_rms_adamw) return 0.2 * std::sqrt(std::max(rows, columns));
  return std::sqrt(std::max(1.0, rows / columns));
}

class Muon final : public FusedOptimizer {
 public:
  Muon(const spec::optimizer::Muon& options, const stage::OptimizerContext& context)
      : FusedOptimizer(context, options.lr, settings_of(options, context)), options_(options) {
    for (ParameterGroup& group : groups()) {
      if (!is_of_matrices(group)) group.count_steps();
    }
  }

  void update(ParameterGroup& group, std::size_t /*index*/) override {
    if (is_of_matrices(group)) {
      update_matrices(group);
    } else {
      update_others(group, group.advance());
    }
  }

  [[nodiscard]] bool has_momentum() const override { return true; }
  void use_momentum(double momentum) override { options_.momentum = momentum; }

 private:
  static constexpr std::size_t kAverage = 0;
  static constexpr std::size_t kSquare = 1;  // for AdamW only

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
      if (options_.normalize_weights) scale_to_rows(parameter);
      // The product with the learning rate is not rounded to bfloat16: torch passes the rate as
      // alpha.
      const at::Tensor direction = directions[i].flatten(1);
      const at::Tensor step = orthogonalize(direction, options_).to(parameter.scalar_type());
      const double factor = lr_factor(options_.adjust_lr_fn, direction);
      parameter.sub_(step.mul(group.lr * factor).reshape_as(parameter));
    }
  }

  /// Scales the norm to the root of the number of rows, which an orthogonalized update has, too.
  void scale_to_rows(const at::Tensor& parameter) const {
    const double norm = std::sqrt(static_cast<double>(parameter.size(0)));
    parameter.mul_(
        at::linalg_vector_norm(parameter).clamp_min_(options_.eps).reciprocal_().mul_(norm));
  }

  void update_others(const ParameterGroup& group, at::TensorList steps) const {
    const auto& [decay, square_decay] = options_.adamw_betas;
    at::_fused_adamw_(group.parameters(), group.gradients(), group.state(kAverage),
                      group.state(kSquare), {}, steps, group.lr, decay, square_decay,
                      group.weight_decay(), options_.adamw_eps, /*amsgrad=*/false,
                      /*maximize=*/false, /*grad_scale=*/{}, /*found_inf=*/{});
  }

  spec::optimizer::Muon options_;
};

}  // namespace

void register_optimizer_muon(stage::Catalog& catalog) {
  catalog.optimizers.add_class<spec::optimizer::Muon, Muon>("muon");
}

}  // namespace trainctl::stages
