#include "dist/communicator.hpp"
#include "spec/experiment/distributed.hpp"
#include "support/catch.hpp"
#include "support/rank_group.hpp"

#include <torch/types.h>

#include <numeric>
#include <string>
#include <vector>

using namespace trainctl;

namespace {

std::vector<at::Tensor> parameters_of(const std::vector<std::int64_t>& elements) {
  std::vector<at::Tensor> parameters;
  for (const std::int64_t size : elements)
    parameters.push_back(torch::zeros({size}, torch::requires_grad()));
  return parameters;
}

std::vector<std::int64_t> bytes_of(std::vector<std::int64_t> elements) {
  for (std::int64_t& size : elements) size *= 4;
  return elements;
}

}  // namespace

TEST_CASE("bucket_layout: the planned buckets equal those that the ranks all-reduce") {
  constexpr std::int64_t kCap = 2 << 20;
  const std::vector<std::vector<std::int64_t>> models{{12544, 16, 160, 10},
                                                      {1 << 18, 1, 1 << 19, 1 << 19, 7, 1 << 20, 3},
                                                      {100, 1 << 20, 100, 1 << 20, 100},
                                                      std::vector<std::int64_t>(64, 60'000)};
  for (const auto& model : models) {
    std::vector<std::string> layouts(2);
    RankGroup group(2);
    group.run_all([&](int rank, std::unique_ptr<dist::Communicator> communicator) {
      const auto sync = communicator->sync_gradients(parameters_of(model),
                                                     {.cap_bytes = static_cast<std::size_t>(kCap)});
      layouts[static_cast<std::size_t>(rank)] = sync->layout();
    });
    CAPTURE(std::accumulate(model.begin(), model.end(), std::int64_t{0}));
    CHECK(layouts[0] == layouts[1]);
    CHECK(layouts[0] == spec::layout_text(spec::bucket_layout(bytes_of(model), kCap)));
  }
}
