#include "train/measure/sample_grid.hpp"

#include "base/files.hpp"
#include "data/image/codec/png.hpp"
#include "data/inspect/contact_sheet.hpp"
#include "device/host_read.hpp"
#include "train/step/forward.hpp"

#include <ATen/TensorOperators.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/constant_pad_nd.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/tensor.h>
#include <c10/core/InferenceMode.h>
#include <fmt/format.h>

#include <algorithm>
#include <cinttypes>
#include <cmath>
#include <cstdio>

namespace trainctl::train {
namespace {

constexpr const char* kPlace = "samples of the model";  // of the host waits
constexpr int kWhite = 255;

/// Returns the color of each class as uint8 [256, 3].
at::Tensor palette() {
  at::Tensor colors = at::empty({spec::kIgnoredPixel + 1, 3}, at::kByte);
  auto* value = colors.mutable_data_ptr<std::uint8_t>();
  for (int label = 0; label <= spec::kIgnoredPixel; ++label)
    value = std::ranges::copy(data::class_color(static_cast<std::uint8_t>(label)), value).out;
  return colors;
}

/// Returns images [N, C, H, W] as uint8 [N, H, W, 3]; only the first of other than 3 channels.
at::Tensor rgb_of(at::Tensor images, const std::optional<data::Normalization>& normalization) {
  if (normalization) {
    const auto of_channels = [&](const std::vector<float>& values) {
      return at::tensor(values).narrow(0, 0, images.size(1)).view({-1, 1, 1});
    };
    images = images * of_channels(normalization->std) + of_channels(normalization->mean);
  }
  if (images.size(1) != 3) images = images.narrow(1, 0, 1).expand({-1, 3, -1, -1});
  return (images * kWhite).round().clamp(0, kWhite).to(at::kByte).permute({0, 2, 3, 1});
}

/// Resizes pictures [N, H, W, 3] without interpolation, so that they are not too small to be seen.
at::Tensor resized(at::Tensor pictures) {
  constexpr std::int64_t kLongestSide = 128;
  const std::int64_t longest = std::max(pictures.size(1), pictures.size(2));
  for (const std::int64_t dim : {1, 2}) {
    const std::int64_t side =
        std::max(pictures.size(dim) * kLongestSide / longest, std::int64_t{1});
    const at::Tensor positions = at::arange(side) * pictures.size(dim) / side;
    pictures = pictures.index_select(dim, positions.to(at::kLong));
  }
  constexpr std::int64_t kGap = 2;
  return at::constant_pad_nd(pictures, {0, 0, kGap, kGap, kGap, kGap}, kWhite);
}

/// Arranges pictures [N, H, W, 3] in about as many rows as columns.
at::Tensor grid_of(at::Tensor pictures) {
  const std::int64_t count = pictures.size(0);
  const auto columns = static_cast<std::int64_t>(std::ceil(std::sqrt(static_cast<double>(count))));
  const std::int64_t rows = (count + columns - 1) / columns;
  pictures = at::constant_pad_nd(pictures, {0, 0, 0, 0, 0, 0, 0, rows * columns - count}, kWhite);
  return pictures.unflatten(0, {rows, columns}).transpose(1, 2).flatten(2, 3).flatten(0, 1);
}

}  // namespace

at::Tensor draw_masks(const at::Tensor& masks, const device::DeviceBatch& batch,
                      const std::optional<data::Normalization>& normalization) {
  constexpr std::int64_t kMost = 9;
  const std::int64_t count = std::min(batch.valid, kMost);
  if (!masks.defined() || count == 0) return {};
  const auto first = [&](const at::Tensor& all) {
    return device::copy_to_host(all.narrow(0, 0, count), kPlace);
  };
  const at::Tensor colors = palette().index({first(masks)});
  const at::Tensor images = rgb_of(first(batch.inputs), normalization);
  return at::cat({resized(images), resized(colors.select(1, 0)), resized(colors.select(1, 1))}, 2);
}

/// Returns uint8 [N, H, W, 3]; undefined without samples, and if nothing was drawn in this epoch.
at::Tensor SampleGrid::samples(std::int64_t epoch) const {
  if (validation_ != nullptr && validation_->drawing().defined())
    return (epoch + 1) % options_.validate_every == 0 ? validation_->drawing() : at::Tensor();
  const EvaluationMode mode(session_.model);
  const c10::InferenceMode guard;
  PlainTools tools(session_.model, session_.loss, options_.forward, stage::RunMode::evaluate);
  const at::Tensor images = session_.task.samples(tools);
  return images.defined()
             ? rgb_of(device::copy_to_host(images, kPlace), session_.train.normalization())
             : images;
}

void SampleGrid::on_run_begin(LoopState& state) {
  if (!std::filesystem::is_directory(folder())) return;
  for (const auto& file : std::filesystem::directory_iterator(folder())) {
    std::int64_t epoch = 0;
    if (std::sscanf(file.path().filename().c_str(), "epoch-%" SCNd64 ".png", &epoch) == 1 &&
        epoch > state.position.epoch)
      std::filesystem::remove(file.path());
  }
}

void SampleGrid::on_validation_end(LoopState& state) {
  const at::Tensor images = samples(state.position.epoch);
  if (!images.defined()) return;
  const at::Tensor grid = grid_of(images).contiguous();
  make_folder(folder());
  data::write_png(
      folder() / fmt::format("epoch-{:04}.png", state.position.epoch + 1),
      data::ImageView(grid.const_data_ptr<std::uint8_t>(), {grid.size(0), grid.size(1), 3}));
}

}  // namespace trainctl::train
