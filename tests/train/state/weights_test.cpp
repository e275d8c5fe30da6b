#include "train/state/weights.hpp"

#include "base/safetensors.hpp"
#include "support/catch.hpp"
#include "support/temp_folder.hpp"

#include <torch/types.h>

#include <cmath>

using namespace trainctl;

TEST_CASE("Snapshot: restores the weights in place") {
  const at::Tensor weight = torch::ones({3}, torch::requires_grad());
  const void* place = weight.data_ptr();
  train::Snapshot snapshot({{"weight", weight}});
  snapshot.take();
  {
    const torch::NoGradGuard guard;
    weight.fill_(7);
  }
  snapshot.restore();
  CHECK(torch::equal(weight, torch::ones({3})));
  CHECK(weight.data_ptr() == place);
}

TEST_CASE("save_weights: shape, dtype and values are saved for any memory layout") {
  TempFolder folder;
  const at::Tensor transposed = torch::arange(6, torch::kFloat).view({2, 3}).t();
  train::save_weights(folder / "w.safetensors", {{"w", transposed}, {"count", torch::tensor(5)}},
                      {{"epoch", "2"}});
  const safetensors::File file(folder / "w.safetensors");
  REQUIRE(file.tensors().size() == 2);
  CHECK(file.tensors()[0].shape == std::vector<std::int64_t>{3, 2});
  const auto* values = reinterpret_cast<const float*>(file.tensors()[0].bytes.data());
  CHECK(std::vector<float>(values, values + 6) == std::vector<float>{0, 3, 1, 4, 2, 5});
  CHECK(file.tensors()[1].dtype == "I64");
}

TEST_CASE("not_finite: returns the name of a non-finite tensor and ignores integers") {
  const double bad = GENERATE(std::nan(""), HUGE_VAL, -HUGE_VAL);
  const at::Tensor good = torch::arange(100, torch::kFloat);
  const at::Tensor corrupted = good.clone();
  corrupted[57] = bad;
  CHECK(train::not_finite({{"a", good}, {"count", torch::tensor(5)}, {"none", torch::zeros({0})}})
            .empty());
  CHECK(train::not_finite({{"a", good}, {"b", corrupted}}) == "b");
  CHECK(train::not_finite({}).empty());
}

TEST_CASE("digest_weights: depends only on names and values") {
  const at::Tensor a = torch::arange(6, torch::kFloat).view({2, 3});
  const std::string digest = train::digest_weights({{"w", a}});
  CHECK(train::digest_weights({{"w", a.t().contiguous().t()}}) == digest);
  CHECK(train::digest_weights({{"v", a}}) != digest);
  CHECK(train::digest_weights({{"w", a + 1}}) != digest);
}
