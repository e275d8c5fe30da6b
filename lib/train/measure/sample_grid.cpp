#include "train/measure/sample_grid.hpp"

#include "base/files.hpp"
#include "data/image/codec/png.hpp"
#include "device/host_read.hpp"
#include "stage/task.hpp"
#include "train/step/forward.hpp"

#include <ATen/TensorOperators.h>
#include <ATen/ops/tensor.h>
#include <c10/core/InferenceMode.h>
#include <fmt/format.h>

#include <cmath>

namespace trainctl::train {
namespace {

/// Arranges images [N, C, H, W] with values from 0 to 1 in a square of RGB pixels, [H', W', 3].
at::Tensor grid_of(const at::Tensor& images) {
  const auto side = static_cast<std::int64_t>(std::sqrt(static_cast<double>(images.size(0))));
  const at::Tensor rows = images.narrow(0, 0, side * side).unflatten(0, {side, side});
  const at::Tensor grid = rows.permute({0, 3, 1, 4, 2}).flatten(0, 1).flatten(1, 2);
  const at::Tensor bytes = (grid * 255).round().clamp(0, 255).to(at::kByte);
  return bytes.expand({-1, -1, 3}).contiguous();
}

}  // namespace

void SampleGrid::on_validation_end(LoopState& state) {
  const EvaluationMode mode(session_.model);
  const c10::InferenceMode guard;
  PlainTools tools(session_.model, session_.loss, options_.forward, stage::RunMode::evaluate);
  at::Tensor images = session_.task.samples(tools);
  if (!images.defined()) return;
  images = device::copy_to_host(images, "images that a model has made");
  if (const auto& scale = session_.train.normalization()) {
    const auto channels = [](const std::vector<float>& values) {
      return at::tensor(values).view({-1, 1, 1});
    };
    images = images * channels(scale->std) + channels(scale->mean);
  }
  const at::Tensor grid = grid_of(images);
  const std::filesystem::path folder = session_.run_dir / "samples";
  make_folder(folder);
  data::write_png(
      folder / fmt::format("epoch-{:04}.png", state.position.epoch + 1),
      data::ImageView(grid.const_data_ptr<std::uint8_t>(), {grid.size(0), grid.size(1), 3}));
}

}  // namespace trainctl::train
