#include "train/measure/recompute.hpp"

#include "base/strings.hpp"

#include <ATen/ops/zeros.h>
#include <fmt/format.h>

#include <algorithm>

namespace trainctl::train {
namespace {

constexpr double kMargin = 1.15;  // what is measured may be off by so much

std::string bytes_text(std::int64_t bytes) { return human_bytes(static_cast<double>(bytes)); }

}  // namespace

RecomputeChoice choose_recompute(const StepMemory& memory) {
  const std::int64_t left = std::max<std::int64_t>(memory.free - memory.rest, 0);
  const bool fits = kMargin * static_cast<double>(memory.activations) <= static_cast<double>(left);
  return {!fits,
          fmt::format("activations take about {} of {} free: {}", bytes_text(memory.activations),
                      bytes_text(left), fits ? "they are kept" : "blocks are recomputed")};
}

std::int64_t least_of_ranks(std::int64_t mine, dist::Communicator& communicator) {
  const dist::Place place = communicator.place();
  const at::Tensor all = at::zeros({place.world_size}, at::kLong);
  auto* values = all.mutable_data_ptr<std::int64_t>();
  values[place.rank] = mine;
  communicator.sum(all, "exchange of the memory that is free");
  return *std::min_element(values, values + place.world_size);
}

}  // namespace trainctl::train
