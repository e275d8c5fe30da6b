#include "study/predict/prediction_rows.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <string_view>

namespace trainctl::study {
namespace {

using Names = std::span<const std::string_view>;

constexpr std::array<std::string_view, 4> kSoftmaxLosses{"cross_entropy", "nll", "focal",
                                                         "kl_div_with_logits"};
constexpr std::array<std::string_view, 4> kPlainLosses{"mse", "l1", "smooth_l1", "huber"};

bool is_one_of(Names names, const std::string& loss) {
  return std::ranges::find(names, loss) != names.end();
}

/// Of a loss that is not built in nothing is known but what it learns from.
Scale scale_of(const std::string& loss, spec::Targets targets) {
  if (loss == "bce_with_logits") return Scale::sigmoid;
  if (loss == "focal" && targets == spec::Targets::numbers) return Scale::sigmoid;
  if (is_one_of(kSoftmaxLosses, loss)) return Scale::softmax;
  if (is_one_of(kPlainLosses, loss)) return Scale::none;
  return targets == spec::Targets::numbers ? Scale::none : Scale::softmax;
}

void softmax(std::span<const float> logits, std::vector<float>& out) {
  const double most = logits[largest(logits)];
  double sum = 0;
  for (const float logit : logits) sum += std::exp(static_cast<double>(logit) - most);
  for (const float logit : logits)
    out.push_back(static_cast<float>(std::exp(static_cast<double>(logit) - most) / sum));
}

}  // namespace

Meaning meaning_of(const config::Stage& loss, spec::Targets targets) {
  const Scale scale = scale_of(loss.type, targets);
  return {scale, scale == Scale::softmax || targets == spec::Targets::classes};
}

std::vector<float> probabilities(std::span<const float> logits, Scale scale) {
  std::vector<float> out;
  out.reserve(logits.size());
  if (scale == Scale::softmax && !logits.empty()) {
    softmax(logits, out);
  } else {
    for (const float logit : logits)
      out.push_back(static_cast<float>(1 / (1 + std::exp(-static_cast<double>(logit)))));
  }
  return out;
}

std::size_t largest(std::span<const float> logits) {
  const auto below = [](float a, float b) { return !std::isnan(a) && (std::isnan(b) || a < b); };
  return static_cast<std::size_t>(std::ranges::max_element(logits, below) - logits.begin());
}

}  // namespace trainctl::study
