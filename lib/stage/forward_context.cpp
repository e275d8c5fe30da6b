#include "stage/forward_context.hpp"

#include <utility>

namespace trainctl::stage {
namespace {

thread_local BatchOfRanks current;

}  // namespace

const BatchOfRanks& batch_of_ranks() { return current; }

BatchOfRanksScope::BatchOfRanksScope(const BatchOfRanks& batch)
    : was_(std::exchange(current, batch)) {}

BatchOfRanksScope::~BatchOfRanksScope() { current = was_; }

}  // namespace trainctl::stage
