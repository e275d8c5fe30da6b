#include "stage/forward_context.hpp"

#include <utility>

namespace trainctl::stage {
namespace {

thread_local BatchOfRanks current;
thread_local std::optional<double> current_loss_gradient;

}  // namespace

const BatchOfRanks& batch_of_ranks() { return current; }

BatchOfRanksScope::BatchOfRanksScope(const BatchOfRanks& batch)
    : was_(std::exchange(current, batch)) {}

BatchOfRanksScope::~BatchOfRanksScope() { current = was_; }

std::optional<double> loss_gradient() { return current_loss_gradient; }

LossGradientScope::LossGradientScope(std::optional<double> factor)
    : was_(std::exchange(current_loss_gradient, factor)) {}

LossGradientScope::~LossGradientScope() { current_loss_gradient = was_; }

}  // namespace trainctl::stage
