#include "base/error.hpp"
#include "support/catch.hpp"
#include "train/fake_run.hpp"
#include "train/state/weights.hpp"

#include <algorithm>

using namespace trainctl;

namespace {

/// Saves a file with the tensors of a FakeModel: weight [3, 6], bias [3], batches.
std::filesystem::path saved(const TempFolder& folder, const at::Tensor& weight,
                            const at::Tensor& bias) {
  train::save_weights(folder / "w.safetensors",
                      {{"weight", weight}, {"bias", bias}, {"batches", torch::tensor(7)}}, {});
  return folder / "w.safetensors";
}

bool makes_gradient(const at::Tensor& parameter) {
  return parameter.requires_grad() && parameter.grad().defined();
}

}  // namespace

TEST_CASE("load_weights: the model's tensors are overwritten in place") {
  TempFolder folder;
  FakeModel model;
  const void* place = model.weight.data_ptr();
  const at::Tensor weight = torch::randn({6, 3}).t();
  events::WeightsSet reported;
  train::load_weights(model, saved(folder, weight, torch::ones({3})), {.outputs = 3}, reported);
  CHECK(torch::equal(model.weight, weight));
  CHECK(torch::equal(model.bias, torch::ones({3})));
  CHECK(model.batches.item<std::int64_t>() == 7);
  CHECK(model.weight.data_ptr() == place);
  CHECK(model.weight.requires_grad());
  CHECK(model.weight.is_leaf());
  CHECK(reported.loaded == std::vector<std::string>{"weight", "bias", "batches"});
  CHECK(reported.notes.empty());
}

TEST_CASE("load_weights: 16-bit weights become float32, and a note reports it") {
  TempFolder folder;
  FakeModel model;
  events::WeightsSet reported;
  const at::Tensor weight = torch::randn({3, 6}).to(torch::kBFloat16);
  train::load_weights(model, saved(folder, weight, torch::ones({3}, torch::kHalf)), {.outputs = 3},
                      reported);
  CHECK(torch::equal(model.weight, weight.to(torch::kFloat)));
  CHECK(reported.notes == std::vector<std::string>{"1 tensor converted from BF16 to F32",
                                                   "1 tensor converted from F16 to F32"});
}

TEST_CASE("load_weights: weights of another shape are an error and leave the model unchanged") {
  TempFolder folder;
  FakeModel model;
  const at::Tensor before = model.weight.detach().clone();
  events::WeightsSet reported;
  CHECK_THROWS_WITH(train::load_weights(model, saved(folder, torch::ones({3, 5}), torch::ones({3})),
                                        {.outputs = 3}, reported),
                    Contains("weight has the shape 3x5 in the file and 3x6 in the model"));
  CHECK(torch::equal(model.weight, before));
}

TEST_CASE("freeze: frozen parameters have no gradient and do not change") {
  FakeRun run;
  const at::Tensor weight = run.model.weight.detach().clone();
  CHECK(train::freeze(run.model, {"weight"}) == std::vector<std::string>{"weight"});
  run.run();
  CHECK(torch::equal(run.model.weight, weight));
  CHECK_FALSE(makes_gradient(run.model.weight));
  CHECK_FALSE(torch::equal(run.model.bias, torch::zeros({3})));
  CHECK_THROWS_WITH(train::freeze(run.model, {"wieght"}), Contains("hint: use 'weight'"));
}

TEST_CASE("unfreeze_at: parameters change only from their epoch on, with a fresh optimizer state") {
  FakeRun run;
  const at::Tensor weight = run.model.weight.detach().clone();
  run.freeze_weight_until(2);
  run.options.max_epochs = 3;
  std::vector<bool> has_changed;
  run.on_event = [&](const events::Event& event) {
    if (std::holds_alternative<events::EpochEnded>(event))
      has_changed.push_back(!torch::equal(run.model.weight, weight));
  };
  run.run();
  CHECK(has_changed == std::vector{false, false, true});
  CHECK(makes_gradient(run.model.weight));
}

TEST_CASE("unfreeze_at: until their epoch, parameters are as if they were frozen for good") {
  FakeRun frozen;
  train::freeze(frozen.model, {"weight"});
  FakeRun later;
  later.freeze_weight_until(2);
  frozen.options.max_epochs = later.options.max_epochs = 2;
  CHECK(later.run().parameter_digest == frozen.run().parameter_digest);
}

TEST_CASE("unfreeze_at: patterns must match frozen parameters, each once") {
  const auto unfreeze = [](const std::vector<std::string>& frozen,
                           const std::vector<spec::Unfreeze>& stages) {
    const FakeModel model;
    train::freeze(model, frozen);
    return train::unfreeze_later(model, stages);
  };
  CHECK(unfreeze({}, {}).empty());
  CHECK(unfreeze({"weight"}, {{.epoch = 3, .match = {"w*"}}}).front().epoch == 3);
  CHECK_THROWS_WITH(
      unfreeze({"weight"}, {{.match = {"wieght"}}}),
      Contains("unfreeze_at: the model has no parameter 'wieght'\nhint: use 'weight'"));
  CHECK_THROWS_WITH(unfreeze({"weight"}, {{.match = {"bias"}}}),
                    Contains("unfreeze_at: 'bias' is not frozen\nhint: add it to 'freeze'"));
  CHECK_THROWS_WITH(unfreeze({"weight"}, {{.match = {"weight"}}, {.match = {"*t"}}}),
                    Contains("'weight' is in two entries"));
  CHECK_THROWS_WITH(unfreeze({"*"}, {{.match = {"weight"}}}),
                    Contains("nothing to train in the first epoch"));
}
