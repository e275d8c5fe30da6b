#include "stage/forward_context.hpp"

#include <ATen/ops/_foreach_add.h>

#include <algorithm>
#include <utility>
#include <vector>

namespace trainctl::stage {
namespace {

thread_local BatchOfRanks current;
thread_local bool collects = false;
thread_local std::vector<at::Tensor> counters;  // keeps its memory
thread_local std::optional<double> current_loss_gradient;

}  // namespace

const BatchOfRanks& batch_of_ranks() { return current; }

BatchOfRanksScope::BatchOfRanksScope(const BatchOfRanks& batch)
    : was_(std::exchange(current, batch)) {}

BatchOfRanksScope::~BatchOfRanksScope() { current = was_; }

/// A layer that is used twice counts twice, but a kernel must not add to one counter twice.
void increment(const at::Tensor& counter) {
  const auto is_it = [&](const at::Tensor& other) { return other.is_same(counter); };
  if (!collects || std::ranges::any_of(counters, is_it)) {
    counter.add_(1);
  } else {
    counters.push_back(counter);
  }
}

CounterScope::CounterScope() { collects = true; }

CounterScope::~CounterScope() {
  collects = false;
  counters.clear();
}

void CounterScope::add() const {
  if (!counters.empty()) at::_foreach_add_(counters, 1);
  counters.clear();
}

std::optional<double> loss_gradient() { return current_loss_gradient; }

LossGradientScope::LossGradientScope(std::optional<double> factor)
    : was_(std::exchange(current_loss_gradient, factor)) {}

LossGradientScope::~LossGradientScope() { current_loss_gradient = was_; }

}  // namespace trainctl::stage
