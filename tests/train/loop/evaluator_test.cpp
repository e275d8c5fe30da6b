#include "train/loop/evaluator.hpp"

#include "support/catch.hpp"
#include "train/fake_run.hpp"

using namespace trainctl;

namespace {

/// Returns the logits of the validation images with these views.
at::Tensor logits_with(FakeRun& run, std::optional<spec::TestTimeAugmentation> views) {
  train::Options options;
  options.test_time_augmentation = views;
  train::Evaluator evaluator({run.model, run.loss, run.metrics, *run.validation, "val",
                              run.sizes.batch, *run.communicator},
                             options);
  std::vector<at::Tensor> all;
  const auto done = evaluator.run(
      std::nullopt, [](std::int64_t) { return true; },
      [&](const data::Batch&, const at::Tensor& logits) { all.push_back(logits.clone()); });
  REQUIRE(done);
  return torch::cat(all);
}

/// Returns pixel (row, column) of 2x3 images, which are reflected at their border, as a column.
at::Tensor pixel(const at::Tensor& images, std::int64_t row, std::int64_t column) {
  const auto inside = [](std::int64_t at, std::int64_t extent) {
    return at < 0 ? -at : at >= extent ? 2 * (extent - 1) - at : at;
  };
  return images.select(2, inside(row, 2)).select(2, inside(column, 3));
}

/// Returns the images moved by that many pixels, down and to the right.
at::Tensor moved(const at::Tensor& images, std::int64_t pixels) {
  at::Tensor out = torch::empty_like(images);
  for (std::int64_t row = 0; row < 2; ++row) {
    for (std::int64_t column = 0; column < 3; ++column)
      out.select(2, row).select(2, column).copy_(pixel(images, row - pixels, column - pixels));
  }
  return out;
}

at::Tensor images_of(FakeRun& run) {
  std::vector<at::Tensor> all;
  run.validation->start_epoch(0);
  while (const data::Batch* batch = run.validation->next()) {
    const auto* bytes = reinterpret_cast<const std::uint8_t*>(batch->fields[0].data());
    for (std::int64_t i = 0; i < batch->rows * 6; ++i)
      all.push_back(torch::full({1}, static_cast<float>(bytes[i]) / 255));
  }
  return torch::cat(all).view({-1, 1, 2, 3});
}

}  // namespace

TEST_CASE("test_time_augmentation: logits are means over mirrored and moved images") {
  FakeRun run;
  const at::Tensor images = images_of(run);
  const auto logits_of = [&](const at::Tensor& views) {
    const torch::NoGradGuard guard;
    return run.model.forward(views);
  };
  const auto flipped = [&](const at::Tensor& views) {
    return (logits_of(views) + logits_of(views.flip(3))) / 2;
  };
  CHECK(logits_with(run, std::nullopt).allclose(logits_of(images), 1e-5, 1e-6));
  CHECK(logits_with(run, spec::TestTimeAugmentation{}).allclose(flipped(images), 1e-5, 1e-6));
  const at::Tensor both =
      flipped(images) / 2 + (flipped(moved(images, 1)) + flipped(moved(images, -1))) / 4;
  CHECK(logits_with(run, spec::TestTimeAugmentation{true, 1}).allclose(both, 1e-5, 1e-6));
  const at::Tensor shifted =
      logits_of(images) / 2 + (logits_of(moved(images, 1)) + logits_of(moved(images, -1))) / 4;
  CHECK(logits_with(run, spec::TestTimeAugmentation{false, 1}).allclose(shifted, 1e-5, 1e-6));
  CHECK_FALSE(both.allclose(shifted, 1e-3, 1e-3));
}

TEST_CASE("test_time_augmentation: images that are too small to move are an error") {
  FakeRun run;
  CHECK_THROWS_WITH(
      logits_with(run, spec::TestTimeAugmentation{true, 2}),
      Contains("requires images that are larger than 'translate'") && Contains("[1, 2, 3]"));
}
