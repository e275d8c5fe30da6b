#pragma once

#include "spec/optimizer/base.hpp"

#include <array>

namespace trainctl::spec::optimizer {

enum class AdjustLrFn { original, match_rms_adamw };
constexpr std::array<const char*, 2> enum_names(AdjustLrFn) {
  return {"original", "match_rms_adamw"};
}

enum class NewtonSchulzDtype { bfloat16, float32 };
constexpr std::array<const char*, 2> enum_names(NewtonSchulzDtype) {
  return {"bfloat16", "float32"};
}

struct Muon : Base {
  static constexpr auto kSummary =
      "Muon (Jordan et al. 2024), as torch.optim.Muon: orthogonalized momentum for matrices, AdamW "
      "for every other parameter; decoupled weight decay.";

  double momentum = 0.95;
  bool nesterov = true;
  std::array<double, 3> ns_coefficients{3.4445, -4.775, 2.0315};
  double eps = 1e-7;
  std::int64_t ns_steps = 5;
  AdjustLrFn adjust_lr_fn = AdjustLrFn::original;
  NewtonSchulzDtype ns_dtype = NewtonSchulzDtype::bfloat16;
  std::vector<std::string> adamw_on{"*embed*", "*wte.*", "*wpe.*", "*head*"};
  std::optional<double> adamw_lr;
  std::array<double, 2> adamw_betas{0.9, 0.999};
  double adamw_eps = 1e-8;

  Muon() { weight_decay = 0.1; }
  static void describe(config::Describe<Muon>& options) {
    options.include<Base>();
    options.field("momentum", &Muon::momentum, "Momentum factor.").at_least(0).below(1);
    options.field("nesterov", &Muon::nesterov, "Nesterov momentum.");
    options.field("ns_coefficients", &Muon::ns_coefficients,
                  "Coefficients of the Newton-Schulz polynomial a x + b x^3 + c x^5.");
    options
        .field("eps", &Muon::eps, "Lower bound of the norm by which a matrix is divided at first.")
        .above(0);
    options.field("ns_steps", &Muon::ns_steps, "Number of Newton-Schulz iterations.")
        .at_least(1)
        .at_most(99);
    options.field("adjust_lr_fn", &Muon::adjust_lr_fn,
                  "Factor of a matrix's learning rate. original: sqrt(max(1, rows / columns)); "
                  "match_rms_adamw: 0.2 sqrt(max(rows, columns)), which suits AdamW's learning "
                  "rates (Liu et al. 2025).");
    options.field("ns_dtype", &Muon::ns_dtype,
                  "Number format of the Newton-Schulz iterations; PyTorch's is bfloat16.");
    options.field("adamw_on", &Muon::adamw_on,
                  "Matrices that AdamW updates too: names or layers, with *, ? and [...]; those of "
                  "embeddings and of the output layer should be.");
    options.field("adamw_lr", &Muon::adamw_lr, "AdamW's rate; null: lr.").above(0).example("3e-4");
    options.field("adamw_betas", &Muon::adamw_betas, "AdamW's decay rates.").at_least(0).below(1);
    options.field("adamw_eps", &Muon::adamw_eps, "Added to AdamW's denominator.").at_least(0);
  }
};

}  // namespace trainctl::spec::optimizer
