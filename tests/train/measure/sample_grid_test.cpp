#include "train/measure/sample_grid.hpp"

#include "support/catch.hpp"
#include "train/fake_run.hpp"

#include <torch/types.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <memory>
#include <string>
#include <vector>

using namespace trainctl;

namespace {

struct DrawsMasks final : stage::Task {
  [[nodiscard]] at::Tensor masks(const stage::TaskResult& result) const override {
    const auto size = result.batch.inputs.sizes();
    return torch::zeros({size[0], 2, size[2], size[3]}, torch::kLong);
  }
};

}  // namespace

TEST_CASE("draw_masks: shows each image as before normalize, with both masks in their colors") {
  // Two images of 2x4 pixels with the mask as their last channel, which is not an image channel.
  device::DeviceBatch batch;
  batch.inputs = torch::full({3, 3, 2, 4}, 0.5);
  batch.valid = 2;
  at::Tensor masks = torch::zeros({3, 2, 2, 4}, torch::kLong);
  masks[1][0].fill_(1);    // predicted
  masks[1][1].fill_(255);  // does not count
  const data::Normalization scale{{0.25F, 0.25F, 0.25F, 0}, {0.5F, 0.5F, 0.5F, 1}};
  const at::Tensor drawn = train::draw_masks(masks, batch, scale);
  // Each picture is enlarged to 64x128 pixels, with a gap of 2 pixels around it.
  REQUIRE(drawn.sizes() == at::IntArrayRef({2, 68, 3 * 132, 3}));
  const auto is_filled = [&](std::int64_t sample, std::int64_t picture, int r, int g, int b) {
    const at::Tensor inside =
        drawn[sample].slice(0, 2, 66).slice(1, 132 * picture + 2, 132 * picture + 130);
    return inside.eq(torch::tensor({r, g, b}, torch::kByte)).all().item<bool>();
  };
  CHECK(is_filled(0, 0, 128, 128, 128));
  CHECK(is_filled(0, 1, 0x00, 0x72, 0xb2));
  CHECK(is_filled(1, 1, 0xd5, 0x5e, 0x00));
  CHECK(is_filled(1, 2, 255, 255, 255));
  CHECK_FALSE(train::draw_masks({}, batch, scale).defined());
}

TEST_CASE("SampleGrid: only epochs of this run with a validation have a picture of masks") {
  FakeRun run;
  run.task = std::make_unique<DrawsMasks>();
  run.options.max_epochs = 3;
  run.options.validate_every = 2;
  run.options.sanity_steps = 1;
  std::filesystem::create_directories(run.folder / "samples");
  for (const char* name : {"epoch-0009.png", "epoch-10000.png", "note.txt"})
    std::ofstream(run.folder / "samples" / name) << "from a run that went further";
  run.run();
  std::vector<std::string> files;
  for (const auto& file : std::filesystem::directory_iterator(run.folder / "samples"))
    files.push_back(file.path().filename().string());
  std::ranges::sort(files);
  CHECK(files == std::vector<std::string>{"epoch-0002.png", "note.txt"});
}
