#pragma once

#include "spec/optimizer/base.hpp"

#include <array>

namespace trainctl::spec::optimizer {

enum class AdjustLr { original, match_rms_adamw };
constexpr std::array<const char*, 2> enum_names(AdjustLr) {
  return {"original", "match_rms_adamw"};
}

struct Muon : Base {
  static constexpr auto kSummary =
      "Muon (Jordan et al. 2024), as torch.optim.Muon: momentum whose matrices are made "
      "orthogonal; AdamW for every parameter that is no matrix; decoupled weight decay.";

  double momentum = 0.95;
  bool nesterov = true;
  std::int64_t ns_steps = 5;
  double eps = 1e-7;
  AdjustLr adjust_lr = AdjustLr::original;
  std::vector<std::string> adamw_on{"*embed*", "*wte.*", "*wpe.*", "*head*"};
  std::optional<double> adamw_lr;
  std::array<double, 2> adamw_betas{0.9, 0.999};
  double adamw_eps = 1e-8;

  Muon() { weight_decay = 0.1; }
  static void describe(config::Describe<Muon>& options) {
    options.include<Base>();
    options.field("momentum", &Muon::momentum, "Momentum factor.").at_least(0).below(1);
    options.field("nesterov", &Muon::nesterov, "Nesterov momentum.");
    options.field("ns_steps", &Muon::ns_steps, "Newton-Schulz iterations.").at_least(1).at_most(99);
    options.field("eps", &Muon::eps, "The least length a matrix is divided by.").above(0);
    options.field("adjust_lr", &Muon::adjust_lr,
                  "Factor of a matrix's rate. original: sqrt(max(1, rows / columns)); "
                  "match_rms_adamw: 0.2 sqrt(max(rows, columns)), so that AdamW's rate fits "
                  "(Liu et al. 2025).");
    options.field("adamw_on", &Muon::adamw_on,
                  "Matrices that AdamW updates too: names or layers, with *, ? and [...]; those of "
                  "embeddings and of the output layer should be.");
    options.field("adamw_lr", &Muon::adamw_lr, "AdamW's rate; null: lr.").above(0).example("3e-4");
    options.field("adamw_betas", &Muon::adamw_betas, "AdamW's decay rates.").at_least(0).below(1);
    options.field("adamw_eps", &Muon::adamw_eps, "Added to AdamW's denominator.").at_least(0);
  }
};

}  // namespace trainctl::spec::optimizer
