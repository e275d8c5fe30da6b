#include "support/catch.hpp"
#include "train/debug/tensor_stats.hpp"
#include "train/state/weights.hpp"

#include <ATen/Parallel.h>
#include <torch/types.h>

#include <cmath>
#include <limits>
#include <string>
#include <vector>

using namespace trainctl;

namespace {

constexpr float kInf = std::numeric_limits<float>::infinity();

}  // namespace

TEST_CASE("all_finite: one value that is not finite is found at any position") {
  // Sizes near a block of the loop, and near the share of one thread.
  for (const std::int64_t count : {1, 2, 1023, 1024, 1025, 5000, (1 << 18) + 1, 1 << 20}) {
    at::Tensor values = torch::full({count}, -1.5F);
    CHECK(train::all_finite(values));
    for (const float bad : {kInf, -kInf, std::nanf(""), -std::nanf("")}) {
      for (const std::int64_t place : {std::int64_t{0}, count / 3, count / 2, count - 1}) {
        values[place] = bad;
        INFO(bad << ", element " << place << " of " << count);
        CHECK_FALSE(train::all_finite(values));
        values[place] = 0.0F;
      }
    }
    CHECK(train::all_finite(values));
  }
}

TEST_CASE("all_finite: the bytes of a tensor are checked by their dtype") {
  for (const at::ScalarType type : {at::kFloat, at::kDouble, at::kHalf, at::kBFloat16}) {
    const std::string dtype = train::dtype_name(type);
    CAPTURE(dtype);
    const at::Tensor values = torch::tensor({0.0, -1.5, 60000.0}).to(type);
    CHECK(train::all_finite(train::bytes_of(values), dtype));
    for (const float bad : {kInf, -kInf, std::nanf("")}) {
      values[2] = bad;
      CHECK_FALSE(train::all_finite(train::bytes_of(values), dtype));
    }
  }
  const at::Tensor whole = torch::full({2}, std::int64_t{0x7ff0000000000000});
  CHECK(train::all_finite(train::bytes_of(whole), "I64"));
}

TEST_CASE("all_finite: every element of a block is checked") {
  at::Tensor values = torch::zeros({1030});
  auto* data = values.mutable_data_ptr<float>();
  for (std::int64_t place = 0; place < values.numel(); ++place) {
    data[place] = kInf;
    REQUIRE_FALSE(train::all_finite(values));
    data[place] = 0;
  }
}

TEST_CASE("all_finite: zeros, denormals and the largest floats are finite, in any number") {
  using Limits = std::numeric_limits<float>;
  for (const float fine : {0.0F, -0.0F, Limits::denorm_min(), -Limits::denorm_min(), Limits::min(),
                           Limits::max(), Limits::lowest()})
    CHECK(train::all_finite(torch::full({4100}, fine)));
}

TEST_CASE("all_finite: one and two threads have the same result") {
  const int before = at::get_num_threads();
  at::Tensor values = torch::zeros({1 << 20});
  for (const int threads : {1, 2}) {
    at::set_num_threads(threads);
    for (const std::int64_t place : {0, (1 << 19) - 1, 1 << 19, (1 << 20) - 1}) {
      values[place] = std::nanf("");
      CHECK_FALSE(train::all_finite(values));
      values[place] = 0.0F;
      CHECK(train::all_finite(values));
    }
  }
  at::set_num_threads(before);
}

TEST_CASE("all_finite: empty tensors are finite") {
  CHECK(train::all_finite(torch::zeros({0})));
  CHECK(train::all_finite(torch::zeros({3, 0, 2}, torch::kDouble)));
  CHECK(train::all_finite(std::vector<at::Tensor>{}));
}

TEST_CASE("all_finite: only the elements of a view are checked") {
  const at::Tensor all = torch::zeros({4, 3});
  all[1][1] = kInf;
  CHECK(train::all_finite(all.select(1, 0)));
  CHECK_FALSE(train::all_finite(all.select(1, 1)));
  CHECK_FALSE(train::all_finite(all.t()));
  CHECK(train::all_finite(all.narrow(0, 2, 2)));
  CHECK(train::all_finite(torch::ones({1}).expand({5})));
  CHECK_FALSE(train::all_finite(torch::full({1}, kInf).expand({5})));
  at::Tensor last = torch::zeros({2, 3, 4, 4}).contiguous(at::MemoryFormat::ChannelsLast);
  CHECK(train::all_finite(last));
  last[1][2][3][3] = kInf;
  CHECK_FALSE(train::all_finite(last));
}

TEST_CASE("all_finite: other dtypes are checked") {
  for (const auto type : {torch::kBFloat16, torch::kHalf, torch::kDouble}) {
    at::Tensor values = torch::ones({70}, type);
    CHECK(train::all_finite(values));
    values[69] = kInf;
    CHECK_FALSE(train::all_finite(values));
    values[69] = std::nan("");
    CHECK_FALSE(train::all_finite(values));
  }
  CHECK(train::all_finite(torch::full({3}, 1e300, torch::kDouble)));  // exceeds float32
  CHECK(train::all_finite(torch::ones({3}, torch::kLong)));
}

TEST_CASE("all_finite: one bad tensor of several is found") {
  const std::vector<at::Tensor> fine{torch::ones({3}), torch::ones({2}, torch::kBFloat16)};
  CHECK(train::all_finite(fine));
  CHECK_FALSE(train::all_finite({fine[0], fine[1], torch::full({1}, kInf)}));
}
